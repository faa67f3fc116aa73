# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plans of the IREE engine: compiled code, and the device that executes it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from ....graph_api.frozen import FrozenGraph
from ....jit.in_place import in_place_pairs
from ....jit.pipeline import Compiled
from ....jit.runtime.device import Device
from ....jit.runtime.executable import Executable
from ....jit.runtime.loaded_module import LoadedModule
from ....jit.runtime.parameters import Parameters
from ....jit.runtime.streams import device_of
from ....jit.settings_table import Settings
from ....jit.signature import ArgSpec
from ....jit.target import Target
from ....jit.trace import span, traced
from ....jit.work import pays_threads
from ...emulated import start as start_emulation
from ...plan import Plan

if TYPE_CHECKING:
    import numpy as np

    from ....jit.inspect.profile import DispatchRun
    from ....jit.runtime.pending import Pending
    from ...plan import Buffers

__all__ = ["IreePlan", "driver_for", "load", "open_device"]


def driver_for(graph: FrozenGraph, target: Target, settings: Settings) -> str:
    """Return the IREE driver for a graph: worker threads only where they are faster."""
    if not target.is_cpu:
        return target.drivers[0]
    chosen = settings.runtime_driver
    if chosen != "auto":
        return chosen
    alone = settings.runtime_threads == 1 or len(os.sched_getaffinity(0)) == 1
    return "local-task" if pays_threads(graph) and not alone else "local-sync"


def load(
    compiled: Compiled,
    device: Device,
    target: Target,
    seconds: dict[str, float],
    parameters: Parameters | None = None,
) -> LoadedModule:
    """Return the code on a device; ``seconds`` takes the time that loading needed.

    Plans of one code, such as those of graphs that differ in names, share it while one is alive;
    code with ``parameters`` is the plan's own.
    """
    begin = time.perf_counter()
    dynamic = compiled.workspace_bytes is None
    key = device, compiled.sha256, dynamic
    device.check()
    module = _loaded.get(key) if parameters is None else None
    if module is None:
        with span("load", "execute", device=device.driver):
            module = LoadedModule.load(
                device,
                compiled.vmfb,
                sha256=compiled.sha256,
                target=str(target),
                dynamic=dynamic,
                parameters=parameters,
            )
        if parameters is None:
            _loaded[key] = module
    seconds["load"] = time.perf_counter() - begin
    return module


_loaded: WeakValueDictionary[tuple[Device, str, bool], LoadedModule] = WeakValueDictionary()


def open_device(driver: str, threads: int, device_id: int = 0, stream: int | None = None) -> Device:
    """Return the device of a driver; ``threads`` are the workers of ``local-task``, 0 all cores."""
    if stream is not None:
        return Device.on_stream(driver, stream, device_id=device_id)
    workers = (threads or None) if driver == "local-task" else None
    return Device.open(driver, device_id=device_id, workers=workers)


@dataclass(kw_only=True, repr=False)
class IreePlan(Plan):
    """Compiled code, loaded at its first use, so that plans for other machines can be built.

    Attributes
    ----------
    compiled : Compiled
        The code.
    driver : str
        IREE's driver that executes it.
    threads : int
        Worker threads of the driver ``local-task``; 0: one for each core.
    device_id : int
        The driver's number of the device.
    stream : int or None
        Stream that it executes on (`on_stream`).
    held : mapping of int to buffer, optional
        The contents of the graph's constants (`with_constants`).
    """

    compiled: Compiled
    driver: str = field(default="local-sync")
    threads: int = 0
    device_id: int = 0
    stream: int | None = None
    held: Mapping[int, Any] | None = None

    @property
    def attempt(self) -> str:
        """By what its code was made where it does not compile as planned; else empty."""
        return self.compiled.attempt

    @property
    def fingerprint(self) -> str:
        """The digest of the code, and the driver."""
        return f"{self.compiled.sha256} {self.driver}"

    @property
    def in_place(self) -> tuple[tuple[int, int], ...]:
        """The outputs and inputs that one buffer may serve."""
        return in_place_pairs(self.graph, self.statistics)

    @cached_property
    def executable(self) -> Executable:
        """The code, loaded on its device.

        Raises
        ------
        DeviceError
            If there is no device for the target here.
        BindError
            If what is given for the constants does not fit.
        """
        start_emulation(self.maker.settings)
        device = open_device(self.driver, self.threads, self.device_id, self.stream)
        parameters = self._parameters(device) if self.graph.constants else None
        module = load(self.compiled, device, self.target, self.seconds, parameters)
        uids = (*self.graph.outputs, *self.graph.arguments)
        names = [self.graph.tensors[u].name for u in uids]
        return Executable(module, self.compiled.signature, uids, names, in_place=self.in_place)

    def _parameters(self, device: Device) -> Parameters:
        uids = self.graph.constants
        specs = [self.graph.tensors[uid] for uid in uids]
        names = [spec.name for spec in specs]
        return Parameters(uids, names, list(map(ArgSpec.of, specs)), self.held or {}, device)

    def with_constants(self, buffers: Mapping[int, Any]) -> IreePlan:
        """Return this plan, not loaded yet, with the contents of the graph's constants.

        Loading it computes what follows from them alone.  It is executed without buffers for
        them.

        Parameters
        ----------
        buffers : mapping of int to buffer
            By uid; arrays are kept alive, memory at an address is the caller's to keep.  Nothing
            of it may change as long as the plan is used.
        """
        return replace(self, held={uid: buffers[uid] for uid in self.graph.constants})

    def profile(self, inputs: Buffers | None = None, *, runs: int = 3) -> tuple[DispatchRun, ...]:
        """Return how long each dispatch took; see `Plan.profile`."""
        if not self.target.is_cpu or self.graph.constants:
            return super().profile(inputs, runs=runs)
        from ....jit.inspect.profile import profile, tell_runs
        from ....jit.runtime.arrays import memory_of
        from ..host_memory import host_memory

        given = self.random_inputs() if inputs is None else self._by_uid(inputs)
        specs = [spec for spec in self.compiled.signature.args if not spec.output]
        arguments = dict(zip(self.graph.arguments, specs, strict=True))
        found = host_memory(self.graph, arguments, given, copy=True)
        if found.readers:  # scalars that are given at execution
            return super().profile(inputs, runs=runs)
        with span("profile", "execute"):
            launches = profile(
                self.compiled.vmfb,
                self.compiled.signature,
                [memory_of(spec, found.arrays[uid]) for uid, spec in arguments.items()],
                driver=self.driver,
                threads=self.threads,
                runs=runs,
            )
        if traced():
            nodes: dict[str, list[str]] = {}
            for one in self.dispatches():
                labels = [self.graph.nodes[number].label for number in one.nodes]
                if not one.at_load:
                    nodes.setdefault(one.name, []).append(", ".join(labels))
            tell_runs(launches, nodes)
        return launches

    def _ready(self, buffers: Mapping[int, Any]) -> tuple[Executable, Mapping[int, Any]]:
        """Return what executes, and the buffers for it.

        Where constants come with the other buffers, nobody says that they stay what they are:
        the code is loaded anew for them.
        """
        constants = self.graph.constants
        if not constants or self.held is not None:
            return self.executable, buffers
        given = {uid: buffers[uid] for uid in constants if uid in buffers}
        rest = {uid: buffer for uid, buffer in buffers.items() if uid not in given}
        return replace(self, held=given).executable, rest

    def _execute(self, buffers: Mapping[int, Any], workspace: Any) -> None:
        executable, buffers = self._ready(buffers)
        executable.execute(buffers, workspace)

    def _run(self, inputs: Mapping[int, Any], copy: bool) -> dict[int, np.ndarray[Any, Any]]:
        executable, inputs = self._ready(inputs)
        return executable.run(inputs, copy=copy)

    def _bind(self, buffers: Mapping[int, Any], workspace: Any, copy: bool) -> Callable[[], None]:
        executable, buffers = self._ready(buffers)
        return executable.bind(buffers, workspace, copy=copy)

    def _submit(
        self, buffers: Mapping[int, Any], workspace: Any, after: Iterable[Pending]
    ) -> Pending:
        executable, buffers = self._ready(buffers)
        return executable.execute_async(buffers, workspace, after=after)

    def _many(self, sets: Sequence[Mapping[int, Any]], workspace: Any) -> None:
        if self.graph.constants and self.held is None:
            super()._many(sets, workspace)
        else:
            self.executable.execute_many(sets, workspace)

    def on_device(self, device_id: int, stream: int | None = None) -> IreePlan:
        """Return this plan, not loaded yet, for a device of its driver and a stream of that."""
        return replace(self, device_id=device_id, stream=stream)

    def _on(self, stream: int) -> Plan:
        if self.target.is_cpu:
            return super()._on(stream)
        start_emulation(self.maker.settings)
        return self.on_device(device_of(self.driver, stream, self.device_id), stream)
