"""Forward convolution: one matmul for each filter element."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...graph_api.enums import ConvMode
from ...graph_api.ops.conv_fprop import ConvFprop
from .analysis import bilinear, exact_matmul
from .base import Context
from .convert import Array

__all__ = ["REFERENCE"]


def _convolve(op: ConvFprop, x: Array, w: Array, ctx: Context) -> Array:
    """Return (N, K, extents...) in the type of the operands (float64 or int64)."""
    extents = ctx.outputs["y"].dims[2:]
    if op.conv_mode is ConvMode.CONVOLUTION:
        w = np.flip(w, axis=tuple(range(2, w.ndim)))
    groups = x.shape[1] // w.shape[1]
    x = np.pad(x, [(0, 0), (0, 0), *zip(op.pre_padding, op.post_padding, strict=True)])
    x = x.reshape(x.shape[0], groups, w.shape[1], *x.shape[2:])
    w = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    y = np.zeros((x.shape[0], groups, w.shape[1], int(np.prod(extents))), dtype=x.dtype)
    for offset in np.ndindex(*w.shape[3:]):
        window: tuple[Any, ...] = tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, n, s, d in zip(offset, extents, op.stride, op.dilation, strict=True)
        )
        seen = x[(..., *window)].reshape(*x.shape[:3], -1)
        y += exact_matmul(w[(None, ..., *offset)], seen)
    return y.reshape(y.shape[0], -1, *extents)


def _terms(op: ConvFprop, ctx: Context) -> int:
    return int(np.prod(ctx.inputs["w"].dims[1:]))


REFERENCE = bilinear(_convolve, ("x", "w"), "y", _terms)
