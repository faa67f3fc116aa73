# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Running sums, in the compute type from the first element on."""

from __future__ import annotations

from collections.abc import Mapping
from math import isqrt

from ...graph_api.frozen import FrozenNode
from ...graph_api.ops.cumsum import Cumsum
from ..emit.builder import Builder, T, Value

__all__ = ["lower"]

_WIDEST = 128
"""Elements whose running sums are found by adding up those that count, each anew."""


def lower(b: Builder, node: FrozenNode, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Emit y = sums of x along the axis, from the end that the op names."""
    op = node.op
    assert isinstance(op, Cumsum)
    x = b.convert(inputs["x"], node.compute_data_type)
    if x.shape[op.axis] == 1:
        # Of a single element the sum is itself, and no output may be an input unchanged.
        return {"y": b.copy(b.literal(0, x.dtype, x.shape) if op.exclusive else x)}
    if b.strikes("W-113"):
        return {"y": _blocks(b, x, op.axis, exclusive=op.exclusive, reverse=op.reverse)}
    return {"y": _scan(b, x, op)}


def _scan(b: Builder, x: Value, op: Cumsum) -> Value:
    """Return the sums by the compiler's own scan."""
    x = b.flip(x, [op.axis]) if op.reverse else x
    if op.exclusive:
        first = [1 if i == op.axis else d for i, d in enumerate(x.shape)]
        parts = [b.literal(0, x.dtype, first), b.slice(x, op.axis, 0, x.shape[op.axis] - 1)]
        x = b.concatenate(parts, op.axis)
    y = b.call(T.AtenCumsumOp, x.shape, x.dtype, x, op.axis, None)
    return b.flip(y, [op.axis]) if op.reverse else y


def _blocks(b: Builder, x: Value, axis: int, *, exclusive: bool, reverse: bool) -> Value:
    """Return the sums by those within blocks, and of the blocks before.

    An element is added about √extent times, in at most three kernels for 16,384 elements.
    """
    extent = x.shape[axis]
    if extent <= _WIDEST:
        return _masked(b, x, axis, exclusive=exclusive, reverse=reverse)
    width = min(_WIDEST, isqrt(extent - 1) + 1)
    count = -(-extent // width)
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    if rest := count * width - extent:
        x = b.concatenate([x, b.literal(0, x.dtype, (*before, rest, *after))], axis)
    x = b.reshape(x, (*before, count, width, *after))
    inside = _masked(b, x, axis + 1, exclusive=exclusive, reverse=reverse)
    whole = b.call(
        T.AtenSumDimIntListOp, (*before, count, *after), x.dtype, x, [axis + 1], False, None
    )
    others = _blocks(b, whole, axis, exclusive=True, reverse=reverse)
    y = b.add(inside, b.reshape(others, (*before, count, 1, *after)))
    return b.slice(b.reshape(y, (*before, count * width, *after)), axis, 0, extent)


def _masked(b: Builder, x: Value, axis: int, *, exclusive: bool, reverse: bool) -> Value:
    """Return the sums, each over all elements, of which those that do not count are 0.

    Torch's triu tells them apart by their indices; a mask made of ranges would be found when the
    module is loaded, by a kernel of its own, and read from memory.
    """
    others = [i for i in range(x.rank) if i != axis]
    rows = b.permute(x, (*others, axis))
    outer, extent = rows.shape[:-1], x.shape[axis]
    # Upper triangles of (element, sum), or where sums begin at the end of (sum, element).
    column = (1, extent) if reverse else (extent, 1)
    terms = b.expand(b.reshape(rows, (*outer, *column)), (*outer, extent, extent))
    terms = b.unary(T.AtenTriuOp, terms, int(exclusive))
    summed = len(outer) + int(reverse)
    sums = b.call(T.AtenSumDimIntListOp, rows.shape, x.dtype, terms, [summed], False, None)
    return b.permute(sums, [others.index(i) if i != axis else len(others) for i in range(x.rank)])
