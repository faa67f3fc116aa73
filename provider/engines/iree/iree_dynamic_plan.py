# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plans of the IREE engine for graphs with dynamic dims: one module for all sizes."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from ....graph_api.frozen import FrozenGraph
from ....graph_api.layout import strides_in_order
from ....jit.pipeline import Compiled, signature_of
from ....jit.runtime.executable import Executable
from ....jit.runtime.loaded_module import LoadedModule
from ....jit.runtime.streams import device_of
from ....jit.signature import ArgSpec
from ...dynamic_plan import DynamicPlan
from ...emulated import start as start_emulation
from ...plan import Plan
from .iree_plan import IreePlan, driver_for, load, open_device

__all__ = ["DynamicIreePlan", "SizedPlan"]


@dataclass(kw_only=True, repr=False)
class DynamicIreePlan(DynamicPlan):
    """Code that is compiled once and executed at every size.

    Attributes
    ----------
    compiled : Compiled
        The code.
    device_id, stream : int, int or None
        As for an `IreePlan`.
    """

    compiled: Compiled
    device_id: int = 0
    stream: int | None = None
    _modules: dict[str, LoadedModule] = field(default_factory=dict, init=False, repr=False)
    _loading: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    @property
    def attempt(self) -> str:
        """By what its code was made where it does not compile as planned; else empty."""
        return self.compiled.attempt

    @property
    def fingerprint(self) -> str:
        """The digest of the code, and the driver at the example sizes."""
        driver = self.knobs.get("driver") or driver_for(
            self.graph, self.target, self.maker.settings
        )
        return f"{self.compiled.sha256} {driver}"

    def module(self, driver: str) -> LoadedModule:
        """Return the code on a device; it is loaded once for each driver."""
        with self._loading:
            if driver not in self._modules:
                threads = self.maker.settings.runtime_threads
                start_emulation(self.maker.settings)
                device = open_device(driver, threads, self.device_id, self.stream)
                self._modules[driver] = load(self.compiled, device, self.target, self.seconds)
            return self._modules[driver]

    def on_device(self, device_id: int, stream: int | None = None) -> DynamicIreePlan:
        """Return this plan, not loaded yet, for a device of its driver and a stream of that."""
        return replace(self, device_id=device_id, stream=stream)

    def _on(self, stream: int) -> Plan:
        if self.target.is_cpu:
            return super()._on(stream)
        start_emulation(self.maker.settings)
        number = device_of(self.target.drivers[0], stream, self.device_id)
        return self.on_device(number, stream)

    def _at(self, graph: FrozenGraph, sizes: Mapping[str, int]) -> Plan:
        args = _arguments(self.graph, graph)
        driver = self.knobs.get("driver") or driver_for(graph, self.target, self.maker.settings)
        workspace = 0
        if self.compiled.workspace_bytes is None:
            # Only the code itself can compute it, so the device is needed here.
            workspace = self.module(driver).measure(args)
        else:
            workspace = self.compiled.workspace_bytes
        signature = replace(self.compiled.signature, args=args, workspace_bytes=workspace)
        return SizedPlan(
            maker=self.maker,
            graph=graph,
            target=self.target,
            knobs=self.knobs,
            policy=self.policy,
            why=self.why,
            cache=self.cache,
            seconds=dict(self.seconds),
            workspace_bytes=workspace,
            statistics=self.statistics,
            compiled=replace(self.compiled, signature=signature),
            driver=driver,
            whole=self,
        )


@dataclass(kw_only=True, repr=False)
class SizedPlan(IreePlan):
    """The code of a `DynamicIreePlan` for fixed sizes."""

    whole: DynamicIreePlan

    @property
    def in_place(self) -> tuple[tuple[int, int], ...]:
        """Nothing: dims that are equal at these sizes need not be equal in the code."""
        return ()

    @cached_property
    def executable(self) -> Executable:
        """The code with the arguments of these sizes."""
        uids = (*self.whole.graph.outputs, *self.whole.graph.inputs)
        names = [self.graph.tensors[u].name for u in uids]
        return Executable(self.whole.module(self.driver), self.compiled.signature, uids, names)

    def on_device(self, device_id: int, stream: int | None = None) -> IreePlan:
        """Return this plan, not loaded yet, for a device of its driver and a stream of that."""
        return replace(self, whole=self.whole.on_device(device_id, stream))

    def _on(self, stream: int) -> Plan:
        whole = self.whole.on_stream(stream)
        assert isinstance(whole, DynamicIreePlan), whole
        return replace(self, whole=whole)


def _arguments(whole: FrozenGraph, graph: FrozenGraph) -> tuple[ArgSpec, ...]:
    """Return the arguments at some sizes, in the order and memory order of the compiled code."""
    found = []
    uids = (*whole.outputs, *whole.inputs)
    for uid, arg in zip(uids, signature_of(whole).args, strict=True):
        spec = whole.tensors[uid]
        if spec.dynamic:
            # The layout at these sizes does not determine the order of dims with extent 1.
            dims, order = graph.tensors[uid].dims, spec.layout.order
            shape = tuple(dims[axis] for axis in order)
            strides = strides_in_order(dims, order)
            found.append(replace(arg, dims=dims, strides=strides, shape=shape))
        else:
            found.append(arg)
    return tuple(found)
