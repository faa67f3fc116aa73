# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Autotuning: every engine and every way of building, checked first and then measured in turns.

A candidate counts only when its result is right, as ``provider.verify`` judges it against the
float64 reference, on outputs that were full of poison.  One that fails to build, crashes the
compiler, raises, or is wrong becomes a row with its reason, and the rest goes on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any

from ...graph_api.errors import Decline, HipdnnIreeError, NotSupportedError
from ...graph_api.frozen import FrozenGraph
from ...jit.runtime.hip import emulated
from ...jit.settings_table import Settings
from ...jit.target import Target
from ..emulated import start as start_emulation
from ..engine import Engine, checked_knobs
from ..plan import Plan, TensorKey
from ..registry import engine, engines
from ..timing import TUNING, Times, measure, resident
from ..verify import compare, expect, poisoned_outputs, random_inputs
from .candidate import Candidate
from .cost import MODEL, estimate
from .winner_entry import Entry
from .winners import ranked, remember

__all__ = ["Row", "TuneResult", "tune", "variants"]

log = logging.getLogger("hipdnn_iree.selection")

_MOST_VARIANTS = 48  # of one engine; beyond them one knob is changed at a time

Progress = Callable[[int, int, str], None]


@dataclass(kw_only=True)
class Row:
    """What came of one candidate.

    Attributes
    ----------
    engine : str
    engine_id : int
    knobs : dict
        Those that are not the engine's defaults.
    status : str
        ``"ok"``, ``"same"`` (the code of an earlier row), ``"wrong"``, ``"failed"`` or
        ``"declined"``.
    reason : str
        Why it is not ``"ok"``.
    times : Times or None
        Of one execution, in microseconds.
    max_rel_error : float or None
        Against the reference.
    build_s : float
        Seconds that building took.
    """

    engine: str
    engine_id: int
    knobs: dict[str, str]
    status: str = "ok"
    reason: str = ""
    times: Times | None = None
    max_rel_error: float | None = None
    build_s: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        times = self.times
        return {
            "engine": self.engine,
            "engine_id": str(self.engine_id),  # JSON's numbers end at 2**53
            "knobs": self.knobs,
            "status": self.status,
            "reason": self.reason,
            "median_us": times.median if times else None,
            "low_us": times.low if times else None,
            "high_us": times.high if times else None,
            "noise": times.noise if times else None,
            "samples": times.samples if times else 0,
            "max_rel_error": self.max_rel_error,
            "build_s": self.build_s,
        }


@dataclass(kw_only=True)
class TuneResult:
    """What tuning one graph for one target found.

    Attributes
    ----------
    graph : FrozenGraph
    target : Target
    rows : list of Row
        Every candidate, in the order in which they were tried.
    winner : Row or None
        The fastest right one; None where nothing is measured.
    seconds : float
        How long it all took.
    stored : bool
        Whether the times were stored.
    emulated : bool
        Whether the GPU is emulated: results are right or wrong, and there are no times.
    """

    graph: FrozenGraph
    target: Target
    rows: list[Row] = field(default_factory=list)
    winner: Row | None = None
    seconds: float = 0.0
    stored: bool = False
    emulated: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "graph": {"name": self.graph.name, "digest": self.graph.digest},
            "target": str(self.target),
            "winner": self.winner.as_dict() if self.winner else None,
            "rows": [row.as_dict() for row in self.rows],
            "seconds": self.seconds,
            "stored": self.stored,
            "emulated": self.emulated,
        }


def variants(candidate: Candidate) -> Iterator[dict[str, str]]:
    """Yield the choices to measure, the engine's defaults first, without those fixed already."""
    open_knobs = [k for k in candidate.knobs if k.name not in candidate.choice]
    tried = {
        k.name: [k.default, *(c for c in (k.tried or k.choices) if c != k.default)]
        for k in open_knobs
    }
    defaults = {k.name: k.default for k in open_knobs}
    count = prod(map(len, tried.values()))
    all_of = (dict(zip(tried, combo, strict=True)) for combo in product(*tried.values()))
    one_by_one = [{n: c} for n, choices in tried.items() for c in choices[1:]]
    for choice in all_of if count <= _MOST_VARIANTS else [{}, *one_by_one]:
        yield {
            **candidate.choice,
            **{n: c for n, c in choice.items() if c != defaults[n]},
        }


def tune(
    graph: FrozenGraph,
    target: Target | str,
    settings: Settings,
    *,
    engines: Sequence[str] | None = None,
    knobs: Mapping[str, str] | None = None,
    tries_knobs: bool = True,
    budget_s: float = 2.0,
    seed: int = 0,
    store: bool = True,
    progress: Progress | None = None,
) -> TuneResult:
    """Build, check and measure every candidate for a graph, and remember the times.

    Parameters
    ----------
    graph : FrozenGraph
        Dynamic dims are measured at their examples.
    target : Target or str
        A machine that is here.
    settings : Settings
    engines : sequence of str, optional
        Engines to try, the reference among them if it is named; by default all others.
    knobs : mapping, optional
        Choices that are fixed; engines without these knobs are left out.
    tries_knobs : bool
        Whether other choices are tried; otherwise each engine builds by its defaults.
    budget_s : float
        Seconds for the samples of one graph; compiling and checking come on top.
    seed : int
        Of the random inputs.
    store : bool
        Whether to remember the times.
    progress : callable, optional
        Called with (done, all, what is being done).

    Raises
    ------
    NotSupportedError
        If no engine serves the graph.
    DeviceError
        If the target's device is not here.
    SettingError
        If an engine is unknown.
    """
    begin = time.perf_counter()
    where = Target.parse(target)
    if not where.is_cpu:
        from ...jit.runtime.device import Device

        start_emulation(settings)
        Device.open(where.drivers[0], device_id=settings.runtime_device)
    result = TuneResult(graph=graph, target=where)
    result.emulated = not where.is_cpu and bool(emulated())
    jobs = _jobs(result, _engines(engines, settings), dict(knobs or {}), tries_knobs)
    report = progress or (lambda done, everything, what: None)
    report(0, len(jobs), "computing the reference")
    bench = _Bench(graph, where, seed)
    runs: list[tuple[Row, Candidate, Callable[[], None]]] = []
    seen: dict[tuple[str, str], Row] = {}
    for i, (row, candidate) in enumerate(jobs):
        report(i, len(jobs), _title(row))
        call = _attempt(row, candidate, bench, seen)
        if call is not None:
            runs.append((row, candidate, call))
    if result.emulated:
        runs = []
    if runs:
        report(len(jobs), len(jobs), f"measuring {len(runs)} candidates")
        samples = measure([resident(call) for *_, call in runs], TUNING, budget_s=budget_s)
        for (row, _, _), found in zip(runs, samples, strict=True):
            row.times = Times.of(found.rounds_us)
    measured = [(_entry(row, candidate), candidate) for row, candidate, _ in runs]
    if measured:
        best = ranked(measured, [c for _, c in measured])[0][0]
        pairs = zip(measured, runs, strict=True)
        result.winner = next(row for (entry, _), (row, _, _) in pairs if entry is best)
        if store:
            remember([entry for entry, _ in measured], settings.engine_winners)
            result.stored = True
    result.seconds = time.perf_counter() - begin
    return result


def _engines(names: Sequence[str] | None, settings: Settings) -> list[Engine]:
    """Return the engines of these names, by default all but those of last resort."""
    if names is not None:
        return list(dict.fromkeys(engine(name, settings) for name in names))
    every = (entry.load() for entry in engines(settings).values())
    return [one for one in every if not one.LAST_RESORT]


def _jobs(
    result: TuneResult, tried: Sequence[Engine], knobs: dict[str, str], tries_knobs: bool
) -> list[tuple[Row, Candidate]]:
    """Return a row and a candidate for each way to build; engines that decline get a row too."""
    jobs: list[tuple[Row, Candidate]] = []
    reasons: list[Decline] = []
    for one in tried:
        candidate = Candidate.of(one, result.graph, result.target)
        if not candidate.served:
            reasons += candidate.reasons
            row = Row(engine=one.NAME, engine_id=one.id, knobs={}, status="declined")
            row.reason = "; ".join(str(r.problem) for r in candidate.reasons)
            result.rows.append(row)
            continue
        try:
            fixed = checked_knobs(one, result.graph, result.target, knobs)
        except HipdnnIreeError as error:
            row = Row(engine=one.NAME, engine_id=one.id, knobs={}, status="declined")
            row.reason = str(error)
            result.rows.append(row)
            continue
        for choice in variants(candidate.chosen_by("autotune", fixed)) if tries_knobs else [fixed]:
            row = Row(engine=one.NAME, engine_id=one.id, knobs=choice)
            result.rows.append(row)
            jobs.append((row, candidate.chosen_by("autotune", choice)))
    if not jobs:
        raise NotSupportedError(
            f"no engine serves graph {result.graph.name!r} for {result.target}", reasons
        )
    return jobs


class _Bench:
    """Inputs, expected results, and outputs to write into, for one graph."""

    def __init__(self, graph: FrozenGraph, target: Target, seed: int) -> None:
        self.graph = graph
        self.inputs = random_inputs(graph, seed)
        self.expected = expect(graph, self.inputs, target)
        self.outputs = poisoned_outputs(graph)
        self._poison = poisoned_outputs(graph)
        both = (*self.inputs.items(), *self.outputs.items())
        self.buffers: dict[TensorKey, Any] = dict(both)

    def check(self, call: Callable[[], None]) -> tuple[bool, float, str]:
        """Run once on poisoned outputs; return whether it is right, its error, and what is off."""
        for uid, array in self.outputs.items():
            array[...] = self._poison[uid]
        call()
        report = compare(self.graph, self.outputs, self.expected)
        wrong = "; ".join(str(o) for o in report.outputs if not o.ok)
        return report.ok, report.max_rel_error, wrong


def _attempt(
    row: Row, candidate: Candidate, bench: _Bench, seen: dict[tuple[str, str], Row]
) -> Callable[[], None] | None:
    """Return the call to measure, or None when the row says why there is none."""
    begin = time.perf_counter()
    try:
        plan: Plan = candidate.engine.build(candidate.graph, candidate.target, row.knobs or None)
        row.build_s = time.perf_counter() - begin
        twin = seen.setdefault((row.engine, plan.fingerprint), row) if plan.fingerprint else row
        if twin is not row:
            row.status, row.reason = "same", f"the code of {_title(twin)}"
            return None
        call = plan.bind(bench.buffers, copy=not candidate.target.is_cpu)
        right, row.max_rel_error, wrong = bench.check(call)
    except Exception as error:  # whatever one engine does, the others are measured
        if not isinstance(error, HipdnnIreeError):
            log.debug("a candidate failed", exc_info=True)
        row.status = "failed"
        row.reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        return None
    if not right:
        row.status, row.reason = "wrong", wrong
        return None
    return call


def _entry(row: Row, candidate: Candidate) -> Entry:
    assert row.times is not None
    times = row.times
    raw_us = estimate(candidate.graph, candidate.target, candidate.engine).raw_us
    return Entry.of(
        candidate,
        (times.low, times.median, times.high),
        times.samples,
        estimated_us=raw_us,
        model=MODEL,
    )


def _title(row: Row) -> str:
    chosen = ", ".join(f"{name}={value}" for name, value in row.knobs.items())
    return f"{row.engine} with {chosen}" if chosen else row.engine
