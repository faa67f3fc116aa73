"""Running sums, in the compute type from the first element on."""

from __future__ import annotations

from collections.abc import Mapping

from ...graph_api.frozen import FrozenNode
from ...graph_api.ops.cumsum import Cumsum
from ..emit.builder import Builder, T, Value

__all__ = ["lower"]


def lower(b: Builder, node: FrozenNode, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Emit y = sums of x along the axis, from the end that the op names."""
    op = node.op
    assert isinstance(op, Cumsum)
    x = b.convert(inputs["x"], node.compute_data_type)
    extent = x.shape[op.axis]
    x = b.flip(x, [op.axis]) if op.reverse else x
    if op.exclusive:
        first = [1 if i == op.axis else d for i, d in enumerate(x.shape)]
        zero = b.literal(0, x.dtype, first)
        parts = [zero, b.slice(x, op.axis, 0, extent - 1)] if extent > 1 else [zero]
        x = b.concatenate(parts, op.axis)
    if extent == 1:
        # Of a single element the sum is itself, and no output may be an input unchanged.
        return {"y": b.copy(x)}
    y = b.call(T.AtenCumsumOp, x.shape, x.dtype, x, op.axis, None)
    return {"y": b.flip(y, [op.axis]) if op.reverse else y}
