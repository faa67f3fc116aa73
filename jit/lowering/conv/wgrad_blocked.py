# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weight gradients as matmuls in blocks of our own choice, for the CPU."""

from __future__ import annotations

from math import prod

import numpy as np

from ....graph_api.ops.conv_fprop import ConvFprop, ConvOp
from ...emit.blocked import blocked_matmul
from ...emit.builder import Builder, Value
from ...ops.wgrad_cost import wgrad_blocks
from .im2col_gemm import channels_second, concatenated, samples_inside, seen, stacked

__all__ = ["exchanged", "weight_gradient"]

Ints = tuple[int, ...]


def weight_gradient(
    b: Builder, x: Value, dy: Value, op: ConvOp, size: Ints, groups: int, *, last: bool
) -> Value:
    """Return dw as one matmul in blocks, of dy with the patches of x, along all places.

    ``size``: spatial dims of the filter.  ``last``: x is laid out channels-last.
    """
    filters, channels = dy.shape[1] // groups, x.shape[1] // groups
    depth, columns = dy.shape[0] * prod(dy.shape[2:]), channels * prod(size)
    # Places before filters: where a row is as long as a power of two, the rows of a step would
    # all be in the same few lines of the first cache.
    places = b.permute(dy, (0, *range(2, dy.rank), 1))
    places = b.permute(b.reshape(places, (depth, groups, filters)), (1, 0, 2))
    places = b.materialise(places)
    way = wgrad_blocks(b.target, filters, channels, prod(size), depth, groups)
    if way.apart:
        patches = _by_position(b, x, size, op)
        if way.turned:
            y = blocked_matmul(b, patches, places, way.blocks, turned=True)
            y = b.permute(b.reshape(y, (prod(size), channels, filters)), (2, 1, 0))
        else:
            y = blocked_matmul(b, places, patches, way.blocks, turned=True)
            y = b.permute(b.reshape(y, (prod(size), filters, channels)), (1, 2, 0))
    elif last and groups == 1:
        patches = concatenated(b, x, size, op, range(len(size))[::-1])
        patches = b.reshape(patches, (1, depth, columns))
        y = blocked_matmul(b, places, patches, way.blocks, turned=True)
        return channels_second(b, y, (filters, *size, channels))
    else:
        patches = samples_inside(b, stacked(b, x, size, op), len(size))
        patches = b.reshape(patches, (groups, columns, depth))
        y = blocked_matmul(b, places, patches, way.blocks, columns=True, turned=True)
    return b.reshape(y, (groups * filters, channels, *size))


def exchanged(b: Builder, x: Value, dy: Value, op: ConvOp, size: Ints, *, last: bool) -> Value:
    """Return dw as a matmul of x with the patches of dy, for filters of stride 1 (`exchanges`).

    What dy lies away from x is what x lies away from dy, the other way round: the positions come
    reversed.  ``last``: dy is laid out channels-last.
    """
    reach = [(k - 1) * d for k, d in zip(size, op.dilation, strict=True)]
    pre, post = (
        tuple(most - pad for most, pad in zip(reach, padding, strict=True))
        for padding in (op.pre_padding, op.post_padding)
    )
    shifted = ConvFprop(pre_padding=pre, post_padding=post, stride=op.stride, dilation=op.dilation)
    dw = weight_gradient(b, dy, x, shifted, size, 1, last=last)
    return b.flip(b.permute(dw, (1, 0, *range(2, dw.rank))), range(2, dw.rank))


def _by_position(b: Builder, x: Value, size: Ints, op: ConvOp) -> Value:
    """Return what each filter position meets of x, (filter positions, places, channels)."""
    extents = op.output_extents(x.shape[2:], size)
    given = b.materialise(b.permute(x, (0, *range(2, x.rank), 1)))
    given = b.pad(given, (*op.pre_padding, 0), (*op.post_padding, 0))
    parts = []
    for position in np.ndindex(*size):
        part = given
        for i, at in enumerate(position):
            part = seen(b, part, 1 + i, at, extents[i], op.stride[i], op.dilation[i])
        parts.append(b.reshape(part, (1, x.shape[0] * prod(extents), x.shape[1])))
    return b.concatenate(parts, 0)
