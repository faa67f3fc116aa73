# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Data gradient where filter positions do not overlap: one matmul makes all patches of dx."""

from __future__ import annotations

from math import prod

from ....graph_api.dtypes import DataType
from ....graph_api.ops.conv_dgrad import ConvDgrad
from ...emit.builder import Builder, Value
from ...ops.dgrad_geometry import pointwise_op
from .conv_fprop import convolve
from .zeros import extended, window

__all__ = ["patches"]


def patches(b: Builder, dy: Value, w: Value, op: ConvDgrad, accumulate: DataType) -> Value:
    """Return dx where filter positions do not overlap; w is in the order of cross-correlation.

    Patches outside dx are not computed: a slice of a matmul's result is moved into the matmul,
    which does not always compile for gfx9 then.
    """
    dims = op.dx_dims
    starts = []
    for axis, (k, s, pre) in enumerate(zip(w.shape[2:], op.stride, op.pre_padding, strict=True), 2):
        low = max(-(-(pre - k + 1) // s), 0)
        high = min((dims[axis] - 1 + pre) // s + 1, dy.shape[axis])
        if low >= high:
            return b.literal(0, accumulate, dims)
        dy = b.slice(dy, axis, low, high)
        starts.append(pre - low * s)
    groups, size, rank = dims[1] // w.shape[1], w.shape[2:], len(op.stride)
    flat = b.reshape(w, (groups, w.shape[0] // groups, w.shape[1] * prod(size)))
    turned = b.permute(flat, (0, 2, 1))
    turned = b.reshape(turned, (dims[1] * prod(size), w.shape[0] // groups, *(1,) * rank))
    parts = convolve(b, dy, b.materialise(turned), pointwise_op(rank), accumulate)
    extents = dy.shape[2:]
    parts = b.reshape(parts, (*dims[:2], *size, *extents))
    parts = b.permute(parts, (0, 1, *(a for i in range(rank) for a in (2 + rank + i, 2 + i))))
    for i, (k, s) in enumerate(zip(size, op.stride, strict=True)):
        parts = extended(b, parts, 3 + 2 * i, s - k)
    whole = b.reshape(parts, (*dims[:2], *(o * s for o, s in zip(extents, op.stride, strict=True))))
    for axis, start in enumerate(starts, 2):
        whole = window(b, whole, axis, start, dims[axis])
    return whole
