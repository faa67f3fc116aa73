"""A case from graph to numbers: build for everybody, check, time in turn, put together."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

from ...graph_api.dtypes import DataType
from ...graph_api.errors import CompileError, HipdnnIreeError, NotSupportedError
from ...graph_api.frozen import FrozenGraph
from ...jit.settings_table import Settings
from ...jit.target import Target
from ..plan import Plan
from ..timing import (
    BENCHMARK,
    Samples,
    Times,
    geomean,
    measure,
    paired_ratio,
    resident,
    undisturbed,
)
from .contestants import Contestant
from .machine import machine, versions
from .suite import Case, Suite

__all__ = ["run"]

# How far a yardstick may be off, relative to the result or its root mean square: it is no engine
# of ours, and need not keep the bounds that engines keep.
_YARDSTICK = {DataType.FLOAT: 1e-3, DataType.DOUBLE: 1e-6}
_NARROW = 5e-2
_SEED = 7
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # of glibc's malloc.h


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
    _keep_memory()
    count = suite.threads if threads is None else threads
    against = baseline or _baseline(contestants)
    cases = []
    with _pytorch_threads(contestants, count, settings):
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


def _keep_memory() -> None:
    """Let glibc keep what is freed, instead of giving it back to the system.

    PyTorch takes new memory for each result; with glibc's defaults, whether its pages have to be
    made again at each call (2 ms for 4 MiB here) depends on what was freed before.
    """
    import ctypes

    with suppress(OSError, AttributeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, -1)


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


def _pytorch_threads(
    contestants: Sequence[Contestant], count: int, settings: Settings
) -> AbstractContextManager[None]:
    """Set PyTorch's number of threads once, not at each call."""
    from ..engines.torch.torch_engine import TorchEngine

    names = (None, TorchEngine.NAME, TorchEngine.ALIAS)  # None: a policy may choose it as well
    wanted = count and any(one.engine in names for one in contestants)
    if not wanted or not TorchEngine(settings).version():
        return nullcontext()
    from ..engines.torch.torch_program import using_threads

    return using_threads(count)


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
    from ..verify import expect, poisoned_outputs, random_inputs

    graph = case.freeze()
    inputs = random_inputs(graph, seed=_SEED)
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
            entry.row |= _checked(entry, graph, outputs, expected)
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
            entry.row |= _timed(samples)
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


def _checked(
    entry: _Entry, graph: FrozenGraph, outputs: Mapping[int, Any], expected: Any
) -> dict[str, Any]:
    """Run once and hold the results against the reference."""
    from ..verify import compare

    assert entry.call is not None
    results = entry.call()
    found = dict(outputs)
    if isinstance(results, list):  # in memory of its own
        found = {
            uid: _array(tensor, outputs[uid].dtype)
            for uid, tensor in zip(graph.outputs, results, strict=True)
        }
    report = compare(graph, found, expected)
    worst = report.max_rel_error
    ok = report.ok or (entry.contestant.native and worst <= _allowed(graph))
    return {"ok": ok, "max_rel_error": worst if math.isfinite(worst) else None}


def _allowed(graph: FrozenGraph) -> float:
    return max(_YARDSTICK.get(graph.spec(uid).data_type, _NARROW) for uid in graph.outputs)


def _array(tensor: Any, dtype: Any) -> Any:
    import torch

    if tensor.dtype is torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(dtype)
    return tensor.numpy()


def _timed(samples: Samples) -> dict[str, Any]:
    times = Times.of(samples.calls_us)
    return {
        "median_us": round(times.median, 3),
        "best_us": round(times.best, 3),
        "spread": round(times.noise, 4),
        "calls": times.samples,
        "rounds_us": [round(value, 2) for value in samples.rounds_us],
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
