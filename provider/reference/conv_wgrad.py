# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weight gradient of a convolution: one matmul of dy with all patches of the input."""

from __future__ import annotations

import numpy as np

from ...graph_api.enums import ConvMode
from ...graph_api.ops.conv_wgrad import ConvWgrad
from .analysis import bilinear, exact_matmul
from .base import Context
from .convert import Array
from .thrift import Dims, Part, Thrift, grouped_features, norm

__all__ = ["REFERENCE"]


def _correlate(op: ConvWgrad, x: Array, dy: Array, dims: Dims) -> Array:
    """Return (K, C/groups, filter size...) in the type of the operands (float64 or int64)."""
    filters, channels, *filter_size = dims
    batch, groups = x.shape[0], x.shape[1] // channels
    paddings = zip(op.pre_padding, op.post_padding, strict=True)
    x = np.ascontiguousarray(np.pad(x, [(0, 0), (0, 0), *paddings]))
    # Every patch of every position, as a view: (N, G, C, filter size..., positions...).
    outer, inner = x.strides[:2], x.strides[2:]
    patches = np.lib.stride_tricks.as_strided(
        x,
        (batch, groups, channels, *filter_size, *dy.shape[2:]),
        (
            outer[0],
            channels * outer[1],
            outer[1],
            *(d * b for d, b in zip(op.dilation, inner, strict=True)),
            *(s * b for s, b in zip(op.stride, inner, strict=True)),
        ),
        writeable=False,
    )
    patches = patches.reshape(batch, groups, channels * int(np.prod(filter_size)), -1)
    columns = patches.transpose(1, 0, 3, 2).reshape(groups, -1, patches.shape[2])
    rows = dy.reshape(batch, groups, filters // groups, -1).transpose(1, 2, 0, 3)
    dw = exact_matmul(rows.reshape(groups, filters // groups, -1), columns).reshape(dims)
    if op.conv_mode is ConvMode.CONVOLUTION:
        return np.flip(dw, axis=tuple(range(2, dw.ndim)))
    return dw


def _terms(op: ConvWgrad, ctx: Context) -> int:
    dy = ctx.inputs["dy"].dims
    return int(np.prod((dy[0], *dy[2:])))


def _envelope(op: ConvWgrad, x: Array, dy: Array, dims: Dims) -> Array:
    """Return the norm of each input channel by that of each result channel."""
    outer = (0, *range(2, x.ndim))
    groups = x.shape[1] // dims[1]
    inputs = norm(x, outer).reshape(groups, 1, dims[1]).repeat(dims[0] // groups, 1)
    sizes = inputs.reshape(dims[0], dims[1]) * norm(dy, outer)[:, None]
    return np.broadcast_to(sizes.reshape(*dims[:2], *[1] * (len(dims) - 2)), dims)


def _restrict(op: ConvWgrad, x: Array, dy: Array, dims: Dims, some: Array) -> Part:
    groups = x.shape[1] // dims[1]
    filters = grouped_features(groups, dims[0] // groups, some)
    return Part(first=x, second=dy[:, filters], dims=(len(filters), *dims[1:]), at=(filters,))


_THRIFT = Thrift(
    envelope=_envelope,
    features=lambda op, x, dy, dims: dims[0] * dims[1] // x[1],
    restrict=_restrict,
)

REFERENCE = bilinear(_correlate, ("x", "dy"), "dw", _terms, _THRIFT)
