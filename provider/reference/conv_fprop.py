"""Forward convolution: one matrix product per tap of the filter."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...graph_api.enums import ConvMode
from ...graph_api.ops.conv_fprop import ConvFprop
from .analysis import bilinear_bound, product, scaled_domain
from .base import Arrays, Context, Domain, Reference
from .convert import Array

__all__ = ["REFERENCE"]


def _convolve(op: ConvFprop, x: Array, w: Array, extents: tuple[int, ...]) -> Array:
    """Return (N, K, extents...) in the type of the operands (float64 or int64)."""
    if op.conv_mode is ConvMode.CONVOLUTION:
        w = np.flip(w, axis=tuple(range(2, w.ndim)))
    groups = x.shape[1] // w.shape[1]
    x = np.pad(x, [(0, 0), (0, 0), *zip(op.pre_padding, op.post_padding, strict=True)])
    x = x.reshape(x.shape[0], groups, w.shape[1], *x.shape[2:])
    w = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    y = np.zeros((x.shape[0], groups, w.shape[1], int(np.prod(extents))), dtype=x.dtype)
    for tap in np.ndindex(*w.shape[3:]):
        window: tuple[Any, ...] = tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, n, s, d in zip(tap, extents, op.stride, op.dilation, strict=True)
        )
        seen = x[(..., *window)].reshape(*x.shape[:3], -1)
        y += product(w[(None, ..., *tap)], seen)
    return y.reshape(y.shape[0], -1, *extents)


def evaluate(op: ConvFprop, inputs: Arrays, ctx: Context) -> Arrays:
    extents = ctx.outputs["y"].dims[2:]
    return {"y": ctx.finish(_convolve(op, inputs["x"], inputs["w"], extents))}


def bound(op: ConvFprop, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context) -> Arrays:
    extents = ctx.outputs["y"].dims[2:]
    return {
        "y": bilinear_bound(
            lambda x, w: _convolve(op, x, w, extents),
            (inputs["x"], errors["x"]),
            (inputs["w"], errors["w"]),
            _terms(ctx),
            ctx,
        )
    }


def _terms(ctx: Context) -> int:
    return int(np.prod(ctx.inputs["w"].dims[1:]))


def domain(op: ConvFprop, port: str, ctx: Context) -> Domain:
    return scaled_domain(_terms(ctx), port, "x", ctx)


REFERENCE = Reference(
    evaluate=evaluate,
    bound=bound,
    domain=domain,
)
