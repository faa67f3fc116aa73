# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What attention and its gradient share: logits with all masks, and matmuls per head.

Logits have dims (B, H, Sq, Skv) and the compute type; a masked one is -inf.  Callers
handle rows in which all are masked (``may_be_empty``): exp(-inf - -inf) would be NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
from torch_mlir import ir

from ....graph_api.dtypes import DataType
from ....graph_api.ops.attention import AttentionOp, alibi_slopes
from ...emit.builder import Builder, T, Value
from ...ops.attention_cost import attention_product
from ...ops.blocking import BLOCKED
from ...ops.matmul_cost import cheapest_tiles
from ..accumulate import operands
from ..batched_matmul import batched_matmul, swapped
from ..tiled_matmul import takes_columns, tiled_matmul

__all__ = [
    "Masks",
    "by_key_head",
    "factor",
    "grouped",
    "logits",
    "matmul",
    "matrices",
    "may_be_empty",
    "narrowed",
]

BOOL, I32 = DataType.BOOLEAN, DataType.INT32
Inputs = Mapping[str, Value]


@dataclass(frozen=True, kw_only=True, slots=True)
class Masks:
    """What is added to the scaled logits, and where they are visible (None: everywhere)."""

    bias: tuple[Value, ...]
    visible: Value | None


def grouped(b: Builder, x: Value, heads: int) -> Value:
    """Return (B, H, S, D) as (B * heads, H / heads * S, D): a row of matrices per key head."""
    batch, all_heads, rows, columns = x.shape
    return b.reshape(x, (batch * heads, all_heads // heads * rows, columns))


def by_key_head(b: Builder, x: Value, heads: int) -> Value:
    """Return q, k or the gradient of o, grouped, for a matmul over the head dim."""
    # Also heads that are rows of one matrix are read into one another.
    if x.order[-1:] == (2,) and b.strikes("W-071", x.shape[2], x.shape[3], x.dtype):
        x = b.materialise(x)
    return grouped(b, x, heads)


def matrices(b: Builder, x: Value) -> Value:
    """Return (B, H, S, D) as (B * H, S, D)."""
    return b.reshape(x, (x.shape[0] * x.shape[1], *x.shape[2:]))


def narrowed(b: Builder, weights: Value, other: Value) -> Value:
    """Return computed weights in the type of the other operand, if that has 16 bits.

    On gfx9, for matrix instructions, as fused kernels do.
    """
    narrow = b.target.is_gfx9 and other.dtype in (DataType.HALF, DataType.BFLOAT16)
    return b.convert(weights, other.dtype) if narrow else weights


def matmul(
    b: Builder,
    left: Value,
    right: Value,
    compute: DataType,
    *,
    transposed: bool = False,
    columns: bool = False,
) -> Value:
    """Return left · right of rank 3, accumulated in the compute type.

    ``transposed``: the left operand may be a transpose.  ``columns``: the columns of the right
    operand come one after the other.
    """
    if b.strategy == BLOCKED:
        return _in_tiles(b, left, right, compute, columns=columns, turned=transposed)
    left, right, dtype = operands(b, left, right, compute)
    return batched_matmul(b, left, right, dtype, transposed=transposed)


def _in_tiles(
    b: Builder, left: Value, right: Value, compute: DataType, *, columns: bool, turned: bool
) -> Value:
    """Return left · right as `matmul`; the right operand is read in its own type if not packed."""
    (count, m, k), n, narrow = left.shape, right.shape[2], right.dtype.bits < compute.bits
    product = attention_product(count, m, k, n, columns=columns, narrow=narrow, turned=turned)
    _, way = cheapest_tiles(b.target, product)
    columns = takes_columns(way, columns=columns)
    right = swapped(b, right) if columns else right
    right = b.convert(right, compute) if way == BLOCKED else right
    left = b.convert(left, compute)
    return tiled_matmul(b, way, left, right, columns=columns, turned=turned)


def factor(b: Builder, x: Value, op: AttentionOp, inputs: Inputs, depth: int) -> Value:
    """Return x times the scale of the logits; ``depth`` is the head dim."""
    if "scale" in inputs:
        return b.mul(x, b.reshape(b.convert(inputs["scale"], x.dtype), ()))
    value = op.attn_scale_value
    return b.scale(x, 1 / sqrt(depth) if value is None else value)


def logits(
    b: Builder,
    op: AttentionOp,
    inputs: Inputs,
    k: Value,
    compute: DataType,
    *,
    turned: bool = False,
) -> Value:
    """Return scale · q·kᵀ + bias, and -inf where a key is masked.

    ``turned`` computes q·kᵀ as (k·qᵀ)ᵀ, so that the compiler does not see equal values.
    """
    q = inputs["q"]
    batch, heads, queries, depth = q.shape
    keys, key_heads = k.shape[2], k.shape[1]
    # In blocks there is no other kernel for the scores, and q has fewer elements.
    first = b.strategy == BLOCKED and depth < keys and not turned
    if turned:
        s = matmul(
            b, by_key_head(b, k, key_heads), swapped(b, by_key_head(b, q, key_heads)), compute
        )
        s = swapped(b, s)
    else:
        if b.target.is_cpu:  # heads of several samples that are transposed first are copied
            transposed = swapped(b, matrices(b, k))
        else:
            transposed = grouped(b, swapped(b, k), key_heads)
        if first:
            q = factor(b, b.convert(q, compute), op, inputs, depth)
        s = matmul(b, by_key_head(b, q, key_heads), transposed, compute, columns=True)
    s = b.reshape(s, (batch, heads, queries, keys))
    s = s if first else factor(b, s, op, inputs, depth)
    masks = _masks(b, op, inputs, (batch, heads, queries, keys), compute)
    for bias in masks.bias:
        s = b.add(s, bias)
    if masks.visible is None:
        return s
    return b.where(masks.visible, s, b.literal(-inf, compute, ()))


def may_be_empty(op: AttentionOp, inputs: Inputs, queries: int, keys: int) -> bool:
    """Whether some query might see no key at all."""
    if op.padding_mask or "attn_mask" in inputs:
        return True
    left, right, bottom = op.band
    shift = keys - queries if bottom else 0
    return any(
        max(0, i + shift - (i + shift if left is None else left))
        > min(keys - 1, keys - 1 if right is None else i + shift + right)
        for i in (0, queries - 1)
    )


def _masks(
    b: Builder, op: AttentionOp, inputs: Inputs, full: tuple[int, ...], compute: DataType
) -> Masks:
    heads, queries, keys = full[1:]
    bias: list[Value] = []
    visible: list[Value] = []
    if "attn_mask" in inputs:
        mask = inputs["attn_mask"]
        mask = b.reshape(mask, (1,) * (4 - mask.rank) + mask.shape)
        if mask.dtype is BOOL:
            visible.append(mask)
        else:
            bias.append(b.convert(mask, compute))
    left, right, bottom = op.band
    i, j = _line(b, queries, 2), _line(b, keys, 3)
    diagonal = i
    if op.padding_mask:
        own = {p: b.convert(inputs[p], I32) for p in ("seq_len_q", "seq_len_kv")}
        visible.append(b.compare(T.AtenLtTensorOp, i, own["seq_len_q"]))
        visible.append(b.compare(T.AtenLtTensorOp, j, own["seq_len_kv"]))
        if bottom:
            diagonal = b.add(i, b.sub(own["seq_len_kv"], own["seq_len_q"]))
    elif bottom:
        diagonal = _line(b, queries, 2, keys - queries)
    if right is not None:
        visible.append(b.compare(T.AtenLeTensorOp, b.sub(j, diagonal), _whole(b, right)))
    if left is not None:
        visible.append(b.compare(T.AtenLeTensorOp, b.sub(diagonal, j), _whole(b, left)))
    if op.alibi_mask:
        slopes = _slopes(b, heads, compute)
        bias.append(b.mul(slopes, b.convert(b.sub(j, diagonal), compute)))
    return Masks(bias=tuple(bias), visible=_all(b, visible))


def _all(b: Builder, conditions: list[Value]) -> Value | None:
    found: Value | None = None
    for condition in conditions:
        found = condition if found is None else b.compare(T.AtenLogicalAndOp, found, condition)
    return found


def _whole(b: Builder, value: int) -> Value:
    # Bounds beyond any length mean the same as the largest INT32 can hold.
    return b.literal(min(value, 2**31 - 1), I32, ())


def _line(b: Builder, n: int, axis: int, start: int = 0) -> Value:
    """Return start, start + 1, ... along one of four dims."""
    code = I32.value.torch_code
    operands_ = (start, start + n, 1, code, None, None, None)
    line = b.call(T.AtenArangeStartStepOp, (n,), I32, *operands_)
    return b.reshape(line, [n if a == axis else 1 for a in range(4)])


def _slopes(b: Builder, heads: int, dtype: DataType) -> Value:
    """Return ALiBi's slope of every head with dims (1, H, 1, 1)."""
    if not (b.target.is_gfx9 and dtype is DataType.FLOAT):
        return _per_head(b, alibi_slopes(heads), dtype)
    # Kernels with tables of constants cannot be checked by emulation.  The exponents are exact.
    n = 1 << (heads.bit_length() - 1)
    h = b.convert(_line(b, heads, 1), dtype)
    step = b.mul(h, b.literal(-8 / n, dtype, ()))
    exponent = b.sub(step, b.literal(8 / n, dtype, ()))
    if heads > n:
        after = b.add(step, b.literal(8 - 4 / n, dtype, ()))
        first = b.compare(T.AtenLtTensorOp, h, b.literal(n, dtype, ()))
        exponent = b.where(first, exponent, after)
    return b.unary(T.AtenExp2Op, exponent)


def _per_head(b: Builder, values: tuple[float, ...], dtype: DataType) -> Value:
    """Return constants with dims (1, H, 1, 1), rounded once."""
    kind = {DataType.FLOAT: np.float32, DataType.DOUBLE: np.float64}.get(dtype)
    wide = DataType.FLOAT if kind is None else dtype
    raw = np.array(values, kind or np.float32).tobytes().hex().upper()
    shape = (1, len(values), 1, 1)
    text = f'dense<"0x{raw}"> : tensor<{"x".join(map(str, shape))}x{wide.value.mlir}>'
    op = T.ValueTensorLiteralOp(ir.Attribute.parse(text), results=[b.type(shape, wide)])
    return b.convert(Value(op.result, shape, wide), dtype)
