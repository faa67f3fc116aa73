# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Data gradient of a convolution: filter elements scatter their products into the padded input."""

from __future__ import annotations

from math import gcd
from typing import Any

import numpy as np

from ...graph_api.enums import ConvMode
from ...graph_api.ops.conv_dgrad import ConvDgrad
from .analysis import bilinear, exact_matmul
from .base import Context
from .convert import Array
from .thrift import Dims, Part, Thrift, grouped_features, norm

__all__ = ["REFERENCE"]


def _scatter(op: ConvDgrad, dy: Array, w: Array, dims: Dims) -> Array:
    """Return (N, C, spatial...) in the type of the operands (float64 or int64)."""
    if op.conv_mode is ConvMode.CONVOLUTION:
        w = np.flip(w, axis=tuple(range(2, w.ndim)))
    groups = dims[1] // w.shape[1]
    extents = dy.shape[2:]
    dy = dy.reshape(dy.shape[0], groups, w.shape[0] // groups, -1)
    w = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    paddings = list(zip(op.pre_padding, op.post_padding, strict=True))
    padded = [n + pre + post for n, (pre, post) in zip(dims[2:], paddings, strict=True)]
    dx = np.zeros((*dims[:2], *padded), dtype=dy.dtype)
    for offset in np.ndindex(*w.shape[3:]):
        window: tuple[Any, ...] = (
            ...,
            *(
                slice(t * d, t * d + (n - 1) * s + 1, s)
                for t, n, s, d in zip(offset, extents, op.stride, op.dilation, strict=True)
            ),
        )
        at: tuple[Any, ...] = (..., *offset)
        filter_ = np.swapaxes(w[at], 1, 2)
        dx[window] += exact_matmul(filter_[None], dy).reshape(*dims[:2], *extents)
    inner: tuple[Any, ...] = tuple(
        slice(pre, pre + n) for n, (pre, _) in zip(dims[2:], paddings, strict=True)
    )
    whole: tuple[Any, ...] = (slice(None), slice(None), *inner)
    return np.asarray(dx[whole])


def _terms(op: ConvDgrad, ctx: Context) -> int:
    """Return the number of products in the sum of an element of dx, at most.

    In each dim the filter elements that meet an element of dx are
    ``stride / gcd(stride, dilation)`` apart.
    """
    w, dy, dx = ctx.inputs["w"].dims, ctx.inputs["dy"].dims, ctx.outputs["dx"].dims
    n = w[0] * w[1] // dx[1]
    for k, o, s, d in zip(w[2:], dy[2:], op.stride, op.dilation, strict=True):
        n *= min(-(-k * gcd(s, d) // s), o)
    return n


def _envelope(op: ConvDgrad, dy: Array, w: Array, dims: Dims) -> Array:
    """Return the norm of what meets an element by the norm of its channel's filters."""
    channels = w.shape[1]
    groups = dims[1] // channels
    sizes = norm(dy.reshape(dy.shape[0], groups, -1, *dy.shape[2:]), 2)
    ones = np.ones((groups, 1, *w.shape[2:]))
    seen = np.sqrt(_scatter(op, np.square(sizes), ones, (dims[0], groups, *dims[2:])))
    filters = norm(w.reshape(groups, len(w) // groups, channels, -1), (1, 3)).reshape(-1)
    return np.asarray(seen.repeat(channels, 1) * filters.reshape(-1, *[1] * (w.ndim - 2)))


def _restrict(op: ConvDgrad, dy: Array, w: Array, dims: Dims, some: Array) -> Part:
    at = (slice(None), grouped_features(dims[1] // w.shape[1], w.shape[1], some))
    return Part(first=dy, second=w[:, some], dims=(dims[0], len(at[1]), *dims[2:]), at=at)


_THRIFT = Thrift(envelope=_envelope, features=lambda op, dy, w, dims: w[1], restrict=_restrict)

REFERENCE = bilinear(_scatter, ("dy", "w"), "dx", _terms, _THRIFT)
