# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What there is to do in a suite: a row for each problem, and its table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...graph_api.errors import HipdnnIreeError
from .suite import Case, Suite

__all__ = ["COLUMNS", "cells", "listed"]

COLUMNS = ("case", "dtype", "op", "inputs", "MFLOP", "MB", "targets", "source")
"""Headings of the table."""


def listed(suite: Suite, target: str = "") -> Iterator[dict[str, Any]]:
    """Yield what is known of each problem without building it for anybody.

    Parameters
    ----------
    suite : Suite
    target : str
        Only problems that make sense there.

    Yields
    ------
    dict
        ``case``, ``dtype``, ``op``, ``tags``, ``targets``, ``source``, ``digest``, ``inputs``
        (dims of each), ``flops``, ``bytes`` and ``broken`` (the problems' texts); of a broken
        case the graph's facts are None.
    """
    for case in suite.by_type(target):
        row: dict[str, Any] = {
            "case": case.name,
            "dtype": case.dtypes[0].json,
            "op": case.op,
            "tags": list(case.tags),
            "targets": list(case.targets),
            "source": case.source,
            "digest": None,
            "inputs": None,
            "flops": None,
            "bytes": None,
            "broken": [str(found) for found in case.broken],
        }
        if not case.broken:
            row |= _facts(case)
        yield row


def _facts(case: Case) -> dict[str, Any]:
    from ...jit.work import graph_work

    try:
        graph = case.freeze()
    except HipdnnIreeError as error:  # of a suite that was read without a check
        return {"broken": str(error).splitlines()}
    work = graph_work(graph)
    return {
        "digest": graph.digest,
        "inputs": [list(graph.spec(uid).dims) for uid in graph.inputs],
        "flops": work.flops,
        "bytes": work.nbytes,
    }


def cells(row: dict[str, Any]) -> list[object]:
    """Return a row of the table under `COLUMNS`."""
    if row["broken"]:
        facts: list[object] = [f"invalid: {row['broken'][0]}", "", ""]
    else:
        dims = ["x".join(map(str, some)) for some in row["inputs"]]
        text = " ".join(dims[:4]) + (" ..." if len(dims) > 4 else "")
        facts = [text, round(row["flops"] / 1e6, 2), round(row["bytes"] / 1e6, 2)]
    targets = " ".join(row["targets"]) or "all"
    return [row["case"], row["dtype"], row["op"], *facts, targets, row["source"]]
