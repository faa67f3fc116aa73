# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradient of scaled dot-product attention, head by head, with an error bound of every step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...graph_api.dtypes import DataType
from ...graph_api.ops.sdpa_backward import SdpaBackward
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
from .base import Arrays, Context, Domain, Reference
from .convert import Array

__all__ = ["REFERENCE"]

Pair = tuple[Array, Array]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Inner:
    """What a head's gradients are made of: values, and the same with their errors.

    ``weights`` is c · m · p, ``change`` is ds.
    """

    head: Head
    weights: Pair
    change: Pair


def _number(inputs: Arrays, port: str) -> float:
    return float(inputs[port].reshape(())) if port in inputs else 1.0


def _off(errors: Arrays, port: str) -> float:
    return float(np.max(errors[port])) if port in errors else 0.0


def _spread(arrays: Arrays, port: str, head: Head, full: tuple[int, ...], default: float) -> Array:
    if port not in arrays:
        return np.full(full[2:], default)
    return np.broadcast_to(arrays[port], full)[head.at]


def _inner(op: SdpaBackward, inputs: Arrays, errors: Arrays, ctx: Context) -> Iterator[_Inner]:
    """Yield the inner values of every head; without ``errors`` the second ones are 0."""
    q, k, v = (inputs[p] for p in ("q", "k", "v"))
    full = (*q.shape[:3], k.shape[2])
    u, tiny, bounded = ctx.roundoff, ctx.tiny, bool(errors)
    off = {p: np.broadcast_to(e, inputs[p].shape) for p, e in errors.items()}
    c, inverse = _number(inputs, "dropout_scale"), _number(inputs, "dropout_scale_inv")
    c_off, inverse_off = _off(off, "dropout_scale"), _off(off, "dropout_scale_inv")
    again = c * inverse if "dropout_scale_inv" in inputs else 1.0
    again_off = 0.0
    if "dropout_scale_inv" in inputs:
        again_off = abs(c) * inverse_off + (abs(inverse) + inverse_off) * c_off + u * abs(again)
    for head in heads(op, inputs, k, v):
        stats = inputs["stats"][head.at]
        shift = np.where(np.isneginf(stats), 0.0, stats)
        p = np.exp(head.logits - shift)
        do, o, value = inputs["do"][head.at], inputs["o"][head.at], v[head.value]
        keep = _spread(inputs, "dropout_mask", head, full, 1.0)
        dp, delta = do @ value.T, (do * o).sum(-1, keepdims=True)
        inside = c * keep * dp - again * delta
        zero = np.zeros(full[2:])
        weights_off = change_off = zero
        if bounded:
            away = np.where(head.visible, np.abs(head.logits - shift), 0.0)
            s_off = logit_error(op, head, inputs, errors, (k, off["k"]), ctx, fused=False)
            s_off = s_off + np.where(np.isneginf(stats), 0.0, off["stats"][head.at])
            p_off = p * (np.expm1(s_off + 4 * u * away) + 4 * u) + np.where(p > 0, tiny, 0.0)
            keep_off = _spread(off, "dropout_mask", head, full, 0.0)
            weights_off = (
                np.abs(c * keep) * p_off
                + (p + p_off) * (abs(c) * keep_off + c_off * np.abs(keep))
                + 2 * u * np.abs(c * keep * p)
            )
            edo, eo, ev = off["do"][head.at], off["o"][head.at], off["v"][head.value]
            size = np.abs(do) @ np.abs(value).T
            dp_off = u * growth(do.shape[-1]) * size + tiny
            dp_off = dp_off + edo @ (np.abs(value) + ev).T + np.abs(do) @ ev.T
            size = (np.abs(do) * np.abs(o)).sum(-1, keepdims=True)
            delta_off = u * (growth(do.shape[-1]) + 1) * size + tiny
            delta_off = delta_off + (edo * (np.abs(o) + eo) + np.abs(do) * eo).sum(
                -1, keepdims=True
            )
            inside_off = (
                np.abs(c * keep) * dp_off
                + (np.abs(dp) + dp_off) * (abs(c) * keep_off + c_off * np.abs(keep))
                + abs(again) * delta_off
                + (np.abs(delta) + delta_off) * again_off
                + 3 * u * (np.abs(c * keep * dp) + np.abs(again * delta))
            )
            change_off = p * inside_off + p_off * (np.abs(inside) + inside_off)
            change_off = change_off + u * np.abs(p * inside)
        yield _Inner(
            head=head,
            weights=(c * keep * p, weights_off),
            change=(p * inside, change_off),
        )


def evaluate(op: SdpaBackward, inputs: Arrays, ctx: Context) -> Arrays:
    found = {f"d{p}": np.zeros(inputs[p].shape) for p in ("q", "k", "v")}
    full = (*inputs["q"].shape[:3], inputs["k"].shape[2])
    bias = np.zeros(full)
    scale = scale_of(op, inputs)
    for inner in _inner(op, inputs, {}, ctx):
        head, ds = inner.head, inner.change[0]
        found["dv"][head.value] += inner.weights[0].T @ inputs["do"][head.at]
        found["dq"][head.at] = scale * (ds @ inputs["k"][head.key])
        found["dk"][head.key] += scale * (ds.T @ inputs["q"][head.at])
        bias[head.at] = ds
    if "dbias" in ctx.outputs:
        found["dbias"] = _summed(bias, inputs["attn_mask"].shape)
    return found


def _summed(x: Array, dims: tuple[int, ...]) -> Array:
    aligned = (1,) * (4 - len(dims)) + tuple(dims)
    axes = tuple(a for a in range(4) if aligned[a] == 1)
    return x.sum(axis=axes, keepdims=True).reshape(dims)


class _Sums:
    """Bounds of Σ w·x over rows and heads: parts whose errors add up, and squares of the rest.

    ``other`` is the type of x.
    """

    def __init__(self, shape: tuple[int, ...], other: DataType, ctx: Context) -> None:
        self.carried, self.size, self.square, self.tiny = (np.zeros(shape) for _ in range(4))
        self.other, self.ctx = other, ctx

    def add(self, at: tuple[int, int], weights: Pair, x: Pair) -> None:
        w, ew = weights
        size, off = np.abs(x[0]), x[1]
        flushed = flushed_factor(w, ew, self.other, self.ctx)
        self.carried[at] += (ew + flushed) @ (size + off) + np.abs(w) @ off
        self.size[at] += np.abs(w) @ size
        self.square[at] += np.square(w) @ np.square(size)
        self.tiny[at] += size.sum(0)

    def total(self, n: int) -> Array:
        """Return the bound of sums of n products."""
        ctx, narrow = self.ctx, narrowing(self.other, self.ctx)
        least = tiny_of(self.other) if narrow else ctx.tiny
        error = self.carried + ctx.roundoff * growth(n) * self.size + ctx.tiny
        return error + random_sum(self.size, self.square, narrow) + least * self.tiny


def bound(
    op: SdpaBackward, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context
) -> Arrays:
    u, scale = ctx.roundoff, scale_of(op, inputs)
    q, k = inputs["q"], inputs["k"]
    off = {p: np.broadcast_to(e, inputs[p].shape) for p, e in errors.items()}
    full = (*q.shape[:3], k.shape[2])
    others = {"q": "k", "k": "q", "v": "do"}  # what weights and ds are multiplied with
    sums = {
        f"d{p}": _Sums(inputs[p].shape, ctx.inputs[other].data_type, ctx)
        for p, other in others.items()
    }
    bias = np.zeros(full), np.zeros(full)
    for inner in _inner(op, inputs, errors, ctx):
        head, (ds, e) = inner.head, inner.change
        w, ew = inner.weights
        sums["dv"].add(head.value, (w.T, ew.T), (inputs["do"][head.at], off["do"][head.at]))
        sums["dk"].add(head.key, (ds.T, e.T), (q[head.at], off["q"][head.at]))
        sums["dq"].add(head.at, (ds, e), (k[head.key], off["k"][head.key]))
        bias[0][head.at], bias[1][head.at] = ds, e
    rows = {p: full[1] // inputs[p].shape[1] * full[2] for p in ("k", "v")}
    found = {
        "dq": sums["dq"].total(full[3]),
        "dk": sums["dk"].total(rows["k"]),
        "dv": sums["dv"].total(rows["v"]) + 2 * u * np.abs(outputs["dv"]),
    }
    for port in ("dq", "dk"):
        found[port] = abs(scale) * found[port] + 3 * u * np.abs(outputs[port])
        if "scale" in inputs and scale:
            found[port] = found[port] + np.abs(outputs[port] / scale) * _off(off, "scale")
    if "dbias" in outputs:
        dims = inputs["attn_mask"].shape
        n = int(np.prod(full) // max(np.prod(dims), 1))
        found["dbias"] = _summed(bias[1], dims) + u * growth(n) * _summed(np.abs(bias[0]), dims)
        found["dbias"] = found["dbias"] + ctx.tiny
    return {port: found[port] for port in outputs}


def domain(op: SdpaBackward, port: str, ctx: Context) -> Domain:
    """Return values with which p adds up to about 1 in every row."""
    if port == "stats":
        center = float(np.log(ctx.inputs["k"].dims[2])) + 1
        return Domain(low=center, high=center + 2)
    if port == "dropout_scale_inv":
        return Domain(low=0.5, high=1.0)
    return attention_domain(op, port, ctx)


REFERENCE = Reference(
    evaluate=evaluate,
    bound=bound,
    domain=domain,
    exact_ports=exact_ports,
    multiplied=("q", "k", "v", "do"),
    unsupported=why_not,
)
