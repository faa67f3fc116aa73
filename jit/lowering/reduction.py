# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reductions, in the compute type from the first element on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from ...graph_api.enums import ReductionMode as Mode
from ...graph_api.frozen import FrozenNode
from ...graph_api.ops.reduction import Reduction
from ..emit.builder import Builder, T, Value

__all__ = ["MODES", "kept", "lower"]

Axes = Sequence[int]
Rule = Callable[[Builder, Value, Axes], Value]


def kept(x: Value, axes: Axes) -> tuple[int, ...]:
    """Return the dims of x, with 1 along the axes."""
    return tuple(1 if i in axes else d for i, d in enumerate(x.shape))


def _sum(b: Builder, x: Value, axes: Axes) -> Value:
    return b.call(T.AtenSumDimIntListOp, kept(x, axes), x.dtype, x, list(axes), True, None)


def _amin(b: Builder, x: Value, axes: Axes) -> Value:
    return b.call(T.AtenAminOp, kept(x, axes), x.dtype, x, list(axes), True)


def _amax(b: Builder, x: Value, axes: Axes) -> Value:
    return b.call(T.AtenAmaxOp, kept(x, axes), x.dtype, x, list(axes), True)


def _product(b: Builder, x: Value, axes: Axes) -> Value:
    for axis in axes:
        x = b.call(T.AtenProdDimIntOp, kept(x, [axis]), x.dtype, x, axis, True, None)
    return x


def _average(b: Builder, x: Value, axes: Axes) -> Value:
    return b.mean(_sum(b, x, axes), prod(x.shape[a] for a in axes))


def _absolute(b: Builder, x: Value) -> Value:
    return b.unary(T.AtenAbsOp, x)


def _without_zeros(b: Builder, x: Value) -> Value:
    return b.where(b.truth(x), x, b.literal(1, x.dtype, ()))


MODES: dict[Mode, Rule] = {
    Mode.ADD: _sum,
    Mode.MUL: _product,
    Mode.MIN: _amin,
    Mode.MAX: _amax,
    Mode.AMAX: lambda b, x, axes: _amax(b, _absolute(b, x), axes),
    Mode.AVG: _average,
    Mode.NORM1: lambda b, x, axes: _sum(b, _absolute(b, x), axes),
    Mode.NORM2: lambda b, x, axes: b.unary(T.AtenSqrtOp, _sum(b, b.mul(x, x), axes)),
    Mode.MUL_NO_ZEROS: lambda b, x, axes: _product(b, _without_zeros(b, x), axes),
}


def lower(b: Builder, node: FrozenNode, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Emit y = mode over the dims in which y has extent 1."""
    op = node.op
    assert isinstance(op, Reduction)
    assert op.axes is not None
    x = b.convert(inputs["x"], node.compute_data_type)
    if prod(x.shape[a] for a in op.axes) == 1:
        # Sums over single elements fold to their input, which must not become an output.
        x = b.copy(x)
    return {"y": MODES[op.mode](b, x, op.axes)}
