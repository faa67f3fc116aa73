# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A case from graph to numbers: build for everybody, check, time in turn, put together."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from ...graph_api.errors import CompileError, HipdnnIreeError, NotSupportedError
from ...graph_api.frozen import FrozenGraph
from ...jit.settings_table import Settings
from ...jit.target import Target
from ..plan import Plan
from ..timing import (
    BENCHMARK,
    Samples,
    geomean,
    measure,
    paired_ratio,
    resident,
    undisturbed,
)
from .contestants import Contestant
from .machine import machine, versions
from .measuring import SEED, keep_memory, pytorch_threads, results_of, right, times_of
from .suite import Case, Suite

__all__ = ["run"]


@dataclass(slots=True)
class _Entry:
    """A contestant in a case."""

    contestant: Contestant
    plan: Plan | None = None
    call: Callable[[], object] | None = None
    row: dict[str, Any] = field(default_factory=dict)
    samples: Samples | None = None


def run(
    suite: Suite,
    contestants: Sequence[Contestant],
    target: Target,
    settings: Settings,
    *,
    seconds: float = 1.0,
    threads: int | None = None,
    baseline: str | None = None,
    realtime: bool = False,
    progress: Callable[[dict[str, Any]], None] = lambda case: None,
) -> dict[str, Any]:
    """Measure the cases and return the results, ready for JSON.

    Parameters
    ----------
    suite : Suite
    contestants : sequence of Contestant
        The first one is who is judged.
    target : Target
        A machine that is here.
    settings : Settings
        Those of the contestants, but for what each changes.
    seconds : float
        Time for each contestant in each case, about.
    threads : int, optional
        Instead of the suite's.
    baseline : str, optional
        The contestant that the first one is held against; by default ``torch`` where it takes
        part, else the second one.
    realtime : bool
        Whether the timed calls run before all other programs (`timing.undisturbed`).
    progress : callable
        Called with each case's result.

    Raises
    ------
    SettingError, NotSupportedError
        For settings that are not allowed, and for a target that cannot be run here.
    """
    keep_memory()
    count = suite.threads if threads is None else threads
    against = baseline or _baseline(contestants)
    cases = []
    with pytorch_threads(contestants, count, settings):
        for case in suite.by_type(str(target)):
            cases.append(
                _case(case, contestants, target, seconds, count, against, realtime, settings)
            )
            progress(cases[-1])
    return {
        "title": suite.title,
        "target": str(target),
        "machine": machine(),
        "versions": versions(),
        "threads": count,
        "seconds": seconds,
        "realtime": realtime,
        "engines": [one.name for one in contestants],
        "baseline": against,
        "cases": cases,
        **_totals(cases),
    }


def _baseline(contestants: Sequence[Contestant]) -> str | None:
    others = [one.name for one in contestants[1:]]
    return "torch" if "torch" in others else next(iter(others), None)


def _totals(cases: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
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


def _case(
    case: Case,
    contestants: Sequence[Contestant],
    target: Target,
    seconds: float,
    threads: int,
    against: str | None,
    realtime: bool,
    settings: Settings,
) -> dict[str, Any]:
    from ..verify import compare, expect, poisoned_outputs, random_inputs

    graph = case.freeze()
    inputs = random_inputs(graph, seed=SEED)
    expected = expect(graph, inputs, target)
    entries = [_Entry(one) for one in contestants]
    for entry in entries:
        _prepare(entry, graph, target, entry.contestant.under(settings, threads))
        if entry.plan is None:
            continue
        outputs = poisoned_outputs(graph)
        try:
            buffers: dict[Any, Any] = {**inputs, **outputs}
            entry.call = entry.contestant.call(entry.plan, buffers)
            report = compare(graph, results_of(graph, entry.call, outputs), expected)
            worst = report.max_rel_error
            entry.row |= {
                "ok": right(graph, report, entry.contestant),
                "max_rel_error": worst if math.isfinite(worst) else None,
            }
        except HipdnnIreeError as error:
            entry.row |= {"error": str(error), "ok": False}
            entry.call = None
    timed = [entry for entry in entries if entry.call is not None]
    with ExitStack() as stack:
        if timed and realtime:
            stack.enter_context(undisturbed())
        calls = [resident(entry.call) for entry in timed if entry.call is not None]
        found = measure(calls, BENCHMARK, budget_s=seconds * len(calls))
        for entry, samples in zip(timed, found, strict=True):
            entry.samples = samples
            entry.row |= times_of(samples)
    return {
        "name": case.name,
        "tags": list(case.tags),
        "digest": graph.digest,
        "engines": {entry.contestant.name: entry.row for entry in entries},
        **_ratios(entries, against),
    }


def _prepare(entry: _Entry, graph: FrozenGraph, target: Target, settings: Settings) -> None:
    """Build the plan, or note why there is none."""
    try:
        entry.plan = plan = entry.contestant.build(graph, target, settings)
    except NotSupportedError as error:
        entry.row["declined"] = [decline.as_dict() for decline in error.declines]
    except CompileError as error:
        entry.row |= {"error": str(error), "ok": False}
    else:
        entry.row |= {
            "engine": plan.engine,
            "knobs": dict(plan.knobs),
            "dispatches": plan.statistics.get("dispatches"),
            "transient_bytes": plan.workspace_bytes if "dispatches" in plan.statistics else None,
        }


def _ratios(entries: Sequence[_Entry], against: str | None) -> dict[str, Any]:
    """Return how the first one compares: by rounds, and by the best of all calls."""
    ours = entries[0]
    theirs = next((e for e in entries if e.contestant.name == against), None)
    if theirs is None or ours.samples is None or theirs.samples is None:
        return {"ratio": None, "ratio_best": None}
    return {
        "ratio": round(paired_ratio(ours.samples.rounds_us, theirs.samples.rounds_us), 4),
        "ratio_best": round(min(ours.samples.calls_us) / min(theirs.samples.calls_us), 4),
    }
