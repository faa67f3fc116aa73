# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sums and extremes over axes; the op's ``INFO`` says ``adds_up``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from ..emit.builder import Builder, T, Value
from ..emit.structured import barrier, from_builtin, to_builtin
from ..ops.blocking import divisors

__all__ = ["Axes", "kept", "largest", "least", "of_columns", "of_terms", "total"]

Axes = Sequence[int]

# Parts of a matrix's rows, at most, and the elements from which on there are any.
_MOST_PARTS, _SHARED_OUT = 64, 1 << 15


def kept(x: Value, axes: Axes) -> tuple[int, ...]:
    """Return the dims of x, with 1 along the axes."""
    return tuple(1 if i in axes else d for i, d in enumerate(x.shape))


def total(b: Builder, x: Value, axes: Axes, *, keep: bool = True) -> Value:
    """Return Σx over the axes, which stay with extent 1 if ``keep``; x where there are none."""
    return _over(b, T.AtenSumDimIntListOp, x, axes, None, keep=keep)


def of_columns(b: Builder, x: Value) -> Value:
    """Return the sums of a matrix's columns, (1, columns), on a CPU: of parts first, side by side.

    The compiler shares out columns alone, of which there may be few (25,088 rows of 64).
    """
    rows, columns = x.shape
    parts = divisors(rows, _MOST_PARTS)[-1] if rows * columns >= _SHARED_OUT else 1
    if parts > 1:
        x = total(b, b.reshape(x, (parts, rows // parts, columns)), [1], keep=False)
    sums = total(b, x, [0])
    # Fused with what follows it would be summed anew by each worker.
    return from_builtin(b, barrier(to_builtin(sums), "end"), sums.shape, sums.dtype)


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
