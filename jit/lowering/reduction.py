# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reductions, in the compute type from the first element on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from ...graph_api.enums import ReductionMode as Mode
from ...graph_api.frozen import FrozenNode
from ...graph_api.ops.reduction import Reduction
from ..emit.builder import Builder, T, Value
from .sums import Axes, kept, largest, least, total

__all__ = ["MODES", "lower"]

Rule = Callable[[Builder, Value, Axes], Value]


def _product(b: Builder, x: Value, axes: Axes) -> Value:
    for axis in axes:
        x = b.call(T.AtenProdDimIntOp, kept(x, [axis]), x.dtype, x, axis, True, None)
    return x


def _average(b: Builder, x: Value, axes: Axes) -> Value:
    return b.mean(total(b, x, axes), prod(x.shape[a] for a in axes))


def _absolute(b: Builder, x: Value) -> Value:
    return b.unary(T.AtenAbsOp, x)


def _without_zeros(b: Builder, x: Value) -> Value:
    return b.where(b.truth(x), x, b.literal(1, x.dtype, ()))


MODES: dict[Mode, Rule] = {
    Mode.ADD: total,
    Mode.MUL: _product,
    Mode.MIN: least,
    Mode.MAX: largest,
    Mode.AMAX: lambda b, x, axes: largest(b, _absolute(b, x), axes),
    Mode.AVG: _average,
    Mode.NORM1: lambda b, x, axes: total(b, _absolute(b, x), axes),
    Mode.NORM2: lambda b, x, axes: b.unary(T.AtenSqrtOp, total(b, b.mul(x, x), axes)),
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
