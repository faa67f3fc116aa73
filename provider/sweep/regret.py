# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the choice of strategies by rule costs: time of the default one over the best that fits.

`with_strategies` makes the IREE engine take part once more with each strategy that fits a case,
so that a sweep times all of them in turns; `regrets` reads the rows of such a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ...graph_api.frozen import FrozenGraph
from ...jit.strategies import choices, tables
from ...jit.target import Target
from ..timing import geomean, paired_ratio
from .case_task import CaseTask
from .contestants import with_knobs
from .row import Row

__all__ = [
    "ENGINE",
    "LIMITS",
    "Regret",
    "default_strategies",
    "regrets",
    "shares",
    "with_strategies",
]

ENGINE = "iree"
"""The engine that has strategies."""
LIMITS = (1.1, 2.0)
"""Regrets of which is told how many cases keep them."""

_KNOB = ".strategy"


def with_strategies(task: CaseTask) -> CaseTask:
    """Return a task in which the strategies that fit its graph take part beside the default ones.

    Strategies that exist for comparison only do not.  A graph of several ops has one op's strategy
    changed at a time; what is not the IREE engine's stays as it is.
    """
    if ENGINE not in task.engines or task.case.broken:
        return task
    found = choices(task.case.freeze(), Target.parse(task.target))
    more = (
        with_knobs(ENGINE, {f"{op}{_KNOB}": name})
        for op, choice in found.items()
        for name in choice.tried
        if name != choice.default
    )
    return replace(task, engines=tuple(dict.fromkeys((*task.engines, *more))))


def default_strategies(graph: FrozenGraph, target: Target) -> dict[str, str]:
    """Return what the rules choose for each op of a graph with a choice, by the engine's knob."""
    return {op + _KNOB: choice.default for op, choice in choices(graph, target).items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class Regret:
    """What was lost in one case.

    Attributes
    ----------
    case, dtype, target : str
    default : str
        The strategies that the rules chose, as ``op=strategy``, separated by blanks.
    best : str
        The one that was fastest; empty where none was faster.
    default_us, best_us : float
        Median times of a call in microseconds.
    ratio : float
        Time of the default over that of the best one, in the median of the rounds; at least 1.
    """

    case: str
    dtype: str
    target: str
    default: str
    best: str
    default_us: float
    best_us: float
    ratio: float


def regrets(rows: Sequence[Row]) -> list[Regret]:
    """Return the regret of each case of which several strategies were timed, the largest first.

    Only right results count, and strategies that a rule may choose.  The best of several is the
    luckiest as well: with k strategies of equal times the regret is above 1 by their noise.
    """
    groups: dict[tuple[str, str, str], dict[str, Row]] = {}
    for row in rows:
        alias, _, knob = row.engine.partition("+")
        if alias == ENGINE and row.status == "ok" and row.times is not None and _counts(knob):
            groups.setdefault((row.case, row.dtype, row.target), {})[knob] = row
    found = [
        _regret(group.pop(""), group) for group in groups.values() if "" in group and len(group) > 1
    ]
    return sorted(found, key=lambda one: -one.ratio)


def shares(found: Sequence[Regret]) -> dict[str, float | None]:
    """Return which part of the cases keeps each of `LIMITS`, and the geometric mean."""
    count = max(len(found), 1)
    kept = {f"within_{limit}": sum(r.ratio <= limit for r in found) / count for limit in LIMITS}
    return {**kept, "geomean": geomean([one.ratio for one in found])}


def _counts(knob: str) -> bool:
    """Whether a row is of the default strategies, or of one that a rule may choose."""
    name, _, choice = knob.partition("=")
    if not knob or not name.endswith(_KNOB):
        return not knob
    known = tables().get(name.removesuffix(_KNOB))
    return known is not None and all(s.by_rule for s in known.table if s.name == choice)


def _regret(default: Row, others: Mapping[str, Row]) -> Regret:
    assert default.times is not None
    best, ratio, best_us = "", 1.0, default.times.median_us
    for knob, row in others.items():
        assert row.times is not None
        mine, theirs = default.times.rounds_us, row.times.rounds_us
        if len(mine) == len(theirs) and (told := paired_ratio(mine, theirs)) > ratio:
            best, ratio, best_us = knob.replace(_KNOB, ""), told, row.times.median_us
    return Regret(
        case=default.case,
        dtype=default.dtype,
        target=default.target,
        default=" ".join(_chosen(default)),
        best=best,
        default_us=default.times.median_us,
        best_us=best_us,
        ratio=ratio,
    )


def _chosen(row: Row) -> Iterator[str]:
    for name, choice in sorted(row.knobs.items()):
        if name.endswith(_KNOB):
            yield f"{name.removesuffix(_KNOB)}={choice}"
