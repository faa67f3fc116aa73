"""Gradient of the experts' weights: for each expert a product of its own rows."""

from __future__ import annotations

from collections.abc import Mapping

from ...graph_api.dtypes import DataType
from ...graph_api.frozen import FrozenNode
from ...graph_api.ops.moe_grouped_matmul_bwd import MoeGroupedMatmulBwd
from ..emit.builder import Builder, T, Value
from .accumulate import operands
from .moe_grouped_matmul import experts_of_rows
from .products import products

__all__ = ["lower"]


def lower(b: Builder, node: FrozenNode, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Emit dweight = tokenᵀ · doutput over the rows of each expert; other rows count as zeros."""
    op = node.op
    assert isinstance(op, MoeGroupedMatmulBwd)
    token, doutput, accumulate = operands(
        b, inputs["token"], inputs["doutput"], node.compute_data_type
    )
    experts, (_, rows, _) = op.dweight_dims[0], token.shape
    expert = experts_of_rows(b, inputs["first_token_offset"], rows, experts)
    owner = b.reshape(expert, (1, rows, 1))
    parts = []
    for e in range(experts):
        own = b.compare(T.AtenEqTensorOp, owner, b.literal(e, DataType.INT32, ()))
        # Both, as the product of a zero and what is not finite would be NaN.
        left, right = (b.where(own, x, b.literal(0, x.dtype, ())) for x in (token, doutput))
        parts.append(products(b, b.permute(left, (0, 2, 1)), right, accumulate, transposed=True))
    return {"dweight": b.concatenate(parts, 0)}
