# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradients of convolutions as one op of Torch's: for comparison (W-087)."""

from __future__ import annotations

from torch_mlir import ir

from ....graph_api.dtypes import DataType
from ....graph_api.ops.conv_fprop import ConvOp
from ...emit.builder import Builder, T, Value

__all__ = ["backward"]


def backward(
    b: Builder, dy: Value, x: Value, w: Value, op: ConvOp, accumulate: DataType, *, which: int
) -> Value:
    """Return one result of ``aten.convolution_backward``: 0 the input's, 1 the filter's."""
    like = (x, w)[which]
    nothing = ir.Type.parse("!torch.none")
    types = [nothing, nothing, nothing]
    types[which] = b.type(like.shape, accumulate)
    none = [0] * len(op.stride)
    made = T.AtenConvolutionBackwardOp(
        *types,
        *(v.ssa for v in (dy, x, w)),
        *map(b.constant, (None, list(op.stride), list(op.pre_padding), list(op.dilation), False)),
        *map(b.constant, (none, x.shape[1] // w.shape[1])),
        T.PrimListConstructOp(
            ir.Type.parse("!torch.list<bool>"), [b.constant(i == which) for i in range(3)]
        ).result,
    )
    return b.value(made.results[which], like.shape, accumulate)
