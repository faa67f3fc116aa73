# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PyTorch on the CPU (oneDNN) as an engine: the extra ``torch``.

Declining needs no PyTorch; building imports it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from .... import __version__
from ....graph_api.dtypes import DataType
from ....graph_api.errors import Decline, Problem
from ....graph_api.frozen import FrozenGraph
from ....jit.target import Target
from ....jit.work import pays_threads
from ...binding import BindingPlan
from ...dynamic_plan import ExactPlan
from ...engine import Engine, EngineKnob, checked_knobs
from ...plan import Buffers, Plan
from . import served, served_by
from .groups import around
from .torch_op import NARROW, TYPES, NodeContext

if TYPE_CHECKING:
    from .torch_program import TorchProgram

__all__ = ["TorchEngine", "TorchPlan"]


class TorchEngine(Engine):
    """Serves what PyTorch's functions for the CPU compute."""

    NAME = "TORCH_CPU_ENGINE"
    ALIAS = "torch"
    BY_DEFAULT = False  # the program's own code is what somebody who names no engine gets

    def version(self) -> str:
        return _version()

    def versions(self) -> dict[str, str]:
        return {self.NAME: f"{__version__}+torch{_version()}"}

    def ops(self) -> tuple[str, ...]:
        return served()

    def targets(self) -> tuple[str, ...]:
        return ("cpu",)

    def declines(self, graph: FrozenGraph, target: Target) -> list[Decline]:
        found = [Decline(engine=self.NAME, problem=p) for p in _problems(graph, target)]
        if find_spec("torch") is None:
            problem = Problem(
                rule="TORCH-ENG-01",
                port="torch",
                got="no such module",
                wanted="PyTorch",
                hint="pip install 'hipdnn-iree[torch]'",
            )
            found.insert(0, Decline(engine=self.NAME, problem=problem))
        return found

    def knobs(self, graph: FrozenGraph, target: Target) -> tuple[EngineKnob, ...]:
        found = (served_by(node.op.NAME) for node in graph.nodes)
        return tuple(dict.fromkeys(knob for how in found if how for knob in how.knobs))

    def build(
        self, graph: FrozenGraph, target: Target, knobs: Mapping[str, str] | None = None
    ) -> Plan:
        chosen = checked_knobs(self, graph, target, knobs)
        if graph.symbols:
            return ExactPlan(maker=self, graph=graph, target=target, knobs=chosen)
        begin = time.perf_counter()
        from .torch_program import TorchProgram

        # Some of PyTorch's functions wake their threads whatever the size: a softmax of 8 rows took
        # 104 ms on two cores under load 8 (the median), and 3 us on the calling thread alone.
        threads = self.settings.runtime_threads if pays_threads(graph) else 1
        program = TorchProgram(graph, threads, chosen)
        return TorchPlan(
            maker=self,
            graph=graph,
            target=target,
            knobs=chosen,
            seconds={"build": time.perf_counter() - begin},
            statistics={"calls": program.calls},
            program=program,
        )


@cache
def _version() -> str:
    """Return PyTorch's version, empty where it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("torch")
    except PackageNotFoundError:
        return ""


def _problems(graph: FrozenGraph, target: Target) -> Iterator[Problem]:
    if not target.is_cpu:
        yield Problem(rule="TORCH-ENG-02", port="target", got=str(target), wanted="cpu")
    for spec in graph.tensors.values():
        if spec.data_type not in TYPES:
            wanted = ", ".join(kind.json for kind in TYPES)
            got = spec.data_type.json
            yield Problem(rule="TORCH-ENG-04", port=spec.label, got=got, wanted=wanted)
        if spec.ragged_offset_uid is not None:
            got = "a ragged tensor"
            yield Problem(rule="TORCH-ENG-05", port=spec.label, got=got, wanted="dense")
    for node in graph.nodes:
        how = served_by(node.op.NAME)
        n = around(graph, node)
        if how is None:
            wanted = f"one of {', '.join(served())}"
            yield n.problem("TORCH-ENG-03", "op", node.op.NAME, wanted)
            continue
        if n.compute not in TYPES and node.op.computes():
            wanted = ", ".join(kind.json for kind in TYPES)
            yield n.problem("TORCH-ENG-06", "compute_data_type", n.compute.json, wanted)
            continue
        yield from how.problems(n)
        yield from _roundings(n)


_WIDE = (DataType.DOUBLE, DataType.INT32, DataType.INT64)


def _roundings(n: NodeContext) -> Iterator[Problem]:
    """Yield the results of 16 bits that PyTorch would round by way of FLOAT."""
    copies = not n.op.computes()
    sources = {spec.data_type for spec in n.inputs.values()} if copies else {n.internal}
    wide = sorted(kind.json for kind in sources & set(_WIDE))
    for port, spec in n.outputs.items():
        if spec.data_type in NARROW and wide:
            got = f"{spec.data_type.json} from {', '.join(wide)}"
            yield n.problem("TORCH-ENG-08", port, got, "float as the type between")


@dataclass(kw_only=True, repr=False)
class TorchPlan(BindingPlan):
    """A graph as calls of PyTorch, in inference mode.

    It takes what the IREE engine takes (``jit.runtime.caller_memory``), by the same rules, in host
    memory.  A workspace is not needed, and ignored.  PyTorch's number of threads is changed during
    a call where the setting ``runtime.threads`` gives one, and to one for small work.
    """

    program: TorchProgram

    def _bind(self, buffers: Mapping[int, Any], workspace: Any, copy: bool) -> Callable[[], None]:
        from ..host_memory import host_memory

        memory = host_memory(self.graph, self.arguments, buffers, copy)
        return self.program.bind(memory)

    def native(self, buffers: Buffers) -> Callable[[], list[Any]]:
        """Return the call as a program of PyTorch makes it: results in new tensors, no copies.

        What benchmarks hold other engines against; parameters and errors as of ``bind``.
        """
        from ..host_memory import host_memory

        memory = host_memory(self.graph, self.arguments, self._by_uid(buffers), False)
        return self.program.results(memory)
