# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Engines side by side: the rows of a sweep, as ``hipdnn-iree bench`` tells them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import to_builtins

from ..timing import geomean, paired_ratio
from .case_task import CaseTask
from .row import FAILED, Row

__all__ = ["Rows", "baseline_of", "side_by_side", "totals"]


class Rows:
    """The rows of a sweep that nothing writes to a file (`runner.Log`).

    Parameters
    ----------
    told : callable
        Called with the rows of a case when all are there.
    """

    def __init__(self, tasks: Sequence[CaseTask], told: Callable[[list[Row]], None]) -> None:
        self.known: Mapping[str, str] = {}
        self.irs: Mapping[str, str] = {}
        self._found: dict[str, dict[str, Row]] = {task.case.name: {} for task in tasks}
        self._engines = tasks[0].engines
        self._told = told

    def append(self, *rows: Row) -> None:
        """Take rows of one case."""
        for row in rows:
            mine = self._found[row.case]
            mine[row.engine] = row
            if len(mine) == len(self._engines):
                self._told(self._of(row.case))

    def __iter__(self) -> Any:
        """Yield the rows of each case, in the order of cases and of engines."""
        return (self._of(case) for case in self._found)

    def _of(self, case: str) -> list[Row]:
        return [self._found[case][engine] for engine in self._engines]


def baseline_of(engines: Sequence[str]) -> str | None:
    """Return whom the first engine is held against: PyTorch where it takes part."""
    others = engines[1:]
    return "torch" if "torch" in others else next(iter(others), None)


def side_by_side(rows: Sequence[Row], baseline: str | None) -> dict[str, Any]:
    """Return one case as the results have it: its name and facts, `engines`, ratios."""
    return {
        "name": rows[0].case,
        "op": rows[0].op,
        "dtype": rows[0].dtype,
        "tags": list(rows[0].tags),
        "digest": rows[0].digest,
        "engines": {row.engine: _entry(row) for row in rows},
        **_ratios(rows, baseline),
    }


def totals(cases: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the geometric means of the ratios, of all cases and of the chains."""
    found: dict[str, Any] = {}
    for suffix, chosen in (
        ("", cases),
        ("_fused", [case for case in cases if "fused" in case["tags"]]),
    ):
        for key in ("ratio", "ratio_best"):
            values = [case[key] for case in chosen if case[key] is not None]
            name = f"geomean{suffix}{key.removeprefix('ratio')}"
            found[name] = geomean(values)
    ratios = [(case["ratio"], case["name"]) for case in cases if case["ratio"] is not None]
    found["worst"] = dict(zip(("ratio", "name"), max(ratios), strict=True)) if ratios else None
    found["ok"] = all(row.get("ok", True) for case in cases for row in case["engines"].values())
    return found


def _entry(row: Row) -> dict[str, Any]:
    """Return what the results have of an engine in a case."""
    if row.status == "declined":
        return {"declined": [{"rule": rule} for rule in row.rules], "detail": row.detail}
    code, times = row.code, row.times
    found: dict[str, Any] = {
        "engine": row.served_by,
        "knobs": row.knobs,
        "dispatches": code.dispatches if code else None,
        "transient_bytes": code.transient_bytes if code else None,
        "ok": row.status == "ok",
    }
    if row.check is not None:
        found["max_rel_error"] = row.check.max_rel
    if row.status in FAILED and row.status != "wrong":
        found["error"] = row.log or f"{row.status}: {row.detail}"
    if times is not None:
        found |= {
            "median_us": times.median_us,
            "best_us": times.best_us,
            "spread": times.spread,
            "calls": times.calls,
            "rounds_us": times.rounds_us,
        }
    if row.work is not None:
        found["work"] = to_builtins(row.work)
    return found


def _ratios(rows: Sequence[Row], baseline: str | None) -> dict[str, Any]:
    """Return how the first one compares: by rounds, and by the best of all calls."""
    ours = rows[0].times
    theirs = next((row.times for row in rows[1:] if row.engine == baseline), None)
    if ours is None or theirs is None:
        return {"ratio": None, "ratio_best": None}
    return {
        "ratio": round(paired_ratio(ours.rounds_us, theirs.rounds_us), 4),
        "ratio_best": round(ours.best_us / theirs.best_us, 4),
    }
