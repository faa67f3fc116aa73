# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradient of the experts' weights: of each expert, or each block of rows, one matmul."""

from __future__ import annotations

from collections.abc import Mapping

from torch_mlir import ir

from ....graph_api.dtypes import DataType
from ....graph_api.frozen import FrozenNode
from ....graph_api.ops.moe_grouped_matmul_bwd import MoeGroupedMatmulBwd
from ...emit.builder import Builder, T, Value
from ...ops.experts import BLOCKS, block_rows
from ..accumulate import operands
from ..batched_matmul import batched_matmul
from .moe_blocks import assign_blocks, gather_rows
from .moe_rows import experts_of_rows

__all__ = ["lower"]


def lower(b: Builder, node: FrozenNode, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Emit dweight = tokenᵀ · doutput over the rows of each expert; other rows count as zeros."""
    op = node.op
    assert isinstance(op, MoeGroupedMatmulBwd)
    token, doutput, accumulate = operands(
        b, inputs["token"], inputs["doutput"], node.compute_data_type
    )
    experts, (_, rows, _) = op.dweight_dims[0], token.shape
    offsets = inputs["first_token_offset"]
    if b.strategy == BLOCKS:
        return {"dweight": _in_blocks(b, offsets, token, doutput, experts, accumulate)}
    expert = experts_of_rows(b, offsets, rows, experts)
    owner = b.reshape(expert, (1, rows, 1))
    parts = []
    for e in range(experts):
        own = b.compare(T.AtenEqTensorOp, owner, b.literal(e, DataType.INT32, ()))
        # Both, because zero times an infinity or a NaN would be NaN.
        left, right = (b.where(own, x, b.literal(0, x.dtype, ())) for x in (token, doutput))
        parts.append(
            batched_matmul(b, b.permute(left, (0, 2, 1)), right, accumulate, transposed=True)
        )
    return {"dweight": b.concatenate(parts, 0)}


def _in_blocks(
    b: Builder, offsets: Value, token: Value, doutput: Value, experts: int, accumulate: DataType
) -> Value:
    """Return the matmuls of blocks of rows, each added to its expert's."""
    (_, rows, k), n = token.shape, doutput.shape[2]
    size = block_rows(rows, offsets.shape[0], k, n)
    at = assign_blocks(b, offsets, rows, experts, size)
    blocks = at.expert.shape[0]
    left, right = (
        b.reshape(
            gather_rows(b, b.reshape(x, (rows, x.shape[2])), at.row, at.used),
            (blocks, size, x.shape[2]),
        )
        for x in (token, doutput)
    )
    parts = batched_matmul(b, b.permute(left, (0, 2, 1)), right, accumulate, transposed=True)
    # A matmul with a one-hot matrix would propagate infinities and NaN to all experts, and reads
    # every part for every expert; so do sums of selected parts.
    index = T.PrimListConstructOp(
        ir.Type.parse(f"!torch.list<vtensor<[{blocks}],si64>>"), [at.expert.ssa]
    ).result
    zeros = b.literal(0, accumulate, (experts, k, n))
    total = T.AtenIndexPutOp(
        b.type(zeros.shape, accumulate), zeros.ssa, index, parts.ssa, b.constant(True)
    ).result
    return b.value(total, zeros.shape, accumulate)
