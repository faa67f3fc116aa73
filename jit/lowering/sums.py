# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sums and extremes over axes; the op's ``INFO`` says ``adds_up``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from ..emit.builder import Builder, T, Value

__all__ = ["Axes", "kept", "largest", "least", "of_terms", "total"]

Axes = Sequence[int]


def kept(x: Value, axes: Axes) -> tuple[int, ...]:
    """Return the dims of x, with 1 along the axes."""
    return tuple(1 if i in axes else d for i, d in enumerate(x.shape))


def total(b: Builder, x: Value, axes: Axes, *, keep: bool = True) -> Value:
    """Return Σx over the axes, which stay with extent 1 if ``keep``; x where there are none."""
    return _over(b, T.AtenSumDimIntListOp, x, axes, None, keep=keep)


def of_terms(b: Builder, terms: Sequence[Value], fused: int) -> Value:
    """Return the sum of terms, by partial sums of as many as the compiler fuses into one loop."""
    parts = [terms[i : i + fused] for i in range(0, len(terms), fused)]
    return reduce(b.add, [reduce(b.add, part) for part in parts])


def least(b: Builder, x: Value, axes: Axes) -> Value:
    """Return the smallest element over the axes, which stay with extent 1."""
    return _over(b, T.AtenAminOp, x, axes)


def largest(b: Builder, x: Value, axes: Axes) -> Value:
    """Return the largest element over the axes, which stay with extent 1."""
    return _over(b, T.AtenAmaxOp, x, axes)


def _over(b: Builder, op: Any, x: Value, axes: Axes, *more: object, keep: bool = True) -> Value:
    """Reduce x over all axes at once, or over one after the other where the plan says so."""
    groups = [[a] for a in sorted(axes, reverse=True)] if b.node_plan.dim_by_dim else [list(axes)]
    for some in filter(None, groups):
        left = kept(x, some) if keep else [d for i, d in enumerate(x.shape) if i not in some]
        x = b.call(op, left, x.dtype, x, some, keep, *more)
    return x
