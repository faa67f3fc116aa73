# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which problems a suite takes of another one: all, some that are drawn, or those of bounded work.

::

    include:
      - random.yaml
      - {suites: ops/*.yaml, random: {count: 40, seed: 1}}          # 40 of each file
      - {suites: networks/*.yaml, where: flops <= 2000000000}

A problem is a case in one type.  Whether one is drawn depends on its name, the seed and how many
there are, and on nothing else: a problem that is added to a file takes the place of one at most.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, UnsetType

from ...graph_api.errors import HipdnnIreeError, Problem
from ...jit.work import graph_work
from .expressions import ExpressionError, evaluate
from .graphs import problem
from .schema import DrawEntry, IncludeEntry

if TYPE_CHECKING:
    from .suite import Case

__all__ = ["RULES", "chosen"]

RULES: dict[str, str] = {
    "INCLUDE-01": "what limits included problems reads `flops`, `bytes`, `op` and `dtype`",
}


def chosen(
    cases: Sequence[Case], entry: IncludeEntry, seed: int | None = None
) -> tuple[list[Case], list[Problem]]:
    """Return the cases of a file that an entry takes, in their order, and what is wrong with it.

    Parameters
    ----------
    cases : sequence of Case
    entry : IncludeEntry
    seed : int, optional
        Instead of the entry's.
    """
    if not entry.where and entry.random is UNSET:
        return list(cases), []
    found = [typed for case in cases for typed in case.by_type()]
    try:
        found = list(_within(found, entry.conditions))
    except ExpressionError as error:
        wanted = "an expression of flops, bytes, op and dtype"
        return [], [problem("INCLUDE-01", "", "include.where", str(error), wanted, error.hint)]
    if isinstance(entry.random, UnsetType):
        return found, []
    draw = DrawEntry(count=entry.random) if isinstance(entry.random, int) else entry.random
    mine = draw.seed if seed is None else seed
    ranked = sorted(found, key=lambda case: zlib.crc32(f"{mine}:{case.name}".encode()))
    names = {case.name for case in ranked[: draw.count]}
    return [case for case in found if case.name in names], []


def _within(cases: Sequence[Case], conditions: Sequence[str]) -> Iterator[Case]:
    """Yield the cases for which the conditions hold, and those that are broken: they are told."""
    for case in cases:
        facts = _facts(case) if conditions else None
        if facts is None or all(evaluate(text, facts) for text in conditions):
            yield case


def _facts(case: Case) -> Mapping[str, Any] | None:
    try:
        work = graph_work(case.freeze())
    except (HipdnnIreeError, OSError):
        return None
    return {
        "flops": work.flops,
        "bytes": work.nbytes,
        "op": case.op,
        "dtype": case.dtypes[0].json,
    }
