# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Forward convolution: one matmul for each filter element."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...graph_api.enums import ConvMode
from ...graph_api.ops.conv_fprop import ConvFprop
from .analysis import bilinear, exact_matmul
from .base import Context
from .convert import Array
from .thrift import Dims, Part, Thrift, grouped_features, norm

__all__ = ["REFERENCE"]


def _convolve(op: ConvFprop, x: Array, w: Array, dims: Dims) -> Array:
    """Return (N, K, extents...) in the type of the operands (float64 or int64)."""
    extents = dims[2:]
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


def _envelope(op: ConvFprop, x: Array, w: Array, dims: Dims) -> Array:
    """Return the norm of each window by the norm of each filter."""
    groups = x.shape[1] // w.shape[1]
    windows = norm(x.reshape(x.shape[0], groups, w.shape[1], *x.shape[2:]), 2)
    ones = np.ones((groups, 1, *w.shape[2:]))
    seen = np.sqrt(_convolve(op, np.square(windows), ones, dims)).repeat(len(w) // groups, 1)
    filters = norm(w.reshape(len(w), -1), 1)
    return np.asarray(seen * filters.reshape(-1, *[1] * (w.ndim - 2)))


def _restrict(op: ConvFprop, x: Array, w: Array, dims: Dims, some: Array) -> Part:
    groups = x.shape[1] // w.shape[1]
    filters = grouped_features(groups, len(w) // groups, some)
    at = (slice(None), filters)
    return Part(first=x, second=w[filters], dims=(dims[0], len(filters), *dims[2:]), at=at)


_THRIFT = Thrift(
    envelope=_envelope,
    features=lambda op, x, w, dims: w[0] * w[1] // x[1],
    restrict=_restrict,
)

REFERENCE = bilinear(_convolve, ("x", "w"), "y", _terms, _THRIFT)
