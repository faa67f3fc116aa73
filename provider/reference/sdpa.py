# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scaled dot-product attention, head by head, with an error bound of every step."""

from __future__ import annotations

import numpy as np

from ...graph_api.ops.sdpa import Sdpa
from .analysis import flushed_factor, growth
from .attention import (
    Head,
    attention_domain,
    exact_ports,
    heads,
    logit_error,
    narrowing,
    random_sum,
    scale_of,
    tiny_of,
    why_not,
)
from .base import Arrays, Context, Reference
from .convert import Array
from .thrift import norm

__all__ = ["REFERENCE", "in_order", "softmax"]


def in_order(op: Sdpa, inputs: Arrays, port: str, x: Array) -> Array:
    """Return keys or values one after the other, read through their page table."""
    table = inputs.get(f"page_table_{port}")
    if table is None:
        return x
    size = x.shape[2]
    length = op.max_seq_len_kv or table.shape[2] * size
    position = np.arange(length)
    pages = table[:, 0, position // size, 0]  # (batch, length)
    return np.moveaxis(x[pages, :, position % size], 1, 2)


def softmax(head: Head, sink: float = -np.inf) -> tuple[Array, Array, Array]:
    """Return exp(logit - m), the row's largest logit m, and the sum; m is -inf in empty rows."""
    m = np.maximum(head.logits.max(-1, keepdims=True), sink)
    shift = np.where(np.isneginf(m), 0.0, m)
    e = np.exp(head.logits - shift)
    return e, m, e.sum(-1, keepdims=True) + np.exp(sink - shift)


def _sink(inputs: Arrays, head: Head) -> float:
    if "sink_token" not in inputs:
        return -np.inf
    values = inputs["sink_token"].reshape(-1)
    return float(values[head.at[1] % values.size])


def _kept(inputs: Arrays, head: Head, full: tuple[int, ...]) -> Array:
    """Return the factors that dropout gives the weights of a head."""
    if "dropout_mask" not in inputs:
        return np.ones(())
    return np.broadcast_to(inputs["dropout_mask"], full)[head.at]


def evaluate(op: Sdpa, inputs: Arrays, ctx: Context) -> Arrays:
    k, v = (in_order(op, inputs, p, inputs[p]) for p in ("k", "v"))
    q = inputs["q"]
    full = (*q.shape[:3], k.shape[2])
    o = np.zeros((*q.shape[:3], v.shape[3]))
    stats, largest, total = (np.zeros((*q.shape[:3], 1)) for _ in range(3))
    factor = inputs["dropout_scale"].reshape(()) if "dropout_scale" in inputs else 1.0
    for head in heads(op, inputs, k, v):
        e, m, z = softmax(head, _sink(inputs, head))
        weights = _kept(inputs, head, full) * e / np.where(z == 0, 1.0, z)
        o[head.at] = factor * (weights @ v[head.value])
        largest[head.at], total[head.at] = m, z
        stats[head.at] = m + np.log(np.where(z == 0, 1.0, z))
    found = {"o": o, "stats": stats, "max": largest, "sum_exp": total}
    return {port: found[port] for port in ctx.outputs}


def bound(op: Sdpa, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context) -> Arrays:
    keys, values = (
        tuple(
            in_order(op, inputs, p, x)
            for x in (inputs[p], np.broadcast_to(errors[p], inputs[p].shape))
        )
        for p in ("k", "v")
    )
    u, full = ctx.roundoff, (*inputs["q"].shape[:3], keys[0].shape[2])
    exact = {p: np.zeros(x.shape) for p, x in inputs.items()}
    exact_keys = np.zeros(keys[0].shape)
    n = full[3] + 1
    row = (*full[:3], 1)
    found = {p: np.zeros(row) for p in ("stats", "max", "sum_exp")}
    found["o"] = np.zeros(outputs["o"].shape)
    narrow = ctx.inputs["v"].data_type
    for head in heads(op, inputs, keys[0], values[0]):
        sink = _sink(inputs, head)
        off = logit_error(op, head, inputs, errors, (keys[0], keys[1]), ctx)
        e, m, z = softmax(head, sink)
        with_sink = np.isfinite(sink)
        sink_off = float(np.max(errors["sink_token"])) if with_sink else 0.0
        shift = np.where(np.isneginf(m), 0.0, m)
        safe = np.where(z == 0, 1.0, z)
        # Each exponential: the error of its argument, which it turns into a relative one, and
        # four units of its own.  The maximum that all of them share cancels in the quotient.
        away = np.where(head.visible, np.abs(head.logits - shift), 0.0)
        relative = np.expm1(off + 4 * u * away) + 4 * u
        last = np.exp(sink - shift) * (np.expm1(sink_off + 4 * u * np.abs(sink - shift)) + 4 * u)
        last = last if with_sink else np.zeros_like(m)
        p = e / safe
        kept = _kept(inputs, head, full)
        factor = float(inputs["dropout_scale"].reshape(())) if "dropout_scale" in inputs else 1.0
        v, ev = values[0][head.value], values[1][head.value]
        w = np.abs(kept) * p
        mean = (kept * p) @ v
        # d(o) = sum of p·r·(keep·v - o): what all weights have in common does not matter.
        shared = (
            (w * relative) @ np.abs(v)
            if "dropout_mask" in inputs
            else np.einsum("ij,ijd->id", p * relative, np.abs(v[None] - mean[:, None]))
        )
        shared = shared + last / safe * np.abs(mean)
        mass = (p * relative).sum(-1, keepdims=True) + last / safe
        # The sum may be of exponentials of another product, with roundings of its own.
        own = logit_error(op, head, inputs, exact, (keys[0], exact_keys), ctx, fused=False)
        shared = shared + 2 * (p * np.expm1(own)).sum(-1, keepdims=True) * np.abs(mean)
        size = w @ np.abs(v)
        error = shared / np.maximum(1 - mass, 0.5) + u * (
            growth(n) * size + (growth(n) + 4) * np.abs(mean)
        )
        error = error + random_sum(size, np.square(w) @ np.square(v), narrowing(narrow, ctx))
        error = error + tiny_of(narrow) * np.abs(v).sum(0) + w @ ev + ctx.tiny
        error = error + flushed_factor(w, w * relative, narrow, ctx) @ np.abs(v)
        if "dropout_scale" in inputs:
            error = abs(factor) * error + np.abs(mean) * (
                np.max(errors["dropout_scale"]) + u * abs(factor)
            )
        if "dropout_mask" in inputs and np.any(errors["dropout_mask"]):
            off_mask = np.broadcast_to(
                np.broadcast_to(errors["dropout_mask"], inputs["dropout_mask"].shape), full
            )[head.at]
            error = error + abs(factor) * ((off_mask * p) @ np.abs(v))
        seen = head.visible
        lowest = np.where(seen, head.logits - off, -np.inf).max(-1, keepdims=True)
        highest = np.where(seen, head.logits + off, -np.inf).max(-1, keepdims=True)
        lowest, highest = np.maximum(lowest, sink - sink_off), np.maximum(highest, sink + sink_off)
        top = np.where(np.isneginf(m), 0.0, np.maximum(highest - shift, shift - lowest))
        empty = z == 0
        found["o"][head.at] = np.where(empty, 0.0, error)
        found["max"][head.at] = top
        part = mass + u * growth(n)
        found["stats"][head.at] = part / np.maximum(1 - part, 0.5) + 4 * u * (
            np.abs(shift) + np.abs(np.log(safe))
        )
        found["sum_exp"][head.at] = np.where(empty, 0.0, z * (np.expm1(top) + part * np.exp(top)))
    return {port: found[port] for port in outputs}


def _row_error(
    op: Sdpa, head: Head, inputs: Arrays, errors: Arrays, k: tuple[Array, Array], ctx: Context,
    *, fused: bool,
) -> tuple[Array, Array]:  # fmt: skip
    """Return what no logit's error of a row exceeds, nor any logit; see `logit_error`."""
    u, scale = ctx.roundoff, abs(scale_of(op, inputs))
    q, key = inputs["q"][head.at], k[0][head.key]
    eq = np.broadcast_to(errors["q"], inputs["q"].shape)[head.at]
    ek = np.broadcast_to(k[1], k[0].shape)[head.key]
    most, most_off = norm(key, 1).max(initial=0.0), norm(ek, 1).max(initial=0.0)
    rows, rows_off = norm(q, 1, keep=True), norm(eq, 1, keep=True)
    size = rows * most
    narrow = narrowing(ctx.inputs["q"].data_type, ctx) if fused else 0.0
    off = u * growth(q.shape[-1]) * size + ctx.tiny + rows_off * (most + most_off)
    off = off + rows * most_off
    off = off + narrow * np.minimum(size, 8 * np.abs(q).max(-1, keepdims=True) * most)
    bias = np.abs(head.bias).max(-1, keepdims=True, initial=0.0)
    logit = scale * size + bias
    error = scale * off + 3 * u * scale * size + ctx.tiny + 6 * u * bias + 2 * u * logit
    if "scale" in inputs:
        error = error + size * np.max(errors["scale"])
    if "attn_mask" in inputs and np.any(errors["attn_mask"]):
        whole = inputs["attn_mask"].dtype.kind == "i"  # an error decides what is visible
        error = error + (np.inf if whole else np.max(errors["attn_mask"]))
    return error, logit


def thrifty(op: Sdpa, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context) -> Arrays:
    """Bound whole rows: Σ p·r·|v - o| is at most max r · √(Σ p·v² - o²), two products for all."""
    if "dropout_mask" in inputs or "sink_token" in inputs or ctx.flushes_products:
        return bound(op, inputs, errors, outputs, ctx)
    keys, values = (
        tuple(
            in_order(op, inputs, p, x)
            for x in (inputs[p], np.broadcast_to(errors[p], inputs[p].shape))
        )
        for p in ("k", "v")
    )
    u, queries = ctx.roundoff, inputs["q"].shape[:3]
    n = keys[0].shape[2] + 1
    exact = {p: np.zeros(()) for p in inputs}
    found = {p: np.zeros((*queries, 1)) for p in ("stats", "max", "sum_exp")}
    found["o"] = np.zeros(outputs["o"].shape)
    narrow = narrowing(ctx.inputs["v"].data_type, ctx)
    for head in heads(op, inputs, keys[0], values[0]):
        off, logit = _row_error(op, head, inputs, errors, (keys[0], keys[1]), ctx, fused=True)
        own, _ = _row_error(op, head, inputs, exact, (keys[0], np.zeros(())), ctx, fused=False)
        e, m, z = softmax(head)
        safe = np.where(z == 0, 1.0, z)
        e /= safe
        v, ev = values[0][head.value], values[1][head.value]
        relative = np.expm1(off + 8 * u * logit) + 4 * u
        mean, squares = np.abs(e @ v), e @ np.square(v)
        spread = np.sqrt(np.maximum(squares - np.square(mean), 0.0) + 1e-13 * squares)
        size = np.sqrt(squares) * (1 + 1e-9)
        shared = relative * spread + 2 * np.expm1(own) * mean
        error = shared / np.maximum(1 - relative, 0.5)
        error = error + u * (growth(n) * size + (growth(n) + 4) * mean)
        if narrow:
            error = error + random_sum(size, np.square(e) @ np.square(v), narrow)
        error = error + tiny_of(ctx.inputs["v"].data_type) * np.abs(v).sum(0) + ev.max(0) + ctx.tiny
        shift = np.where(np.isneginf(m), 0.0, m)
        part = relative + u * growth(n)
        empty = z == 0
        found["o"][head.at] = np.where(empty, 0.0, error)
        found["max"][head.at] = np.where(np.isneginf(m), 0.0, off)
        found["stats"][head.at] = part / np.maximum(1 - part, 0.5) + 4 * u * (
            np.abs(shift) + np.abs(np.log(safe))
        )
        found["sum_exp"][head.at] = np.where(empty, 0.0, z * (np.expm1(off) + part * np.exp(off)))
    return {port: found[port] for port in outputs}


REFERENCE = Reference(
    evaluate=evaluate,
    bound=bound,
    thrifty=thrifty,
    domain=attention_domain,
    exact_ports=exact_ports,
    multiplied=("q", "k", "v"),
    unsupported=why_not,
)
