# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Data gradient by a forward convolution of dy with the filter flipped.

dx is dy, with zeros between its elements where there are strides, convolved with the filter whose
positions are reversed and whose two channel dims are exchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import prod

from ....graph_api.dtypes import DataType
from ....graph_api.enums import ConvMode
from ....graph_api.ops.conv_dgrad import ConvDgrad
from ....graph_api.ops.conv_fprop import ConvOp
from ...emit.builder import Builder, Value
from ...ops.conv_geometry import Convolution
from ...ops.convolution import GATHERING, Forward, forward_strategy
from ...ops.dgrad_geometry import Window, flipped_op, flipped_windows
from .conv_fprop import convolve, padded
from .zeros import insert_zeros

__all__ = ["flipped"]


def flipped(
    b: Builder, dy: Value, w: Value, op: ConvDgrad, accumulate: DataType, *, last: bool
) -> Value:
    """Return dx; ``last``: dy is laid out channels-last."""
    groups, spatial = op.dx_dims[1] // w.shape[1], range(2, w.rank)
    strided = prod(op.stride) > 1
    spread = tuple((n - 1) * s + 1 for n, s in zip(dy.shape[2:], op.stride, strict=True))
    windows = flipped_windows(spread, w.shape, op)
    if any(one.low >= one.high for one in windows):
        return b.literal(0, accumulate, op.dx_dims)
    forward = flipped_op(windows, op)
    read = (*dy.shape[:2], *(one.high - one.low for one in windows))
    turned = (op.dx_dims[1], w.shape[0] // groups, *w.shape[2:])
    strategy = forward_strategy(
        Forward(b.target, read, turned, forward, accumulate, dy.dtype, last)
    )
    reverses = op.conv_mode is not ConvMode.CONVOLUTION  # which reverses the filter too
    if reverses and strategy in GATHERING:
        reverses, forward = False, replace(forward, conv_mode=ConvMode.CONVOLUTION)
    convolved = partial(_convolved, b, windows=windows, op=forward, strategy=strategy)
    if b.target.is_gfx9 and groups == 1 and not strided and reverses and max(w.shape[2:]) > 1:
        # Reversing is a separate kernel, through which nothing folds: its result is laid out as
        # it is written here.
        filter = b.flip(b.permute(w, (1, 0, *spatial)), spatial)
        return convolved(dy, filter, accumulate, last=last)
    # Left to itself the compiler folds the exchange into the convolution, which on the CPU makes
    # scalar code (W-010) and on gfx9 wrong numbers (W-050).
    filter = b.materialise(_exchanged(b, b.flip(w, spatial) if reverses else w, groups))
    if strided:
        # A convolution for each phase of the stride would multiply no zeros, but interleaving the
        # phases costs more (64x56x56, stride 2: 10 ms to 1.5 ms), and slices of a filter with a
        # stride do not all compile for gfx9 (W-069).
        dy = insert_zeros(b, dy, op.stride)
    return convolved(dy, filter, accumulate, last=last)


def _exchanged(b: Builder, w: Value, groups: int) -> Value:
    """Return the filter (groups · K, C, spatial...) as (groups · C, K, spatial...)."""
    filters, channels, *size = w.shape
    split = b.reshape(w, (groups, filters // groups, channels, *size))
    swapped = b.permute(split, (0, 2, 1, *range(3, split.rank)))
    return b.reshape(swapped, (groups * channels, filters // groups, *size))


def _convolved(
    b: Builder,
    dy: Value,
    w: Value,
    accumulate: DataType,
    *,
    windows: Sequence[Window],
    op: ConvOp,
    strategy: str,
    last: bool,
) -> Value:
    """Return dy, cropped to the positions that dx needs and padded, convolved with the filter."""
    for axis, one in enumerate(windows, 2):
        dy = b.slice(dy, axis, one.low, one.high)
    computed = not dy.argument
    # Integers are right as they are.
    doubled = computed and dy.dtype.is_float
    if Convolution(dy.shape, w.shape, op, computed, doubled).explicit_padding(b.target):
        dy, w, op = padded(b, dy, w, op)
    return convolve(b, dy, w, op, accumulate, strategy=strategy, last=last)
