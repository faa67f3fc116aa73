# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Data gradient by a forward convolution of dy with the filter flipped.

dx is dy, with zeros between its elements where there are strides, convolved with the filter whose
positions are reversed and whose two channel dims are exchanged.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ....graph_api.dtypes import DataType
from ....graph_api.enums import ConvMode
from ....graph_api.ops.conv_dgrad import ConvDgrad
from ...emit.builder import Builder, Value
from ...ops.convolution import REVERSING, Forward, forward_strategy
from ...ops.dgrad_geometry import flipped_convolution
from .conv_fprop import convolve, padded
from .zeros import insert_zeros

__all__ = ["exchanged", "flipped"]


def flipped(
    b: Builder, dy: Value, w: Value, op: ConvDgrad, accumulate: DataType, *, last: bool
) -> Value:
    """Return dx; ``last``: dy is laid out channels-last."""
    groups, spatial = op.dx_dims[1] // w.shape[1], range(2, w.rank)
    strided = prod(op.stride) > 1
    found = flipped_convolution(dy.shape, w.shape, op)
    if found is None:
        return b.literal(0, accumulate, op.dx_dims)
    windows, conv = found
    strategy = forward_strategy(
        Forward(b.target, conv.x, conv.w, conv.op, accumulate, dy.dtype, last)
    )
    reverses = op.conv_mode is not ConvMode.CONVOLUTION  # which reverses the filter too
    if reverses and strategy in REVERSING:
        reverses = False
        conv = conv._replace(op=replace(conv.op, conv_mode=ConvMode.CONVOLUTION))
    if b.target.is_gfx9 and groups == 1 and not strided and reverses and max(w.shape[2:]) > 1:
        # Reversing is a separate kernel, through which nothing folds: its result is laid out as
        # it is written here.
        filter = b.flip(b.permute(w, (1, 0, *spatial)), spatial)
    else:
        # Left to itself the compiler folds the exchange into the convolution, which on the CPU
        # makes scalar code (W-010) and on gfx9 wrong numbers (W-050).
        filter = b.materialise(exchanged(b, b.flip(w, spatial) if reverses else w, groups))
    if strided:
        # A convolution for each phase of the stride multiplies no zeros (`dgrad_phases`), but of
        # one group interleaving costs more (64x56x56, stride 2: 10 ms to 1.5 ms), and slices of a
        # filter with a stride do not all compile for gfx9 (W-069).
        dy = insert_zeros(b, dy, op.stride)
    for axis, one in enumerate(windows, 2):
        dy = b.slice(dy, axis, one.low, one.high)
    computed = not dy.argument
    # Integers are right as they are.
    conv = conv._replace(computed=computed, doubled=computed and dy.dtype.is_float)
    forward = conv.op
    if conv.explicit_padding(b.target):
        dy, filter, forward = padded(b, dy, filter, forward)
    return convolve(b, dy, filter, forward, accumulate, strategy=strategy, last=last)


def exchanged(b: Builder, w: Value, groups: int) -> Value:
    """Return the filter (groups · K, C, spatial...) as (groups · C, K, spatial...)."""
    filters, channels, *size = w.shape
    split = b.reshape(w, (groups, filters // groups, channels, *size))
    swapped = b.permute(split, (0, 2, 1, *range(3, split.rank)))
    return b.reshape(swapped, (groups * channels, filters // groups, *size))
