# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Forward convolutions that read a channels-last image as it lies, for the CPU.

Nothing is copied for each filter position: after Georganas et al., "Anatomy of High-Performance
Deep Learning Convolutions on SIMD Architectures" (2018), a kernel keeps the sums of a few columns
and filters in registers and goes through positions and channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ....graph_api.dtypes import DataType
from ....graph_api.enums import ConvMode
from ....graph_api.ops.conv_fprop import ConvOp
from ...emit.builder import Builder, Value
from ...emit.tiled_convolution import grouped_convolution, tiled_convolution
from ...ops.direct_tiles import DirectTiles, direct_tiles
from ...ops.group_tiles import group_tiles
from .im2col_gemm import channels_second
from .zeros import padded_last

__all__ = ["channels_first", "direct_nhwc", "direct_nhwc_of_groups", "rows_of_channels"]


def direct_nhwc(
    b: Builder, x: Value, w: Value, op: ConvOp, accumulate: DataType, *, last: bool
) -> Value:
    """Return the convolution as one op a panel of filters, of the padded channels-last image.

    Parameters
    ----------
    b : Builder
    x, w : Value
        Dims (N, C, H, W) and (filters, C, height, width); the last three of the latter are not 1.
    op : ConvOp
    accumulate : DataType
        Float32, which both are converted to.
    last : bool
        Whether x is laid out channels-last, as the result will be then.

    Returns
    -------
    Value
        Dims (N, filters, positions...).
    """
    x, w = (b.convert(v, accumulate) for v in (x, w))
    n, (filters, channels), size = x.shape[0], w.shape[:2], w.shape[2:]
    extents = op.output_extents(x.shape[2:], size)
    tiles = direct_tiles(b.target, n, channels, filters, size, extents)
    windows = [
        _window(b, x, op, size, i * tiles.rows, (tiles.rows, tiles.columns))
        for i in range(tiles.cuts)
    ]
    image = b.concatenate(windows, 0)
    parts, computed = [], (tiles.rows, tiles.columns)
    panels = _panels(b, w, tiles, filters, op)
    for i in range(panels.shape[0]):
        panel = b.reshape(b.slice(panels, 0, i, i + 1), panels.shape[1:])
        y = tiled_convolution(b, image, panel, computed, op.stride, op.dilation, tiles.levels)
        y = b.reshape(y, (n, tiles.cuts * tiles.rows, *y.shape[2:]))
        used = (*extents, min(tiles.panel, filters - i * tiles.panel))
        if last:
            y = _cut(b, y, used)
        elif used == y.shape[1:]:
            y = channels_second(b, y, y.shape)
        else:
            y = _cut(b, channels_first(b, y), (used[2], *extents))
        parts.append(y)
    if not last:
        return b.concatenate(parts, 1)
    return channels_second(b, b.concatenate(parts, 3, stored=True), (n, *extents, filters))


def direct_nhwc_of_groups(
    b: Builder, x: Value, w: Value, op: ConvOp, accumulate: DataType, *, last: bool
) -> Value:
    """Return the convolution of several groups as one op of the padded channels-last image.

    Parameters as of `direct_nhwc`, but of one to three spatial dims, any of which may be 1.
    """
    x, w = (b.convert(v, accumulate) for v in (x, w))
    n, channels, size = x.shape[0], w.shape[1], w.shape[2:]
    groups, filters = x.shape[1] // channels, w.shape[0] * channels // x.shape[1]
    extents = op.output_extents(x.shape[2:], size)
    tiles = group_tiles(b.target, n, groups, channels, filters, size, extents)
    given = x if last else rows_of_channels(b, x)
    image = padded_last(b, given, op.pre_padding, op.post_padding)
    weights = b.reshape(w, (groups, filters, channels, *size))
    weights = b.permute(weights, (0, *range(2, weights.rank), 1))
    y = grouped_convolution(
        b,
        b.reshape(image, (*image.shape[:-1], groups, channels)),
        b.materialise(weights),
        extents,
        op.stride,
        op.dilation,
        tiles.levels,
        reverse=op.conv_mode is ConvMode.CONVOLUTION,
    )
    y = b.reshape(y, (n, *extents, groups * filters))
    if last:
        return channels_second(b, y, y.shape)
    return channels_first(b, y)


def rows_of_channels(b: Builder, x: Value) -> Value:
    """Return an image, transposed as matrices to lie channels-last."""
    n, channels, *extents = x.shape
    rows = b.permute(b.reshape(x, (n, channels, prod(extents))), (0, 2, 1))
    return channels_second(b, b.materialise(rows), (n, *extents, channels))


def _cut(b: Builder, y: Value, extents: Sequence[int]) -> Value:
    """Return the first elements along each dim but the first one."""
    for axis, extent in enumerate(extents, 1):
        y = b.slice(y, axis, 0, extent)
    return y


def channels_first(b: Builder, y: Value) -> Value:
    """Return (N, spatial..., C) as (N, C, spatial...), transposed as matrices, rests included.

    With the rest in one loop it is number by number (8x320x32x19, Zen 3: 4.8 ms in all, now 3.1).
    """
    n, *extents, filters = y.shape
    y = b.permute(b.reshape(y, (n, prod(extents), filters)), (0, 2, 1))
    return b.reshape(b.materialise(y), (n, filters, *extents))


def _window(
    b: Builder, x: Value, op: ConvOp, size: tuple[int, ...], start: int, extents: tuple[int, int]
) -> Value:
    """Return what so many rows, from one on, and columns of the result meet, channels-last."""
    before, after, met = [], [], []
    for i, (first, count) in enumerate(zip((start, 0), extents, strict=True)):
        low = first * op.stride[i] - op.pre_padding[i]
        high = low + (count - 1) * op.stride[i] + (size[i] - 1) * op.dilation[i] + 1
        before.append(max(-low, 0))
        after.append(max(high - x.shape[2 + i], 0))
        met.append((max(low, 0), min(high, x.shape[2 + i]), high - low))
    if any(low >= high for low, high, _ in met):  # padding alone
        shape = (x.shape[0], *(extent for *_, extent in met), x.shape[1])
        return b.literal(0, x.dtype, shape)
    for i, (low, high, _) in enumerate(met, 2):
        x = b.slice(x, i, low, high)
    return padded_last(b, x, before, after)


def _panels(b: Builder, w: Value, tiles: DirectTiles, filters: int, op: ConvOp) -> Value:
    """Return the filters of each panel, dims (height, width, C, filters).

    Those that are filled up are zeros.  They are transposed as matrices, for which the compiler has
    vector code: 0.3 to 0.9 ns of a core an element on Zen 3, 1.7 with all dims in one go.
    """
    channels, *size = w.shape[1:]
    last, positions = w.order == (0, 2, 3, 1), prod(size)
    rows = b.permute(w, (0, 2, 3, 1)) if last else w
    rows = b.pad(rows, (0,) * 4, (tiles.filters - filters, 0, 0, 0))
    count = tiles.filters // tiles.panel
    rows = b.reshape(rows, (count, tiles.panel, channels * positions))
    panels = b.materialise(b.permute(rows, (0, 2, 1)))
    if last:
        panels = b.reshape(panels, (count, positions, channels, tiles.panel))
    else:
        panels = b.reshape(panels, (count, channels, positions, tiles.panel))
        panels = b.materialise(b.permute(panels, (0, 2, 1, 3)))
    if op.conv_mode is ConvMode.CONVOLUTION:  # reversed, in runs of a position
        turned = [b.slice(panels, 1, i, i + 1) for i in reversed(range(positions))]
        panels = b.concatenate(turned, 1)
    return b.reshape(panels, (count, *size, channels, tiles.panel))
