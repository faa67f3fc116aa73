# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sums and extremes over axes, which stay with extent 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..emit.builder import Builder, T, Value

__all__ = ["Axes", "kept", "largest", "least", "total"]

Axes = Sequence[int]


def kept(x: Value, axes: Axes) -> tuple[int, ...]:
    """Return the dims of x, with 1 along the axes."""
    return tuple(1 if i in axes else d for i, d in enumerate(x.shape))


def total(b: Builder, x: Value, axes: Axes) -> Value:
    """Return Σx over the axes; x where there are none."""
    return _over(
        b,
        x,
        axes,
        lambda y, some: b.call(T.AtenSumDimIntListOp, kept(y, some), y.dtype, y, some, True, None),
    )


def least(b: Builder, x: Value, axes: Axes) -> Value:
    """Return the smallest element over the axes."""
    return _over(
        b, x, axes, lambda y, some: b.call(T.AtenAminOp, kept(y, some), y.dtype, y, some, True)
    )


def largest(b: Builder, x: Value, axes: Axes) -> Value:
    """Return the largest element over the axes."""
    return _over(
        b, x, axes, lambda y, some: b.call(T.AtenAmaxOp, kept(y, some), y.dtype, y, some, True)
    )


def _over(b: Builder, x: Value, axes: Axes, reduce: Callable[[Value, list[int]], Value]) -> Value:
    """Reduce x over all axes at once, or over one after the other where the plan says so."""
    groups = [[a] for a in reversed(axes)] if b.node_plan.dim_by_dim else [list(axes)]
    for some in filter(None, groups):
        x = reduce(x, some)
    return x
