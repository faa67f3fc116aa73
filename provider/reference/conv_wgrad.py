"""Weight gradient of a convolution: one matrix product of dy with all patches of the image."""

from __future__ import annotations

import numpy as np

from ...graph_api.enums import ConvMode
from ...graph_api.ops.conv_wgrad import ConvWgrad
from .analysis import bilinear_bound, product, scaled_domain
from .base import Arrays, Context, Domain, Reference
from .convert import Array

__all__ = ["REFERENCE"]


def _correlate(op: ConvWgrad, x: Array, dy: Array, dims: tuple[int, ...]) -> Array:
    """Return (K, C/groups, taps...) in the type of the operands (float64 or int64)."""
    filters, channels, *taps = dims
    batch, groups = x.shape[0], x.shape[1] // channels
    paddings = zip(op.pre_padding, op.post_padding, strict=True)
    x = np.ascontiguousarray(np.pad(x, [(0, 0), (0, 0), *paddings]))
    # Every patch of every position, as a view: (N, G, C, taps..., positions...).
    image, inner = x.strides[:2], x.strides[2:]
    patches = np.lib.stride_tricks.as_strided(
        x,
        (batch, groups, channels, *taps, *dy.shape[2:]),
        (
            image[0],
            channels * image[1],
            image[1],
            *(d * b for d, b in zip(op.dilation, inner, strict=True)),
            *(s * b for s, b in zip(op.stride, inner, strict=True)),
        ),
        writeable=False,
    )
    patches = patches.reshape(batch, groups, channels * int(np.prod(taps)), -1)
    columns = patches.transpose(1, 0, 3, 2).reshape(groups, -1, patches.shape[2])
    rows = dy.reshape(batch, groups, filters // groups, -1).transpose(1, 2, 0, 3)
    dw = product(rows.reshape(groups, filters // groups, -1), columns).reshape(dims)
    if op.conv_mode is ConvMode.CONVOLUTION:
        return np.flip(dw, axis=tuple(range(2, dw.ndim)))
    return dw


def evaluate(op: ConvWgrad, inputs: Arrays, ctx: Context) -> Arrays:
    dims = ctx.outputs["dw"].dims
    return {"dw": ctx.finish(_correlate(op, inputs["x"], inputs["dy"], dims))}


def bound(op: ConvWgrad, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context) -> Arrays:
    dims = ctx.outputs["dw"].dims
    return {
        "dw": bilinear_bound(
            lambda x, dy: _correlate(op, x, dy, dims),
            (inputs["x"], errors["x"]),
            (inputs["dy"], errors["dy"]),
            _terms(ctx),
            ctx,
        )
    }


def _terms(ctx: Context) -> int:
    dy = ctx.inputs["dy"].dims
    return int(np.prod((dy[0], *dy[2:])))


def domain(op: ConvWgrad, port: str, ctx: Context) -> Domain:
    return scaled_domain(_terms(ctx), port, "x", ctx)


REFERENCE = Reference(
    evaluate=evaluate,
    bound=bound,
    domain=domain,
)
