# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradient of scaled dot-product attention, as its parts: two matmuls to Sq by Skv, three back."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from ....graph_api.dtypes import DataType
from ....graph_api.frozen import FrozenNode
from ....graph_api.ops.sdpa_backward import SdpaBackward
from ...emit.builder import Builder, T, Value
from ...ops.blocking import BLOCKED
from ..batched_matmul import swapped
from ..sums import total
from .masked_logits import (
    by_key_head,
    factor,
    grouped,
    logits,
    matmul,
    matrices,
    may_be_empty,
    narrowed,
)
from .parts import in_parts

__all__ = ["lower"]

Inputs = Mapping[str, Value]


def lower(b: Builder, node: FrozenNode, inputs: Inputs) -> Mapping[str, Value]:
    """Emit dq, dk, dv, and dbias where it is asked for."""
    op, compute = node.op, node.compute_data_type
    assert isinstance(op, SdpaBackward)
    if b.strategy != BLOCKED or "dbias" in node.outputs:
        return _gradients(b, op, node, inputs)

    def gradients(some: Inputs, k: Value, v: Value) -> Inputs:
        return _gradients(b, op, node, {**some, "k": k, "v": v})

    # The gradients of k and v are sums over queries.
    return in_parts(b, op, inputs, inputs["k"], inputs["v"], compute, gradients, cut=False)


def _gradients(b: Builder, op: SdpaBackward, node: FrozenNode, inputs: Inputs) -> Inputs:
    compute = node.compute_data_type
    q, k, v, do = (inputs[p] for p in ("q", "k", "v", "do"))
    batch, heads, queries, depth = q.shape
    keys = k.shape[2]
    full = (batch, heads, queries, keys)

    p = _weights(b, op, inputs, compute)
    of_do = by_key_head(b, do, v.shape[1])
    dp = matmul(b, of_do, swapped(b, matrices(b, v)), compute, columns=True)
    dp = b.reshape(dp, full)
    kept = p
    if "dropout_mask" in inputs:
        mask = b.convert(inputs["dropout_mask"], compute)
        mask = b.reshape(mask, (1,) * (4 - mask.rank) + mask.shape)
        dp, kept = b.mul(dp, mask), b.mul(p, mask)
    if "dropout_scale" in inputs:
        dp = b.mul(dp, _number(b, inputs, "dropout_scale", compute))
    ds = b.mul(p, b.sub(dp, _delta(b, inputs, compute)))

    results = {}
    dv = _shared(b, kept, do, v.shape[1], compute)
    if "dropout_scale" in inputs:
        dv = b.mul(dv, _number(b, inputs, "dropout_scale", compute))
    results["dv"] = dv
    dk = _shared(b, ds, q, k.shape[1], compute)
    results["dk"] = factor(b, dk, op, inputs, depth)
    dq = matmul(b, grouped(b, narrowed(b, ds, k), k.shape[1]), matrices(b, k), compute)
    results["dq"] = factor(b, b.reshape(dq, q.shape), op, inputs, depth)
    if "dbias" in node.outputs:
        results["dbias"] = _summed(b, ds, inputs["attn_mask"].shape)
    return results


def _weights(b: Builder, op: SdpaBackward, inputs: Inputs, compute: DataType) -> Value:
    """Return p = exp(s - stats); 0 where nothing is visible, for which stats is -inf."""
    q, k = inputs["q"], inputs["k"]
    shift = b.convert(inputs["stats"], compute)
    if may_be_empty(op, inputs, q.shape[2], k.shape[2]):
        empty = b.compare(T.AtenEqTensorOp, shift, b.literal(-inf, compute, ()))
        shift = b.where(empty, b.literal(0, compute, ()), shift)
    return b.unary(T.AtenExpOp, b.sub(logits(b, op, inputs, k, compute), shift))


def _delta(b: Builder, inputs: Inputs, compute: DataType) -> Value:
    """Return Σ do · o of every row."""
    do, o = (b.convert(inputs[p], compute) for p in ("do", "o"))
    if b.target.is_cpu and inputs["do"].ssa == inputs["o"].ssa:
        # W-109: where o's own kernel calculates the sum too, some rows of o are divided twice.
        o = b.materialise(o)
    elif len({inputs["do"].dtype, inputs["o"].dtype} - {compute}) > 1 and b.strikes("W-072"):
        o = b.materialise(o)
    shape = (*do.shape[:3], 1)
    delta = b.call(T.AtenSumDimIntListOp, shape, compute, b.mul(do, o), [3], True, None)
    if "dropout_scale_inv" in inputs:
        for port in ("dropout_scale_inv", "dropout_scale"):
            if port in inputs:
                delta = b.mul(delta, _number(b, inputs, port, compute))
    return delta


def _number(b: Builder, inputs: Inputs, port: str, compute: DataType) -> Value:
    return b.reshape(b.convert(inputs[port], compute), ())


def _shared(b: Builder, weights: Value, x: Value, heads: int, compute: DataType) -> Value:
    """Return weightsᵀ · x, summed over the query heads that share one of ``heads``."""
    weights = swapped(b, grouped(b, narrowed(b, weights, x), heads))
    result = matmul(b, weights, grouped(b, x, heads), compute, transposed=True)
    return b.reshape(result, (x.shape[0], heads, *result.shape[1:]))


def _summed(b: Builder, ds: Value, dims: tuple[int, ...]) -> Value:
    """Return ds summed over the dims along which a mask of these dims is broadcast."""
    aligned = (1,) * (4 - len(dims)) + dims
    axes = [a for a in range(4) if aligned[a] == 1 and ds.shape[a] > 1]
    return b.reshape(total(b, ds, axes), dims)
