# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The forward convolutions that data gradients are made of, in numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...graph_api.ops.conv_fprop import ConvFprop
from .conv_geometry import Convolution

if TYPE_CHECKING:
    from ...graph_api.ops.conv_dgrad import ConvDgrad
    from ...graph_api.ops.conv_fprop import ConvOp

__all__ = [
    "Window",
    "filters_overlap",
    "flipped_convolution",
    "flipped_windows",
    "pads_columns",
    "pointwise_op",
    "spread",
    "turns_columns",
]

Ints = tuple[int, ...]

# Multiply-adds that take as long as adding zeros around an element.
_PADDED = 50


class Window(NamedTuple):
    """What a data gradient reads of dy along one dim: ``dy[low:high]``, with zeros around it."""

    low: int
    high: int
    before: int
    after: int


def filters_overlap(w: Ints, op: ConvOp) -> bool:
    """Return whether some position of the input is in two windows of the convolution."""
    overlap = any(k > s for k, s in zip(w[2:], op.stride, strict=True))
    return overlap or set(op.dilation) != {1}


def flipped_windows(extents: Ints, w: Ints, op: ConvDgrad) -> list[Window]:
    """Return what is convolved with the flipped filter; one may be empty (``low >= high``).

    ``extents``: the spatial dims of dy with zeros between its elements, of which there are none
    where strides are 1.
    """
    found = []
    sizes = zip(extents, op.dx_dims[2:], w[2:], op.pre_padding, op.dilation, strict=True)
    for extent, wanted, size, pre, dilation in sizes:
        reach = (size - 1) * dilation
        start = pre - reach
        stop = start + wanted + reach
        low, high = max(start, 0), min(stop, extent)
        found.append(Window(low, high, low - start, stop - high))
    return found


def spread(extents: Ints, stride: Ints) -> Ints:
    """Return extents with ``stride - 1`` zeros between their elements."""
    return tuple((n - 1) * s + 1 for n, s in zip(extents, stride, strict=True))


def flipped_convolution(
    dy: Ints, w: Ints, op: ConvDgrad
) -> tuple[list[Window], Convolution] | None:
    """Return what is read of dy with its zeros, and how it is convolved with the flipped filter.

    None where dy meets no filter.
    """
    windows = flipped_windows(spread(dy[2:], op.stride), w, op)
    extents = tuple(one.high - one.low for one in windows)
    if min(extents) <= 0:
        return None
    forward = ConvFprop(
        pre_padding=tuple(one.before for one in windows),
        post_padding=tuple(one.after for one in windows),
        stride=(1,) * len(windows),
        dilation=op.dilation,
    )
    channels = op.dx_dims[1]
    turned = (channels, w[0] * w[1] // channels, *w[2:])
    return windows, Convolution((*dy[:2], *extents), turned, forward)


def pointwise_op(rank: int) -> ConvFprop:
    """Return the convolution of filters of one position: no padding, strides of 1."""
    ones, none = (1,) * rank, (0,) * rank
    return ConvFprop(pre_padding=none, post_padding=none, stride=ones, dilation=ones)


def pads_columns(rows: int, padded: int, filters: int) -> bool:
    """Return whether `gemm_col2im` pads its columns, and not dy: it multiplies no zeros then.

    ``rows``, ``padded``: positions of dy without and with padding.
    """
    return filters * (padded - rows) > _PADDED * padded


def turns_columns(rows: int, filters: int) -> bool:
    """Return whether `gemm_col2im` moves channels behind positions in its columns.

    Otherwise it does in the filters, of which there are as many for each of them.
    """
    return filters > rows
