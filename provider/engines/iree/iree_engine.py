"""The IREE engine: graphs compiled just in time, run by the IREE runtime."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ....graph_api.errors import Decline
from ....graph_api.frozen import FrozenGraph
from ....graph_api.ops import OPS
from ....jit import support
from ....jit.options import BuildOptions, CompileOptions
from ....jit.pipeline import Compiled, compile_source, made_with
from ....jit.runtime.device import Device
from ....jit.runtime.executable import Executable
from ....jit.runtime.loaded_module import LoadedModule
from ....jit.settings_table import ENGINE_KNOBS, Settings, with_values
from ....jit.strategies import choices, merged
from ....jit.target import Target
from ....jit.work import cpu_us
from ...engine import Engine, EngineKnob, checked_knobs
from ...plan import Plan

if TYPE_CHECKING:
    import numpy as np

    from ....jit.runtime.pending import Pending

__all__ = ["IreeEngine", "IreePlan", "driver_for", "load", "open_device", "settings_with"]

# Where an estimate on one core is shorter, worker threads cost more than they save: waking them
# takes 6 to 30 microseconds.  Measured on two cores of a busy machine, 38 graphs: the fastest of
# 25 rounds was shorter with threads from 45 microseconds on, always from 70 on (to 1.8 times).
_TASK_US = 60.0

_STRATEGY = ".strategy"


class IreeEngine(Engine):
    """Serves what ``jit.support`` does not decline."""

    NAME = "IREE_JIT_ENGINE"
    ALIAS = "iree"

    def ops(self) -> tuple[str, ...]:
        return tuple(OPS)

    def targets(self) -> tuple[str, ...]:
        return Target.known()

    def declines(self, graph: FrozenGraph, target: Target) -> list[Decline]:
        return [Decline(engine=self.NAME, problem=p) for p in support.problems(graph, target)]

    def versions(self) -> dict[str, str]:
        now = self.settings
        # The settings decide the defaults of the knobs, and more that times depend on.
        more = {"runtime.driver": now.runtime_driver, "runtime.threads": str(now.runtime_threads)}
        return {**made_with(), **CompileOptions.of(now).key_ingredients(), **more}

    def knobs(self, graph: FrozenGraph, target: Target) -> tuple[EngineKnob, ...]:
        now, found = self.settings, _strategy_knobs(graph, target, self.settings)
        for name, knob in ENGINE_KNOBS.items():
            choices, default = knob.choices, getattr(now, knob.field)
            tried: tuple[str, ...] = ()
            if name == "driver":  # "auto" is decided by the graph
                choices, default = target.drivers, driver_for(graph, target, now)
            if name == "opt_level":
                tried = (default,)
            elif not target.is_cpu:
                continue
            found.append(
                EngineKnob(name=name, choices=choices, default=default, help=knob.help, tried=tried)
            )
        return tuple(found)

    def build(
        self, graph: FrozenGraph, target: Target, knobs: Mapping[str, str] | None = None
    ) -> Plan:
        chosen = checked_knobs(self, graph, target, knobs)
        settings = settings_with(self.settings, chosen)
        compiled = compile_source(graph, target, BuildOptions.of(settings))
        return self.plan(graph, target, chosen, compiled, settings)

    def plan(
        self,
        graph: FrozenGraph,
        target: Target,
        knobs: dict[str, str],
        compiled: Compiled,
        settings: Settings,
    ) -> Plan:
        """Return the plan for code that is there already: just compiled, or from an artifact.

        ``settings`` are those of `settings_with` for the knobs.
        """
        if graph.symbols:
            from .iree_dynamic_plan import DynamicIreePlan

            return DynamicIreePlan(
                maker=self,
                graph=graph,
                target=target,
                knobs=knobs,
                cache=compiled.cache,
                seconds=compiled.seconds,
                workspace_bytes=compiled.workspace_bytes or 0,
                statistics=compiled.statistics,
                compiled=compiled,
            )
        return IreePlan(
            maker=self,
            graph=graph,
            target=target,
            knobs=knobs,
            cache=compiled.cache,
            seconds=compiled.seconds,
            workspace_bytes=compiled.signature.workspace_bytes,
            statistics=compiled.statistics,
            compiled=compiled,
            driver=driver_for(graph, target, settings),
            threads=settings.runtime_threads,
        )


def settings_with(settings: Settings, knobs: Mapping[str, str]) -> Settings:
    """Return the settings with some choices of `IreeEngine.knobs` in their place."""
    overrides: dict[str, Any] = {
        ENGINE_KNOBS[name].field: choice for name, choice in knobs.items() if name in ENGINE_KNOBS
    }
    strategies = {
        name.removesuffix(_STRATEGY): choice
        for name, choice in knobs.items()
        if name.endswith(_STRATEGY)
    }
    if strategies:
        overrides["compiler_strategies"] = merged(settings.compiler_strategies, strategies)
    return with_values(settings, **overrides)


def _strategy_knobs(graph: FrozenGraph, target: Target, settings: Settings) -> list[EngineKnob]:
    """Return a knob for each op of the graph that has more than one strategy."""
    set_now = dict(text.partition("=")[::2] for text in settings.compiler_strategies)
    found = []
    for op, choice in choices(graph, target).items():
        default = set_now.get(op, set_now.get("all", ""))
        if default not in choice.names:
            default = choice.default
        found.append(
            EngineKnob(
                name=op + _STRATEGY,
                choices=choice.names,
                default=default,
                help=f"How the nodes of {op} are expressed in IR (docs/strategies.md).",
                tried=tuple(dict.fromkeys((default, *choice.tried))),
            )
        )
    return found


def driver_for(graph: FrozenGraph, target: Target, settings: Settings) -> str:
    """Return the IREE driver that runs a graph: worker threads only where they pay."""
    if not target.is_cpu:
        return target.drivers[0]
    chosen = settings.runtime_driver
    if chosen != "auto":
        return chosen
    alone = settings.runtime_threads == 1 or len(os.sched_getaffinity(0)) == 1
    return "local-sync" if alone or cpu_us(graph) < _TASK_US else "local-task"


def load(
    compiled: Compiled, device: Device, target: Target, seconds: dict[str, float]
) -> LoadedModule:
    """Return the code on a device; ``seconds`` takes the time that loading needed."""
    begin = time.perf_counter()
    module = LoadedModule.load(
        device,
        compiled.vmfb,
        sha256=compiled.sha256,
        target=str(target),
        dynamic=compiled.workspace_bytes is None,
    )
    seconds["load"] = time.perf_counter() - begin
    return module


def open_device(driver: str, threads: int, device_id: int = 0, stream: int | None = None) -> Device:
    """Return the device of a driver; ``threads`` are the workers of ``local-task``, 0 all cores."""
    if stream is not None:
        return Device.on_stream(driver, stream, device_id=device_id)
    workers = (threads or None) if driver == "local-task" else None
    return Device.open(driver, device_id=device_id, workers=workers)


@dataclass(kw_only=True, repr=False)
class IreePlan(Plan):
    """Compiled code, loaded on first use (so that a plan for another machine can be made).

    Attributes
    ----------
    compiled : Compiled
        The code.
    driver : str
        IREE's driver that runs it.
    threads : int
        Worker threads of the driver ``local-task``; 0: one for each core.
    device_id : int
        The driver's number of the device.
    stream : int or None
        Stream that it runs on (`on_stream`).
    """

    compiled: Compiled
    driver: str = field(default="local-sync")
    threads: int = 0
    device_id: int = 0
    stream: int | None = None

    @property
    def fingerprint(self) -> str:
        """The digest of the code, and what runs it."""
        return f"{self.compiled.sha256} {self.driver}"

    @cached_property
    def executable(self) -> Executable:
        """The code, loaded on its device.

        Raises
        ------
        DeviceError
            If there is no device for the target here.
        """
        device = open_device(self.driver, self.threads, self.device_id, self.stream)
        module = load(self.compiled, device, self.target, self.seconds)
        uids = (*self.graph.outputs, *self.graph.inputs)
        names = [self.graph.tensors[u].name for u in uids]
        return Executable(module, self.compiled.signature, uids, names)

    def _execute(self, buffers: Mapping[int, Any], workspace: Any) -> None:
        self.executable.execute(buffers, workspace)

    def _run(self, inputs: Mapping[int, Any], copy: bool) -> dict[int, np.ndarray[Any, Any]]:
        return self.executable.run(inputs, copy=copy)

    def _bind(self, buffers: Mapping[int, Any], workspace: Any, copy: bool) -> Callable[[], None]:
        return self.executable.bind(buffers, workspace, copy=copy)

    def _submit(
        self, buffers: Mapping[int, Any], workspace: Any, after: Iterable[Pending]
    ) -> Pending:
        return self.executable.execute_async(buffers, workspace, after=after)

    def _many(self, sets: Sequence[Mapping[int, Any]], workspace: Any) -> None:
        self.executable.execute_many(sets, workspace)

    def on_device(self, device_id: int, stream: int | None = None) -> IreePlan:
        """Return this plan, not loaded yet, for a device of its driver and a stream of that."""
        return replace(self, device_id=device_id, stream=stream)

    def _on(self, stream: int) -> Plan:
        return super()._on(stream) if self.target.is_cpu else replace(self, stream=stream)
