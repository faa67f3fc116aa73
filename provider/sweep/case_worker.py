# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The process that builds, checks and times the cases of a sweep; see `process_pool`.

An answer holds fields of `row.Row`; what is known before the end of a part is told on the way,
so that it stands in the row even if the kernel ends the process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NoReturn

from ...graph_api.dynamic import at_sizes
from ...graph_api.errors import (
    CompileError,
    DeviceError,
    FormatError,
    HipdnnIreeError,
    NotSupportedError,
)
from ...graph_api.frozen import FrozenGraph
from ...jit.options import BuildOptions, CacheOptions, CompileOptions
from ...jit.pipeline import ir_digest, store
from ...jit.settings import scope, settings
from ...jit.settings_table import Settings
from ...jit.target import Target
from ...jit.trace import span, trace
from ...jit.work import Work, graph_work, node_work
from .case_task import CaseTask
from .contestants import Contestant, contestant
from .gaps import red_zones
from .gpu_lock import gpu_lock
from .kernel_facts import code_facts
from .measuring import SEED, keep_memory, pytorch_threads, results_of, right
from .process_worker import Tell, serve
from .regret import default_strategies

if TYPE_CHECKING:
    from ...jit.inspect.roofline import MachinePeaks
    from ...jit.runtime.device import Device
    from ..plan import Plan
    from .checking import Judge
    from .instructions import Reached

__all__ = ["main"]

# What emulation does in some seconds: beyond that a kernel is compiled only.
_EMULATED_FLOPS, _EMULATED_BYTES = 20e6, 4 << 20
_NOT_EMULATED = "hipErrorNotSupported"
_NO_MEMORY = ("RESOURCE_EXHAUSTED", "not enough memory", "DefaultCPUAllocator")
_BY_CAUSE = {"time": "timeout", "memory": "out-of-memory"}
_COLD_CALLS, _COLD_S = 7, 0.5
_CACHES = 128 << 20  # bytes, more than the last cache holds of one core's data


def main(descriptor: str, host: str, memory: str, slot: str) -> NoReturn:
    """Serve cases; a process of its own runs this."""
    keep_memory()
    _load()
    number = int(slot)

    def handle(task: CaseTask, part: int, tell: Tell) -> Iterator[dict[str, Any]]:
        devices = task.options.devices
        here = {"compiler_jobs": "1"}
        if devices:
            here["runtime_device"] = str(devices[number % len(devices)])
        with scope(**{**here, **task.options.settings}):
            work = _Work(task, tell)
            if task.timed:
                yield _recorded(task, "in turns", work.timed)
                return
            made = store(CacheOptions.of(settings())).made
            for name in task.engines[part:]:
                answer = _recorded(task, name, partial(work.checked, name))
                yield {**answer, "made": list(made)}
                made.clear()

    serve(descriptor, host, memory, handle)


def _recorded(task: CaseTask, what: str, answer: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return an answer, with what happened when if that is wanted.

    Executions that are timed are no events, so that nothing is between them.
    """
    if not task.options.trace:
        return answer()
    with trace(executions=not task.timed) as found, span(f"{task.case.name}: {what}", "case"):
        made = answer()
    return {**made, "trace": found.as_data("builds, checks and times cases")}


def _load() -> None:
    """Import what every case needs: the first one's time must not depend on it."""
    from ...jit.runtime import executable
    from .. import timing, verify

    del timing, verify, executable


class _Work:
    """A task that is being served."""

    def __init__(self, task: CaseTask, tell: Tell) -> None:
        self._task, self._tell = task, tell
        self._target = Target.parse(task.target)
        self._settings = settings()
        self._device, self._why_none = _device(self._target, self._settings, task.options.emulate)
        self._graph: FrozenGraph | None = None
        self._judged: Judge | None = None

    def checked(self, engine: str) -> dict[str, Any]:
        """Return the row of one engine, without times."""
        facts: dict[str, Any] = {"device": self._device, "status": "ok"}
        try:
            self._check(engine, facts)
        except Exception as error:  # a row tells it, and the next case comes
            facts |= _failure(error)
        return facts

    def timed(self) -> dict[str, Any]:
        """Return the times of all engines by name, and the least time that is possible."""
        from ..timing import undisturbed

        graph, calls = self._task.case.freeze(), []
        at, sizes = _at_sizes(graph, self._task.case.sizes)
        count = len(self._task.engines)
        budget = self._task.options.seconds * count / self._task.visits
        engines = [contestant(name, self._settings) for name in self._task.engines]
        with ExitStack() as stack:
            stack.enter_context(self._threads(*engines))
            inputs = _inputs(at)
            for one in engines:
                self._tell(f"run {one.name}")
                plan = _sized(self._build(one, graph), sizes)
                calls.append(one.call(plan, {**inputs, **_outputs(at)}))
                calls[-1]()
            self._tell("time")
            stack.enter_context(self._gpu())
            if self._task.options.realtime:
                stack.enter_context(undisturbed())
            with span("time", "case", calls_of=", ".join(self._task.engines)):
                times = _times(calls, budget, with_cold=self._task.visit == 0)
        return {
            "times": dict(zip(self._task.engines, times, strict=True)),
            "limits": self._limits(at),
        }

    def _limits(self, graph: FrozenGraph) -> dict[str, float] | None:
        """Return the machine's limits and the time that they allow, None of unknown ones."""
        from ...jit.inspect.peaks import cpu_peaks, gpu_peaks
        from ...jit.inspect.roofline import least_seconds

        peaks: MachinePeaks | None
        if self._target.is_cpu:
            peaks = cpu_peaks(self._task.threads).of(graph_work(graph).nbytes)
        else:
            peaks = gpu_peaks(self._target, self._opened().name)
        if peaks is None:
            return None
        return {
            "least_us": 1e6 * least_seconds(graph, peaks),
            "peak_tflops": float(f"{peaks.vector_flops / 1e12:.4g}"),
            "peak_gbytes_per_s": float(f"{peaks.bytes_per_s / 1e9:.4g}"),
        }

    def _check(self, name: str, facts: dict[str, Any]) -> None:
        self._say(facts, "graph")
        if self._task.case.broken:
            raise FormatError("the case cannot be built", self._task.case.broken)
        graph = self._frozen()
        at, sizes = _at_sizes(graph, self._task.case.sizes)
        work = graph_work(at)
        facts |= {"digest": graph.digest, "op": _main_op(graph)}
        if self._task.known.get(name) == graph.digest:
            return
        one = contestant(name, self._settings)
        if self._keeps(one, graph):
            facts["kept"] = True
            return
        facts["work"] = {"flops": work.flops, "bytes": work.nbytes}
        if self._task.options.forms and name == self._task.engines[0]:
            self._say(facts, "forms")
            if wrong := _wrong_forms(graph):
                facts |= {"status": "wrong", "detail": wrong[0], "log": "\n".join(wrong)}
                return
        self._say(facts, "compile")
        with self._threads(one):
            begin = time.perf_counter()
            plan = self._build(one, graph)
            facts |= _compile_facts(plan, graph, time.perf_counter() - begin)
            if self._task.options.instructions and self._target.is_gfx9:
                self._say(facts, "instructions")
                facts["instructions"] = self._instructions(one, plan, graph)
            if self._runs(facts, work):
                self._compare_where_it_runs(one, _sized(plan, sizes), at, facts)

    def _keeps(self, one: Contestant, graph: FrozenGraph) -> bool:
        """Whether a row of other versions is of the IR that the engine makes now."""
        before = self._task.irs.get(one.name)
        if before is None or one.engine != "iree" or one.knobs:
            return False
        now = one.under(self._settings, self._task.threads)
        try:
            return ir_digest(graph, self._target, CompileOptions.of(now)) == before
        except CompileError:  # the row tells it
            return False

    def _instructions(self, one: Contestant, plan: Plan, graph: FrozenGraph) -> dict[str, Any]:
        from .instructions import instruction_facts

        now = one.under(self._settings, self._task.threads)
        return instruction_facts(plan, graph, BuildOptions.of(now))

    def _runs(self, facts: dict[str, Any], work: Work) -> bool:
        """Whether the results are looked at; say why not."""
        if self._device == "none":
            facts["detail"] = f"compiled only: {self._why_none}"
        elif self._device == "emulated" and (
            work.flops > _EMULATED_FLOPS or work.nbytes > _EMULATED_BYTES
        ):
            facts |= {"device": "none", "detail": "compiled only: too large to be emulated"}
        return self._task.options.check and facts["device"] != "none"

    def _compare_where_it_runs(
        self, one: Contestant, plan: Plan, graph: FrozenGraph, facts: dict[str, Any]
    ) -> None:
        try:
            with self._emulated() as library:
                self._compare(one, plan, graph, facts, library and library.executed)
        except DeviceError as error:
            if _NOT_EMULATED not in str(error):
                raise
            # An instruction that emulation lacks says nothing about the kernel.
            detail = f"compiled only: {str(error).partition(chr(10))[0]}"
            facts |= {"device": "none", "emulated": False, "detail": detail, "log": str(error)}

    def _compare(
        self,
        one: Contestant,
        plan: Plan,
        graph: FrozenGraph,
        facts: dict[str, Any],
        reached: Reached | None,
    ) -> None:
        facts["emulated"] = self._device == "emulated"
        self._say(facts, "reference")
        with span("reference", "case"):
            judge = self._judge(graph)
        self._say(facts, "check")
        on_host = self._device in ("cpu", "emulated")
        zones = red_zones(graph, SEED) if on_host and not one.native else {}
        outputs = {**_outputs(graph), **{uid: zone.array for uid, zone in zones.items()}}
        if reached is not None:
            reached()  # by kernels before
        with self._gpu():
            call = one.call(plan, {**judge.inputs, **outputs})
            results = results_of(graph, call, outputs)
        if reached is not None and "instructions" in facts:
            from .instructions import executed

            facts["instructions"] |= executed(plan, reached())
        bad = [
            f"{graph.tensors[uid].label}: {len(at)} bytes around its elements, from {at[0]}"
            for uid, zone in zones.items()
            if (at := list(zone.touched()))
        ]
        results |= {uid: zone.result for uid, zone in zones.items()}
        with span("compare", "case"):
            found = judge.check(results)
        facts["check"] = found.row
        if not right(graph, found.report, one):
            bad += [str(output) for output in found.report.outputs if not output.ok]
        if bad:
            facts |= {"status": "wrong", "detail": bad[0], "log": "\n".join(bad)}

    def _build(self, one: Contestant, graph: FrozenGraph) -> Plan:
        return one.build(graph, self._target, one.under(self._settings, self._task.threads))

    def _frozen(self) -> FrozenGraph:
        if self._graph is None:
            self._graph = self._task.case.freeze()
        return self._graph

    def _judge(self, graph: FrozenGraph) -> Judge:
        """Return inputs and what may come of them; computed once for all engines."""
        from .checking import judged

        if self._judged is None:
            self._judged = judged(graph, data=self._task.options.data, target=self._target)
        return self._judged

    def _threads(self, *engines: Contestant) -> AbstractContextManager[None]:
        return pytorch_threads(engines, self._task.threads, self._settings)

    def _gpu(self) -> AbstractContextManager[None]:
        """Return what keeps other processes of a sweep from the GPU."""
        if self._device in ("cpu", "none", "emulated"):
            return nullcontext()
        return gpu_lock(self._opened().identity)

    def _opened(self) -> Device:
        from ...jit.runtime.device import Device

        return Device.open(self._target.drivers[0], device_id=self._settings.runtime_device)

    def _emulated(self) -> AbstractContextManager[Any]:
        if self._device != "emulated":
            return nullcontext()
        from ..emulated import emulated

        return emulated(str(self._target.arch))

    def _say(self, facts: Mapping[str, Any], step: str) -> None:
        self._tell(step, **{name: value for name, value in facts.items() if name != "status"})


def _device(target: Target, now: Settings, emulate: bool) -> tuple[str, str]:
    """Return what code for a target runs on here, ``"none"`` with the reason."""
    if target.is_host:
        return "cpu", ""
    if target.is_cpu:
        return "none", "it is code for another CPU"
    if emulate and target.is_gfx9:
        return "emulated", ""
    from ...jit.runtime.device import Device

    try:
        Device.open(target.drivers[0], device_id=now.runtime_device)
    except DeviceError as error:
        return "none", str(error).partition("\n")[0]
    return f"{target.drivers[0]}:{now.runtime_device}", ""


def _failure(error: Exception) -> dict[str, Any]:
    """Return status, rules and text of a row that could not be finished."""
    text = str(error) or type(error).__name__
    facts: dict[str, Any] = {"status": "crash", "detail": text.partition("\n")[0], "log": text}
    if isinstance(error, FormatError):
        rules = {problem.rule for problem in error.problems}
        first = f": {error.problems[0]}" if error.problems else ""
        facts |= {"status": "invalid", "rules": sorted(rules), "detail": error.message + first}
    elif isinstance(error, NotSupportedError):
        rules = {decline.problem.rule for decline in error.declines}
        facts |= {"status": "declined", "rules": sorted(rules)}
        if error.declines:
            facts["detail"] = str(error.declines[0])
    elif isinstance(error, MemoryError) or any(sign in text for sign in _NO_MEMORY):
        facts["status"] = "out-of-memory"
    elif isinstance(error, CompileError):
        facts["status"] = _BY_CAUSE.get(error.cause, "compile-error")
    elif not isinstance(error, HipdnnIreeError):
        facts["detail"] = f"{type(error).__name__}: {facts['detail']}"
    return facts


def _compile_facts(plan: Plan, graph: FrozenGraph, total_s: float) -> dict[str, Any]:
    compiled = getattr(plan, "compiled", None)
    vmfb = getattr(compiled, "vmfb", None)
    by_rule = {} if vmfb is None else default_strategies(graph, plan.target)
    return {
        "knobs": {**by_rule, **plan.knobs},
        "served_by": plan.engine,
        "detail": f"served with {plan.attempt}" if plan.attempt else "",
        "compile": {
            "seconds": {name: round(s, 4) for name, s in plan.seconds.items()},
            "total_s": round(total_s, 4),
            "cache": "hit" if plan.cache == "hit" else "miss",
            "module_bytes": None if vmfb is None else len(vmfb),
        },
        "code": code_facts(plan.statistics, vmfb) | {"ir": getattr(compiled, "ir", "")},
    }


def _main_op(graph: FrozenGraph) -> str:
    """Return the op of the node with most arithmetic, or that moves most bytes."""
    works = [node_work(graph, node) for node in graph.nodes]
    k = max(range(len(works)), key=lambda k: (works[k].flops, works[k].nbytes))
    return str(graph.nodes[k].op.NAME)


def _at_sizes(graph: FrozenGraph, given: Mapping[str, int]) -> tuple[FrozenGraph, dict[str, int]]:
    """Return the graph without dynamic dims, and the sizes that it has there."""
    sizes = {dim.name: given.get(dim.name, dim.example) for dim in graph.symbols}
    return (at_sizes(graph, sizes) if sizes else graph), sizes


def _sized(plan: Plan, sizes: Mapping[str, int]) -> Plan:
    """Return the plan for some sizes; the plan itself where nothing is dynamic."""
    return plan.with_sizes(sizes) if sizes else plan


def _wrong_forms(graph: FrozenGraph) -> list[str]:
    """Return the forms in which the graph is not the same one, a line each."""
    from .fuzz.forms import other_forms

    return [f"{form}: {wrong}" for form, wrong in other_forms(graph, SEED) if wrong]


def _inputs(graph: FrozenGraph) -> dict[Any, Any]:
    from ..verify import random_inputs

    return dict(random_inputs(graph, seed=SEED))


def _outputs(graph: FrozenGraph) -> dict[Any, Any]:
    from ..verify import poisoned_outputs

    return dict(poisoned_outputs(graph))


def _times(
    calls: Sequence[Callable[[], object]], budget_s: float, *, with_cold: bool
) -> list[dict[str, Any]]:
    """Return the times of calls that were made once: all of them, and the cold one."""
    from ..timing import BENCHMARK, cold, cold_repeated, measure, measure_repeated, resident

    on_gpu = [found for call in calls if (found := getattr(call, "repeated", None)) is not None]
    if len(on_gpu) == len(calls):
        samples = measure_repeated(on_gpu, BENCHMARK, budget_s=budget_s)
        colds: list[float | None]
        colds = [cold_repeated(call, rounds=_COLD_CALLS) for call in on_gpu]
    else:
        here = [resident(call) for call in calls]
        samples = measure(here, BENCHMARK, budget_s=budget_s)
        colds = [None] * len(here)
        if with_cold:
            colds = [cold(call, _flush(), most=_COLD_CALLS, budget_s=_COLD_S) for call in here]
    return [
        {"calls_us": found.calls_us, "rounds_us": found.rounds_us, "cold_us": us}
        for found, us in zip(samples, colds, strict=True)
    ]


@cache
def _flush() -> Callable[[], object]:
    """Return a call after which none of a plan's memory is in a cache."""
    import numpy as np

    memory = np.zeros(_CACHES, np.uint8)
    return lambda: np.add(memory, 1, out=memory)
