# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference engine: float64 NumPy on the host; slow, for verification, never a default.

It defines the meaning of a graph (``provider.reference``), against which the results of other
engines are checked.  It serves graphs like any other engine if the user names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...graph_api.errors import Decline, Problem
from ...graph_api.frozen import FrozenGraph
from ...graph_api.ops import OPS
from ...jit.runtime.arrays import occupied, pack, unpack
from ...jit.target import Target
from ..binding import BindingPlan
from ..dynamic_plan import ExactPlan
from ..engine import Engine, checked_knobs
from ..plan import Plan
from .host_memory import HostMemory, host_memory

__all__ = ["RULES", "ReferenceEngine", "ReferencePlan"]

RULES: dict[str, str] = {
    "REFERENCE-01": "the target is the CPU, which NumPy computes on",
    "REFERENCE-02": "tensors are not ragged",
}


class ReferenceEngine(Engine):
    """Serves every op that has a reference, on the CPU."""

    NAME = "REFERENCE_ENGINE"
    ALIAS = "reference"
    BY_DEFAULT = False  # slow, and for checking
    LAST_RESORT = True

    def ops(self) -> tuple[str, ...]:
        return tuple(OPS)  # every op has a reference; the tests see to that

    def targets(self) -> tuple[str, ...]:
        return ("cpu",)

    def declines(self, graph: FrozenGraph, target: Target) -> list[Decline]:
        from ..reference import unsupported

        found = list(unsupported(graph))
        if not target.is_cpu:
            found.append(Problem(rule="REFERENCE-01", port="target", got=str(target), wanted="cpu"))
        found += [
            Problem(rule="REFERENCE-02", port=spec.label, got="a ragged tensor", wanted="dense")
            for spec in graph.tensors.values()
            if spec.ragged_offset_uid is not None
        ]
        return [Decline(engine=self.NAME, problem=problem) for problem in found]

    def build(
        self, graph: FrozenGraph, target: Target, knobs: Mapping[str, str] | None = None
    ) -> Plan:
        checked_knobs(self, graph, target, knobs)
        if graph.symbols:
            return ExactPlan(maker=self, graph=graph, target=target)
        return ReferencePlan(maker=self, graph=graph, target=target)


@dataclass(kw_only=True, repr=False)
class ReferencePlan(BindingPlan):
    """A graph that is evaluated in float64 and rounded once to the type of each output.

    It accepts the same buffers as the IREE engine (``jit.runtime.caller_memory``), in host memory.
    It needs no workspace, and ignores one.
    """

    def _bind(self, buffers: Mapping[int, Any], workspace: Any, copy: bool) -> Callable[[], None]:
        import numpy as np

        from ..reference import execute, to_dtype

        graph, arguments = self.graph, self.arguments
        memory = host_memory(graph, arguments, buffers, copy)

        # The default keeps the memory alive for as long as the call exists.
        def call(memory: HostMemory = memory) -> None:
            arrays, readers = memory.arrays, memory.readers
            inputs = {
                u: readers[u]()
                if u in readers
                else np.broadcast_to(unpack(arguments[u], arrays[u]), arguments[u].dims)
                for u in graph.inputs
            }
            for uid, result in execute(graph, inputs).items():
                spec = arguments[uid]
                values = to_dtype(result, spec.data_type)
                if arrays[uid].dtype == values.dtype:
                    arrays[uid][...] = values
                else:
                    occupied(arrays[uid], spec)[...] = occupied(pack(spec, values), spec)

        return call
