# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the references of attention and of its gradient share, in float64, head by head."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...graph_api.dtypes import DataType
from ...graph_api.ops.attention import AttentionOp
from .analysis import accumulated, flushed_factor
from .base import Arrays, Context, Domain
from .convert import Array, smallest, unit_roundoff

__all__ = [
    "Head",
    "attention_domain",
    "exact_ports",
    "heads",
    "logit_error",
    "narrowing",
    "random_sum",
    "scale_of",
    "tiny_of",
    "why_not",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Head:
    """One head of one batch entry.

    Attributes
    ----------
    at, key, value : tuple of int
        Batch entry and head in q, k and v.
    visible : ndarray of bool
        Which keys (columns) a query (row) sees.
    dots, bias, logits : ndarray
        q·kᵀ, what is added after scaling (dims (1, 1) where nothing is), and the sum; -inf where
        masked.
    """

    at: tuple[int, int]
    key: tuple[int, int]
    value: tuple[int, int]
    visible: Array
    dots: Array
    bias: Array
    logits: Array


def scale_of(op: AttentionOp, inputs: Arrays) -> float:
    """Return the factor of q·kᵀ."""
    if "scale" in inputs:
        return float(inputs["scale"].reshape(()))
    if op.attn_scale_value is not None:
        return op.attn_scale_value
    return float(inputs["q"].shape[3] ** -0.5)


def _slope(head: int, count: int) -> float:
    """Return ALiBi's slope: a geometric series that starts at 2^(-8/n); odd steps of it after."""
    n = 2 ** int(np.log2(count))
    return 2 ** (-8 * (head + 1) / n) if head < n else 2 ** (-4 * (2 * (head - n) + 1) / n)


def _spread(x: Array, full: tuple[int, ...]) -> Array:
    return np.broadcast_to(x, full)


def heads(op: AttentionOp, inputs: Arrays, k: Array, v: Array) -> Iterator[Head]:
    """Yield every head; ``k`` and ``v`` are the keys and values in order."""
    q = inputs["q"]
    batch, count, queries, _ = q.shape
    keys = k.shape[2]
    full = (batch, count, queries, keys)
    left, right, bottom = op.band
    scale = scale_of(op, inputs)
    mask = _spread(inputs["attn_mask"], full) if "attn_mask" in inputs else None
    boolean = mask is not None and mask.dtype.kind == "i"
    for n in range(batch):
        limits = queries, keys
        if op.padding_mask:
            limits = (int(inputs["seq_len_q"][n, 0, 0, 0]), int(inputs["seq_len_kv"][n, 0, 0, 0]))
        shift = limits[1] - limits[0] if bottom else 0
        distance = np.subtract.outer(np.zeros(queries), -np.arange(keys))
        distance = distance - (np.arange(queries)[:, None] + shift)  # j - (i + d)
        seen = np.ones((queries, keys), dtype=bool)
        if right is not None:
            seen &= distance <= right
        if left is not None:
            seen &= distance >= -left
        if op.padding_mask:
            seen[max(limits[0], 0) :, :] = False
            seen[:, max(limits[1], 0) :] = False
        whole = bool(seen.all())
        for h in range(count):
            key, value = ((n, h // (count // x.shape[1])) for x in (k, v))
            dots = q[n, h] @ k[key].T
            if mask is None and not op.alibi_mask:
                scaled = scale * dots
                logits = scaled if whole else np.where(seen, scaled, -np.inf)
                none = np.zeros((1, 1))
                yield Head(at=(n, h), key=key, value=value, visible=seen, dots=dots, bias=none,
                           logits=logits)  # fmt: skip
                continue
            bias = np.zeros((queries, keys))
            visible = seen
            if mask is not None and boolean:
                visible = seen & (mask[n, h] != 0)
            elif mask is not None:
                bias = bias + mask[n, h]
            if op.alibi_mask:
                bias = bias + _slope(h, count) * distance
            visible = visible & ~np.isneginf(bias)
            logits = np.where(visible, scale * dots + np.where(visible, bias, 0.0), -np.inf)
            yield Head(
                at=(n, h),
                key=key,
                value=value,
                visible=visible,
                dots=dots,
                bias=np.where(visible, bias, 0.0),
                logits=logits,
            )


def narrowing(data_type: DataType, ctx: Context) -> float:
    """Return the relative error of rounding a computed operand of a product to its type.

    Matrix instructions take operands of the tensors' type; 0 when that is the compute type.
    """
    return 0.0 if data_type.holds(ctx.compute) else unit_roundoff(data_type)


def random_sum(sizes: Array, squares: Array, relative: float) -> Array:
    """Return the error of Σ t·(1 + ε), |ε| <= relative with random signs.

    ``sizes`` is Σ|t| and ``squares`` Σt².  At most relative · Σ|t|, and below
    8 · relative · √Σt² with the probability of ``growth``.
    """
    return relative * np.minimum(sizes, 8.0 * np.sqrt(squares))


def logit_error(
    op: AttentionOp,
    head: Head,
    inputs: Arrays,
    errors: Arrays,
    k: tuple[Array, Array],
    ctx: Context,
    *,
    fused: bool = True,
) -> Array:
    """Return how far every visible logit may be off; 0 for masked ones.

    ``fused`` allows what fused kernels do: the queries are scaled first, in their own type.
    """
    u, scale = ctx.roundoff, scale_of(op, inputs)
    q, key = inputs["q"][head.at], k[0][head.key]
    eq = np.broadcast_to(errors["q"], inputs["q"].shape)[head.at]
    ek = np.broadcast_to(k[1], k[0].shape)[head.key]
    if fused and scale:
        kind = ctx.inputs["q"].data_type
        eq = eq + flushed_factor(scale * q, abs(scale) * eq, kind, ctx) / abs(scale)
    size, other = np.abs(q), np.abs(key)
    dots = accumulated(size @ other.T, q.shape[-1], ctx, q, key)
    dots = dots + eq @ (other + ek).T + size @ ek.T
    narrow = narrowing(ctx.inputs["q"].data_type, ctx) if fused else 0.0
    dots = dots + random_sum(size @ other.T, np.square(size) @ np.square(other).T, narrow)
    error = abs(scale) * dots + 3 * u * np.abs(scale * head.dots) + ctx.tiny
    if "scale" in inputs:
        error = error + np.abs(head.dots) * np.max(errors["scale"])
    if head.bias.any() or "attn_mask" in inputs:
        # The bias is rounded, and so is each sum; ALiBi's slopes may be computed, to two units.
        error = (
            error + 4 * u * np.abs(head.bias) + 2 * u * (np.abs(head.logits) + np.abs(head.bias))
        )
    if "attn_mask" in inputs and np.any(errors["attn_mask"]):
        full = (*inputs["q"].shape[:3], k[0].shape[2])
        off = np.broadcast_to(errors["attn_mask"], np.shape(inputs["attn_mask"]))
        error = error + _spread(off, full)[head.at]
        if inputs["attn_mask"].dtype.kind == "i":
            error = np.full_like(error, np.inf)  # an error decides what is visible
    return np.where(head.visible, error, 0.0)


def exact_ports(op: AttentionOp, ctx: Context) -> frozenset[str]:
    """Return the ports that hold no numbers to compute with."""
    found = {"seq_len_q", "seq_len_kv", "page_table_k", "page_table_v"}
    if "attn_mask" in ctx.inputs and ctx.inputs["attn_mask"].data_type.is_bool:
        found.add("attn_mask")
    return frozenset(found)


def why_not(op: AttentionOp) -> str:
    """Return why the op cannot be evaluated."""
    return "random dropout, whose numbers are not defined" if op.dropout_probability else ""


def attention_domain(op: AttentionOp, port: str, ctx: Context) -> Domain:
    """Return values with which the logits are spread over a few units, and rows differ."""
    q = ctx.inputs["q"].dims
    depth = q[3]
    scale = depth**-0.5 if op.attn_scale_value is None else abs(op.attn_scale_value)
    top = min(4.0, (16 / max(scale**2 * depth, 1e-30)) ** 0.25)
    lengths = {"seq_len_q": q[2], "seq_len_kv": ctx.inputs["k"].dims[2]}
    if port in lengths:
        # Not 0, so that every sequence has something to show; rows behind the end stay empty.
        return Domain(ints=(1, lengths[port]), strict=True)
    if port.startswith("page_table_"):
        return Domain(ints=(0, ctx.inputs[port[-1]].dims[0] - 1), strict=True)
    if port == "scale":
        return Domain(low=0.5 * depth**-0.5, high=1.5 * depth**-0.5)
    if port == "dropout_mask":
        return Domain(low=0.0, high=1.0, grid=1.0, ints=(0, 1))
    if port == "dropout_scale":
        return Domain(low=1.0, high=2.0)
    if port in ("q", "k"):
        return Domain(low=-top, high=top)
    return Domain(ints=(0, 1))


def tiny_of(data_type: DataType) -> float:
    """Return the absolute error of storing a number near 0 in an operand's type."""
    return smallest(data_type)
