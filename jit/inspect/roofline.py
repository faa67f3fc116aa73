# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How long a dispatch must take at least: bytes over bandwidth, arithmetic over its peak."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ...graph_api.dtypes import DataType
from ...graph_api.frozen import FrozenGraph, FrozenNode
from ..work import Work, graph_work, node_work

__all__ = ["MachinePeaks", "Roofline", "least_seconds", "roofline"]


class MachinePeaks(Protocol):
    """Rates that a machine cannot exceed."""

    @property
    def vector_flops(self) -> float:
        """Peak of float32 vector arithmetic, in 1/s."""

    @property
    def bytes_per_s(self) -> float:
        """Peak bandwidth of memory."""

    def matrix_flops(self, kind: str) -> float:
        """Return the peak of matmuls for operands of a kind (``"f16"``...), in 1/s; 0: none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Roofline:
    """Lower bounds from data sheets; nothing was measured.

    Attributes
    ----------
    memory_s, matrix_s, vector_s : float
        Time for the bytes, for matmuls (by matrix instructions; by vector arithmetic where the
        code has none) and for all other arithmetic, each at its peak.
    bound : str
        What takes longest: ``"memory"``, ``"matrix"`` or ``"vector"``.
    seconds : float
        That time; the three overlap at best.
    intensity : float
        Operations per byte.
    ridge : float
        Operations per byte above which this GPU would be bound by arithmetic.
    """

    memory_s: float
    matrix_s: float
    vector_s: float
    bound: str
    seconds: float
    intensity: float
    ridge: float


def roofline(work: Work, sheet: MachinePeaks, kind: str, *, matrix: bool = True) -> Roofline:
    """Return the least times for some work on a product.

    Parameters
    ----------
    work : Work
        Arithmetic and bytes.
    sheet : MachinePeaks
    kind : str
        Operands of the matrix instructions: ``"f16"``, ``"bf16"``, ``"f32"``...
    matrix : bool
        Whether the code has matrix instructions.
    """
    peak = sheet.matrix_flops(kind) if matrix else 0.0
    memory = work.nbytes / sheet.bytes_per_s
    matmuls = work.matrix_flops / (peak or sheet.vector_flops)
    others = work.other_flops / sheet.vector_flops
    times = {"memory": memory, "matrix": matmuls, "vector": others}
    if not peak:
        times = {"memory": memory, "vector": matmuls + others}
    bound = max(times, key=lambda name: times[name])
    top = peak if work.matrix_flops and peak else sheet.vector_flops
    return Roofline(
        memory_s=memory,
        matrix_s=matmuls,
        vector_s=others,
        bound=bound,
        seconds=times[bound],
        intensity=work.intensity,
        ridge=top / sheet.bytes_per_s,
    )


def least_seconds(graph: FrozenGraph, peaks: MachinePeaks) -> float:
    """Return how long a graph must take at least, however it is fused.

    Each input and output moves once, arithmetic of all nodes adds up, and the three overlap.
    Matmuls count at the rate of their narrowest operand, the fastest that they could be done at.
    """
    matrix = vector = 0.0
    for node in graph.nodes:
        least = roofline(node_work(graph, node), peaks, _kind(graph, node))
        matrix, vector = matrix + least.matrix_s, vector + least.vector_s
    memory = graph_work(graph).nbytes / peaks.bytes_per_s
    return max(memory, matrix, vector)


_KINDS = {
    DataType.DOUBLE: "f64",
    DataType.FLOAT: "f32",
    DataType.HALF: "f16",
    DataType.BFLOAT16: "bf16",
}
_BYTE = 8


def _kind(graph: FrozenGraph, node: FrozenNode) -> str:
    specs = [graph.tensors[uid] for uid in node.inputs.values()]
    types = [spec.data_type for spec in specs if spec.value is None]
    floats = [kind for kind in types if kind.is_float]  # masks and lengths are not multiplied
    narrowest = min(floats or types or [DataType.FLOAT], key=lambda kind: kind.bits)
    if narrowest.bits <= _BYTE:
        return "f8" if narrowest.is_float else "i8"
    return _KINDS.get(narrowest, "")
