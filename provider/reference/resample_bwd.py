# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradient of pooling: every window's share is scattered into the (padded) input.  Of resizing."""

from __future__ import annotations

import numpy as np

from ...graph_api.enums import ResampleMode as Mode
from ...graph_api.ops.resample_bwd import ResampleBwd
from .analysis import accumulated, growth
from .base import Arrays, Context, Domain, Reference
from .convert import Array
from .resample_fwd import counts
from .resize import adjoint, adjoint_bound

__all__ = ["REFERENCE"]

Dims = tuple[int, ...]


def _scatter(op: ResampleBwd, dy: Array, index: Array | None, input_dims: Dims) -> Array:
    """Return dx (N, C, spatial...)."""
    sides = list(zip(input_dims[2:], op.pre_padding, op.post_padding, strict=True))
    wide = np.zeros((*input_dims[:2], *(n + pre + post for n, pre, post in sides)), dtype=dy.dtype)
    own = np.pad(
        np.arange(np.prod(input_dims[2:])).reshape(1, 1, *input_dims[2:]),
        [(0, 0), (0, 0), *((pre, post) for _, pre, post in sides)],
        constant_values=-2,  # no index has this value
    )
    if op.resample_mode is not Mode.MAXPOOL:
        dy = dy / counts(op, input_dims)
    for offset in np.ndindex(*op.window):
        at = (
            slice(None),
            slice(None),
            *(
                slice(t, t + (n - 1) * s + 1, s)
                for t, n, s in zip(offset, dy.shape[2:], op.stride, strict=True)
            ),
        )
        wide[at] += dy if index is None else np.where(index == own[at], dy, 0)
    inner = (slice(pre, pre + n) for n, pre, _ in sides)
    return wide[(slice(None), slice(None), *inner)]


def evaluate(op: ResampleBwd, inputs: Arrays, ctx: Context) -> Arrays:
    input_dims = ctx.outputs["dx"].dims
    if op.resizes:
        return {"dx": ctx.finish(adjoint(op, inputs["dy"], input_dims))}
    dx = _scatter(op, inputs["dy"], inputs.get("index"), input_dims)
    return {"dx": ctx.finish(dx)}


def bound(op: ResampleBwd, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context) -> Arrays:
    dy, index, input_dims = inputs["dy"], inputs.get("index"), ctx.outputs["dx"].dims
    if op.resizes:
        e = np.broadcast_to(errors["dy"], dy.shape).astype(np.float64)
        return {"dx": adjoint_bound(op, dy, e, input_dims, ctx)}
    size = _scatter(op, np.abs(dy).astype(np.float64), index, input_dims)
    off = np.broadcast_to(errors["dy"], dy.shape).astype(np.float64)
    found = _scatter(op, off, index, input_dims)
    if np.any(errors.get("index", 0)):
        return {"dx": np.full(input_dims, np.inf)}
    if not ctx.compute.is_float:
        return {"dx": found}
    terms = [-(-w // s) for w, s in zip(op.window, op.stride, strict=True)]
    sums = accumulated(size, int(np.prod(terms)), ctx, dy)
    if op.averages:
        # The shares are not integers, and rounded once.
        sums = ctx.roundoff * (growth(int(np.prod(terms))) + 1) * size + ctx.tiny * (size > 0)
    return {"dx": found + sums}


def domain(op: ResampleBwd, port: str, ctx: Context) -> Domain:
    if port == "index":
        return Domain(ints=(-1, int(np.prod(ctx.outputs["dx"].dims[2:])) - 1))
    return Domain(ints=(-100, 100))


REFERENCE = Reference(
    evaluate=evaluate,
    bound=bound,
    domain=domain,
    exact_ports=lambda op, ctx: frozenset({"index"}),
)
