# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scaled dot-product attention: one op where gfx9 has a fused kernel for it, else its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf, sqrt

from ....graph_api.dtypes import DataType
from ....graph_api.frozen import FrozenNode
from ....graph_api.ops.sdpa import Sdpa
from ...emit.builder import Builder, T, Value
from ...emit.gather import gather
from ...ops.blocking import BLOCKED
from .masked_logits import grouped, logits, matmul, matrices, may_be_empty, narrowed
from .parts import in_parts

__all__ = ["lower"]


def lower(b: Builder, node: FrozenNode, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Emit o = softmax(scale · q·kᵀ + masks) · v, and the statistics that are asked for."""
    op = node.op
    assert isinstance(op, Sdpa)
    if b.strategy in ("fused", "plain"):
        return {"o": _fused(b, op, inputs)}
    k, v = (_paged(b, inputs, port, op.max_seq_len_kv) for port in ("k", "v"))
    if b.strategy != BLOCKED:
        return _composite(b, op, node, inputs, k, v)

    def attention(some: Mapping[str, Value], k: Value, v: Value) -> Mapping[str, Value]:
        return _composite(b, op, node, some, k, v)

    # Of these masks a query's place says what it sees.
    placed = op.band != (None, None, False) or op.padding_mask or op.alibi_mask
    return in_parts(b, op, inputs, k, v, node.compute_data_type, attention, cut=not placed)


def _composite(
    b: Builder, op: Sdpa, node: FrozenNode, inputs: Mapping[str, Value], k: Value, v: Value
) -> Mapping[str, Value]:
    compute = node.compute_data_type
    s = logits(b, op, inputs, k, compute)
    batch, heads, queries, keys = s.shape
    long = b.strikes("W-082", keys)
    again = s
    if long:
        # No kernel both adds up the exponentials of long rows and stores them: those that are
        # stored come from a second matmul.
        again = logits(b, op, inputs, k, compute, turned=True)
    row = (batch, heads, queries, 1)
    minus_infinity, zero, one = (b.literal(x, compute, ()) for x in (-inf, 0, 1))
    largest = b.call(T.AtenAmaxOp, row, compute, s, [3], True)
    sink = None
    if "sink_token" in inputs:
        sink = b.convert(inputs["sink_token"], compute)
        largest = b.binary(T.AtenMaximumOp, largest, sink)
    shift, empty = largest, None
    # With a sink the largest logit is finite.
    if sink is None and may_be_empty(op, inputs, queries, keys):
        empty = b.compare(T.AtenEqTensorOp, largest, minus_infinity)
        shift = b.where(empty, zero, largest)
    e = b.unary(T.AtenExpOp, b.sub(s, shift))
    z = b.call(T.AtenSumDimIntListOp, row, compute, e, [3], True, None)
    if sink is not None:
        z = b.add(z, b.unary(T.AtenExpOp, b.sub(sink, shift)))
    results = {"max": largest, "sum_exp": z}
    if "stats" in node.outputs:
        lse = b.add(shift, b.unary(T.AtenLogOp, z))
        results["stats"] = b.where(empty, minus_infinity, lse) if empty is not None else lse
    weights = b.unary(T.AtenExpOp, b.sub(again, shift)) if long else e
    if "dropout_mask" in inputs:
        mask = b.convert(inputs["dropout_mask"], compute)
        weights = b.mul(weights, b.reshape(mask, (1,) * (4 - mask.rank) + mask.shape))
    weights = grouped(b, narrowed(b, weights, v), v.shape[1])
    o = matmul(b, weights, matrices(b, v), compute, transposed=long)
    o = b.reshape(o, (batch, heads, queries, v.shape[3]))
    # Dividing the result costs less than dividing the weights, and those stay in [0, 1]; the other
    # order does not always compile for the CPU (W-023).
    o = b.binary(T.AtenDivTensorOp, o, z if empty is None else b.where(empty, one, z))
    if "dropout_scale" in inputs:
        o = b.mul(o, b.reshape(b.convert(inputs["dropout_scale"], compute), ()))
    return {"o": o, **results}


def _paged(b: Builder, inputs: Mapping[str, Value], port: str, limit: int | None) -> Value:
    """Return k or v, gathered from its pages when there is a table of them."""
    x, table = inputs[port], inputs.get(f"page_table_{port}")
    if table is not None:
        batch, pages = table.shape[0], table.shape[2]
        _, heads, size, depth = x.shape
        flat = b.convert(b.reshape(table, (batch * pages,)), DataType.INT64)
        x = gather(b, x, 0, flat)
        x = b.permute(b.reshape(x, (batch, pages, heads, size, depth)), (0, 2, 1, 3, 4))
        x = b.reshape(x, (batch, heads, pages * size, depth))
    return x if limit is None else b.slice(x, 2, 0, limit)


def _fused(b: Builder, op: Sdpa, inputs: Mapping[str, Value]) -> Value:
    q, k, v = (inputs[p] for p in ("q", "k", "v"))
    q, k, v = (replace(x, order=()) for x in (q, k, v))
    mask = inputs.get("attn_mask")
    scale = 1 / sqrt(q.shape[3]) if op.attn_scale_value is None else op.attn_scale_value
    if mask is not None:
        mask = b.reshape(mask, (1,) * (4 - mask.rank) + mask.shape)
    o = b.call(
        T.AtenScaledDotProductAttentionOp,
        (*q.shape[:3], v.shape[3]),
        q.dtype,
        *(q, k, v, mask),
        0.0,
        op.band[1] == 0,
        scale,
        k.shape[1] != q.shape[1],
    )
    if mask is None:
        return o
    # The kernel divides 0 by 0 where nothing is visible.
    if mask.dtype.is_bool:
        mask = b.convert(mask, DataType.INT32)
        least: float | int = 0
    else:
        least = -inf
    shape = (*mask.shape[:3], 1)
    largest = b.call(T.AtenAmaxOp, shape, mask.dtype, mask, [3], True)
    seen = b.compare(T.AtenGtTensorOp, largest, b.literal(least, mask.dtype, ()))
    return b.where(seen, o, b.literal(0, o.dtype, ()))
