# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How long a dispatch must take at least: bytes over bandwidth, arithmetic over its peak."""

from __future__ import annotations

from dataclasses import dataclass

from ..work import Work
from .machine import Sheet

__all__ = ["Roofline", "roofline"]


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


def roofline(work: Work, sheet: Sheet, kind: str, *, matrix: bool = True) -> Roofline:
    """Return the least times for some work on a product.

    Parameters
    ----------
    work : Work
        Arithmetic and bytes.
    sheet : Sheet
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
