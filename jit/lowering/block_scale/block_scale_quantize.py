# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Quantisation in blocks: the largest of a block, its scale, and the elements over it."""

from __future__ import annotations

from collections.abc import Mapping

from ....graph_api.dtypes import DataType
from ....graph_api.frozen import FrozenNode
from ....graph_api.ops.block_scale_quantize import BlockScaleQuantize
from ...emit import narrow
from ...emit.builder import Builder, T, Value

__all__ = ["lower"]


def lower(b: Builder, node: FrozenNode, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Emit scale from each block's largest element, and y = x / scale."""
    op = node.op
    assert isinstance(op, BlockScaleQuantize)
    assert op.axis is not None
    assert op.block_size is not None
    double = node.compute_data_type is DataType.DOUBLE
    # The powers of two of E8M0 are no numbers of half precision.
    compute = DataType.DOUBLE if double else DataType.FLOAT
    x, axis = b.convert(b.convert(inputs["x"], node.compute_data_type), compute), op.axis
    blocks = (*x.shape[:axis], x.shape[axis] // op.block_size, *x.shape[axis + 1 :])
    kept = (*blocks[: axis + 1], 1, *blocks[axis + 1 :])
    split = b.reshape(x, (*blocks[: axis + 1], op.block_size, *blocks[axis + 1 :]))
    largest = b.call(T.AtenAmaxOp, kept, compute, b.unary(T.AtenAbsOp, split), [axis + 1], True)
    if op.factor is DataType.FP8_E8M0:
        scale, inverse = narrow.shared_scale(b, largest, op.element)
        y = b.mul(split, b.convert(inverse, compute))
    else:
        most = op.factor.largest
        wanted = b.binary(T.AtenDivTensorOp, largest, b.literal(op.element.largest, compute, ()))
        scale = b.convert(b.unary(T.AtenClampMaxOp, wanted, most), op.factor)
        divisor = b.convert(scale, compute)
        # Where all elements are 0 (or as good as that), so is the scale.
        nothing = b.call(T.AtenEqScalarOp, kept, DataType.BOOLEAN, divisor, 0.0)
        quotient = b.binary(T.AtenDivTensorOp, split, divisor)
        y = b.where(nothing, b.literal(0, compute, ()), quotient)
    top = op.element.largest
    y = b.reshape(b.unary(T.AtenClampOp, y, -top, top), x.shape)
    return {"y": y, "scale": b.reshape(scale, blocks)}
