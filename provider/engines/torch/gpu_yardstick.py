# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PyTorch on a GPU, as a yardstick: what the same graph takes with the vendor's own libraries.

It is no engine: nobody can choose it for a graph.  Benchmarks hold kernels against it, timed in
the same way: operands in the GPU's memory, many calls between two waits, results where PyTorch
allocates them.  Operands of 16 bits stay as they are, and 32 bits are 32 bits: TF32 is off.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ....graph_api.errors import Decline, NotSupportedError, Problem
from ....graph_api.frozen import FrozenGraph
from ....jit.runtime.repeated import FLUSH_BYTES, Repeated
from ....jit.target import Target
from ...engine import Engine, checked_knobs
from ...plan import Buffers
from .torch_engine import TorchPlan

__all__ = ["RULES", "GpuYardstick", "gpu_yardstick"]

RULES: dict[str, str] = {
    "TORCH-GPU-01": "PyTorch sees the GPU that the code is for",
    "TORCH-GPU-02": "sizes are known when the graph is built",
}


@dataclass(kw_only=True, repr=False)
class GpuYardstick(TorchPlan):
    """A graph as calls of PyTorch on a GPU; only `native` can execute it.

    Attributes
    ----------
    device : str
        PyTorch's name of the GPU.
    """

    device: str = field(default="cuda:0")

    def native(self, buffers: Buffers) -> Callable[[], list[Any]]:
        """Return the call, whose results are in the host's memory; it has ``repeated``."""
        from ..host_memory import host_memory

        memory = host_memory(self.graph, self.arguments, self._by_uid(buffers), False)
        specs = self.graph.tensors
        found = self.program.operands(memory)
        return _GpuCall(
            self, {u: x.to(self.device).expand(specs[u].dims) for u, x in found.items()}
        )

    @cached_property
    def flushed(self) -> Any:
        """Memory larger than the GPU's caches."""
        import torch

        return torch.zeros(FLUSH_BYTES, dtype=torch.uint8, device=self.device)


class _GpuCall:
    """Executes on operands in the GPU's memory."""

    def __init__(self, plan: GpuYardstick, operands: dict[int, Any]) -> None:
        self._plan, self._operands = plan, operands
        self._memory = {x.untyped_storage().data_ptr() for x in operands.values()}

    def __call__(self) -> list[Any]:
        return [x.cpu() for x in self._run()]

    def _run(self) -> list[Any]:
        """Return the results, each in memory of its own: a view would be no work at all."""
        import torch

        return [
            x.clone(memory_format=torch.contiguous_format)
            if x.untyped_storage().data_ptr() in self._memory
            else x
            for x in self._plan.program.run(self._operands)
        ]

    @property
    def repeated(self) -> Repeated:
        """The same without copies, many times between two waits."""
        return Repeated(
            run=self._repeat,
            cold=lambda count: self._repeat(count, flush=True),
            flush=lambda count: self._repeat(count, flush=True, run=False),
        )

    def _repeat(self, count: int, *, flush: bool = False, run: bool = True) -> None:
        import torch

        memory = self._plan.flushed if flush else None
        for _ in range(count):
            if memory is not None:
                memory.fill_(1)
            if run:
                self._run()
        torch.cuda.synchronize(self._plan.device)


def gpu_yardstick(
    graph: FrozenGraph,
    target: Target,
    engine: Engine,
    knobs: Mapping[str, str] | None = None,
) -> GpuYardstick:
    """Return the graph as PyTorch computes it on the GPU that the settings name.

    Raises
    ------
    NotSupportedError
        For what PyTorch does not serve on the CPU either (TORCH-ENG-...), and where it sees no
        such GPU (TORCH-GPU-01), and for dynamic dims (TORCH-GPU-02).
    """
    begin, device_id = time.perf_counter(), engine.settings.runtime_device
    declines = engine.declines(graph, Target.parse("cpu"))
    if not declines:
        declines = [
            Decline(engine=engine.NAME, problem=p) for p in _problems(graph, target, device_id)
        ]
    if declines:
        raise NotSupportedError(f"PyTorch on {target} does not serve the graph", declines)
    import torch

    from .torch_program import TorchProgram

    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    device = f"cuda:{device_id}"  # PyTorch's name of AMD's GPUs, too
    chosen = checked_knobs(engine, graph, target, knobs)
    program = TorchProgram(graph, 0, chosen, device=device)
    return GpuYardstick(
        maker=engine,
        graph=graph,
        target=target,
        knobs=chosen,
        seconds={"build": time.perf_counter() - begin},
        statistics={"calls": program.calls},
        program=program,
        device=device,
    )


def _problems(graph: FrozenGraph, target: Target, device_id: int) -> list[Problem]:
    """Return why PyTorch cannot compute the graph on the GPU."""
    import torch

    if graph.symbols:
        got = ", ".join(map(str, graph.symbols))
        return [Problem(rule="TORCH-GPU-02", port="dims", got=got, wanted="no dynamic dims")]

    hip = torch.version.hip is not None
    count = torch.cuda.device_count() if hip == (target.backend == "rocm") else 0
    if device_id < count:
        return []
    kind = "ROCm" if hip else "CUDA"
    got = f"PyTorch {torch.__version__} for {kind}, which sees {count} of {target.backend}'s GPUs"
    wanted = f"GPU {device_id} of {target}"
    return [Problem(rule="TORCH-GPU-01", port="device", got=got, wanted=wanted)]
