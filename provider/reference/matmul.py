"""Matmul; of two batch dims the smaller one is repeated element by element."""

from __future__ import annotations

from ...graph_api.ops.matmul import Matmul
from .analysis import bilinear, exact_matmul
from .base import Context
from .convert import Array

__all__ = ["REFERENCE"]


def _multiply(op: Matmul, a: Array, b: Array, ctx: Context) -> Array:
    for axis, (m, n) in enumerate(zip(a.shape[:-2], b.shape[:-2], strict=True)):
        # hipDNN: operand index = result index // (result extent // operand extent).
        a, b = a.repeat(max(m, n) // m, axis), b.repeat(max(m, n) // n, axis)
    return exact_matmul(a, b)


def _terms(op: Matmul, ctx: Context) -> int:
    return ctx.inputs["a"].dims[-1]


REFERENCE = bilinear(_multiply, ("a", "b"), "c", _terms)
