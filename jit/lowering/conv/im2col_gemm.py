# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Forward convolutions of one group as matmuls, for the CPU.

IREE's code for convolutions there reaches half of what its data-tiled matmuls do, a sixth with
strides.  Inputs are taken channels-last, so that the channels of concatenated filter positions are
side by side; memory order is only a transpose, which the compiler folds into the first copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod

from ....graph_api.dtypes import DataType
from ....graph_api.enums import ConvMode
from ....graph_api.ops.conv_fprop import ConvOp
from ...emit.blocked import blocked_matmul
from ...emit.builder import Builder, T, Value
from ...ops.blocking import blocking
from ...ops.conv_cost import samples_side_by_side
from ..batched_matmul import batched_matmul, unmixed
from .zeros import padded_last

__all__ = [
    "GEMM",
    "blocked",
    "blocked_groups",
    "by_sample",
    "channels_second",
    "concatenated",
    "im2col_gemm",
    "row_im2col",
    "row_im2col_of_groups",
    "samples_inside",
    "seen",
    "stacked",
    "winograd",
]

Ints = tuple[int, ...]
Strategy = Callable[[Builder, Value, Value, ConvOp, DataType], Value]

# Samples are computed one by one when the patches of all are larger than this: then those of one
# are still in the cache when they are multiplied (8x64x56x56, 3x3: 12.2 ms instead of 14.9).
_CACHE = 4 << 20


def seen(b: Builder, x: Value, axis: int, at: int, count: int, stride: int, dilation: int) -> Value:
    """Return what one filter position meets along an axis, for each of ``count`` results."""
    start = at * dilation
    return b.slice(x, axis, start, start + (count - 1) * stride + 1, stride)


def _reverses(op: ConvOp) -> bool:
    return op.conv_mode is ConvMode.CONVOLUTION


def _positions(size: int, *, reverse: bool) -> Sequence[int]:
    """Return where along a dim the filter's positions lie, in their order in the filter."""
    return range(size)[::-1] if reverse else range(size)


def row_im2col(b: Builder, x: Value, w: Value, op: ConvOp, accumulate: DataType) -> Value:
    """Return the convolution as a sum over the filter positions of the last dim.

    Those of the other dims are concatenated as channels.  One matmul of all positions, also those
    of the last dim's padding, gives a column per filter and position of the last dim; the columns
    of a position are shifted by its index and added, in a loop that what follows is fused with.
    """
    n, filters = x.shape[0], w.shape[0]
    extents, size = op.output_extents(x.shape[2:], w.shape[2:]), w.shape[2:]
    patches = concatenated(b, x, w.shape[2:], op, range(len(size) - 1), reverse=_reverses(op))
    rows, depth = patches.shape[:-1], patches.shape[-1]
    # (positions of the other dims, last first..., channels), then (last dim's positions, filters).
    weights = b.permute(w, (*reversed(range(2, w.rank - 1)), 1, w.rank - 1, 0))
    weights = b.reshape(weights, (depth, size[-1] * filters))
    columns = _matmul(b, b.reshape(patches, (prod(rows), depth)), weights, accumulate)
    columns = b.reshape(columns, (*rows, size[-1] * filters))
    return channels_second(
        b, _shifted_columns(b, columns, op, extents[-1], size[-1]), (n, *extents, filters)
    )


def row_im2col_of_groups(b: Builder, x: Value, w: Value, op: ConvOp, accumulate: DataType) -> Value:
    """Return the convolution of several groups as `row_im2col`, with a batch of matmuls.

    The channels of a group are copied side by side first, as samples of their own.
    """
    n, (filters, channels), size = x.shape[0], w.shape[:2], w.shape[2:]
    groups, extents = x.shape[1] // channels, op.output_extents(x.shape[2:], size)
    each, spatial = filters // groups, range(3, x.rank + 1)
    x = b.permute(b.reshape(x, (n, groups, channels, *x.shape[2:])), (1, 0, 2, *spatial))
    x = b.reshape(x, (groups * n, channels, *x.shape[3:]))
    patches = concatenated(b, x, size, op, range(len(size) - 1), reverse=_reverses(op))
    rows, depth = patches.shape[:-1], patches.shape[-1]
    weights = b.reshape(w, (groups, each, *w.shape[1:]))
    order = (0, *reversed(range(3, w.rank)), 2, w.rank, 1)
    weights = b.reshape(b.permute(weights, order), (groups, depth, size[-1] * each))
    patches = unmixed(b, b.reshape(patches, (groups, prod(rows) // groups, depth)))
    columns = b.reshape(batched_matmul(b, patches, weights, accumulate), (*rows, size[-1] * each))
    total = _shifted_columns(b, columns, op, extents[-1], size[-1])
    y = b.reshape(total, (groups, n, *extents, each))
    y = b.permute(y, (1, 0, y.rank - 1, *range(2, y.rank - 1)))
    return b.reshape(y, (n, filters, *extents))


def _shifted_columns(b: Builder, columns: Value, op: ConvOp, extent: int, size: int) -> Value:
    """Return the sum of the columns of all positions of the last dim, each shifted by its index."""
    last, filters = columns.rank - 2, columns.shape[-1] // size
    total: Value | None = None
    for i, at in enumerate(_positions(size, reverse=_reverses(op))):
        part = b.slice(columns, columns.rank - 1, i * filters, (i + 1) * filters)
        part = seen(b, part, last, at, extent, op.stride[-1], op.dilation[-1])
        total = part if total is None else b.add(total, part)
    assert total is not None
    return total


def im2col_gemm(b: Builder, x: Value, w: Value, op: ConvOp, accumulate: DataType) -> Value:
    """Return the convolution as one matmul of all patches with the filter.

    Patches are gathered dim by dim: few copies, of long runs (49 positions take 14).  Those of one
    position are the input itself, which stays as it is: gathered and transposed in one loop it
    is packed element by element (64 to 128 channels, 56x56, stride 2: 1.97 ms of CPU time, now
    0.20; batch of 8: 15.2 and 2.2).
    """
    n, filters = x.shape[0], w.shape[0]
    extents = op.output_extents(x.shape[2:], w.shape[2:])
    if prod(w.shape[2:]) == 1:
        x = b.pad(x, op.pre_padding, op.post_padding)
        for i, extent in enumerate(extents):
            x = seen(b, x, 2 + i, 0, extent, op.stride[i], 1)
        if n > 1 and samples_side_by_side(b.target, filters, x.shape[1]):
            return _of_all_samples(b, x, w, accumulate)
        columns = b.reshape(x, (n, x.shape[1], prod(extents)))
        weights = b.expand(b.reshape(w, (1, filters, x.shape[1])), (n, filters, x.shape[1]))
        y = batched_matmul(b, weights, columns, accumulate)
        return b.reshape(y, (n, filters, *extents))
    patches = concatenated(b, x, w.shape[2:], op, range(len(extents)), reverse=_reverses(op))
    depth = patches.shape[-1]
    weights = b.permute(w, (*reversed(range(2, w.rank)), 1, 0))
    weights = b.reshape(weights, (depth, filters))
    rows = b.reshape(patches, (n * prod(extents), depth))
    y = _matmul(b, rows, weights, accumulate)
    return channels_second(b, y, (n, *extents, filters))


def blocked(
    b: Builder, x: Value, w: Value, op: ConvOp, accumulate: DataType, *, last: bool = False
) -> Value:
    """Return the convolution as matmuls in blocks of our own choice (`blocked_matmul`).

    Channels-first: of the filters, as they lie, with the patches of each sample, packed; the
    result needs no transpose.  ``last``, channels-last: of all patches with the filters, packed.
    """
    n, filters = x.shape[0], w.shape[0]
    extents = op.output_extents(x.shape[2:], w.shape[2:])
    places, depth = prod(extents), prod(w.shape[1:])
    if last:
        # Filters that are channels-last too are in this order in memory.
        dims = range(len(extents))[::-1]
        patches = concatenated(b, x, w.shape[2:], op, dims, reverse=_reverses(op))
        rows = b.reshape(patches, (1, n * places, depth))
        weights = b.reshape(b.permute(w, (0, *range(2, w.rank), 1)), (1, filters, depth))
        blocks = blocking(b.target, n * places, filters, depth)
        y = blocked_matmul(b, rows, weights, blocks, columns=True)
        return channels_second(b, y, (n, *extents, filters))
    patches = stacked(b, x, w.shape[2:], op, reverse=_reverses(op))
    columns = b.reshape(patches, (n, depth, places))
    weights = b.reshape(w, (1, filters, depth))
    y = blocked_matmul(b, weights, columns, blocking(b.target, filters, places, depth))
    return b.reshape(y, (n, filters, *extents))


def blocked_groups(b: Builder, x: Value, w: Value, op: ConvOp) -> Value:
    """Return a grouped convolution as a batch of matmuls, of each group's filters as they lie.

    The patches of all samples are side by side.
    """
    groups = x.shape[1] // w.shape[1]
    n, filters = x.shape[0], w.shape[0] // groups
    extents = op.output_extents(x.shape[2:], w.shape[2:])
    columns, depth = n * prod(extents), prod(w.shape[1:])
    patches = samples_inside(b, stacked(b, x, w.shape[2:], op, reverse=_reverses(op)), len(extents))
    right = b.reshape(patches, (groups, depth, columns))
    left = b.reshape(w, (groups, filters, depth))
    y = blocked_matmul(b, left, right, blocking(b.target, filters, columns, depth))
    y = b.reshape(y, (groups * filters, n, *extents))
    return b.permute(y, (1, 0, *range(2, y.rank)))


def samples_inside(b: Builder, patches: Value, rank: int) -> Value:
    """Return (N, C, filter size..., positions...) as (C, filter size..., N, positions...)."""
    first, *others = range(patches.rank)
    return b.permute(patches, (*others[:-rank], first, *others[-rank:]))


def stacked(b: Builder, x: Value, size: Ints, op: ConvOp, *, reverse: bool = False) -> Value:
    """Return the patches of the padded input, dims (N, C, filter size..., positions...).

    The last dim is first, so that the copies of the others are of long runs.  ``reverse``: for a
    filter whose positions are reversed.
    """
    rank = x.rank - 2
    extents = op.output_extents(x.shape[2:], size)
    patches = b.pad(x, op.pre_padding, op.post_padding)
    for i in reversed(range(rank)):
        axis = i - rank + patches.rank
        parts = [
            seen(b, patches, axis, at, extents[i], op.stride[i], op.dilation[i])
            for at in _positions(size[i], reverse=reverse)
        ]
        shape = (*parts[0].shape[:2], 1, *parts[0].shape[2:])
        patches = b.concatenate([b.reshape(v, shape) for v in parts], 2, stored=True)
    return patches


def _of_all_samples(b: Builder, x: Value, w: Value, accumulate: DataType) -> Value:
    """Return the convolution of filters of one position as one matmul whose operands are packed.

    Both changes of layout are copies by themselves: folded into the matmul, they give it two dims
    of columns, for which the compiler has no tiles.
    """
    (n, channels), filters, extents = x.shape[:2], w.shape[0], x.shape[2:]
    columns = b.materialise(b.permute(x, (1, 0, *range(2, x.rank))))
    columns = b.reshape(columns, (channels, n * prod(extents)))
    y = b.materialise(_matmul(b, b.reshape(w, (filters, channels)), columns, accumulate))
    return b.permute(b.reshape(y, (filters, n, *extents)), (1, 0, *range(2, x.rank)))


def concatenated(
    b: Builder, x: Value, size: Ints, op: ConvOp, dims: Sequence[int], *, reverse: bool = False
) -> Value:
    """Return the padded input, channels-last, with the positions of some dims as channels.

    ``reverse``: of a filter whose positions are reversed.
    """
    extents = op.output_extents(x.shape[2:], size)
    activation = padded_last(b, x, op.pre_padding, op.post_padding)
    for i in dims:
        parts = [
            seen(b, activation, 1 + i, at, extents[i], op.stride[i], op.dilation[i])
            for at in _positions(size[i], reverse=reverse)
        ]
        activation = b.concatenate(parts, activation.rank - 1, stored=True)
    return activation


def channels_second(b: Builder, y: Value, shape: Ints) -> Value:
    y = b.reshape(y, shape)
    return b.permute(y, (0, y.rank - 1, *range(1, y.rank - 1)))


def _matmul(b: Builder, left: Value, right: Value, dtype: DataType) -> Value:
    return b.call(T.AtenMmOp, (left.shape[0], right.shape[1]), dtype, left, right)


# ---------------------------------------------------------------------------- Winograd

# F(2, 3) of Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2015): two
# results of three filter positions by four multiplications.  With d the four inputs and g the
# filter the factors are (d0 - d2, d1 + d2, d2 - d1, d1 - d3) and
# (g0, (g0 + g1 + g2)/2, (g0 - g1 + g2)/2, g2), the results m0 + m1 + m2 and m1 - m2 - m3.


def winograd(b: Builder, x: Value, w: Value, op: ConvOp, accumulate: DataType) -> Value:
    """Return a 3x3 convolution as 16 matmuls of transformed tiles, F(2x2, 3x3)."""
    (n, channels), filters = x.shape[:2], w.shape[0]
    extents = op.output_extents(x.shape[2:], w.shape[2:])
    tiles = [(e + 1) // 2 for e in extents]
    x, w = b.convert(x, accumulate), b.convert(w, accumulate)
    after = [
        2 * t + 2 - size - pre
        for t, size, pre in zip(tiles, x.shape[2:], op.pre_padding, strict=True)
    ]
    activation = padded_last(b, x, op.pre_padding, after)
    rows, depth = n * prod(tiles), (n * prod(tiles), channels)
    left = _transformed(
        activation, (1, 2), lambda v, axis: _input_factors(b, v, axis, tiles[axis - 1])
    )
    right = _transformed(w, (2, 3), partial(_filter_factors, b))
    many = b.concatenate([b.reshape(v, (1, *depth)) for v in left], 0)
    turned = [b.permute(b.reshape(v, (1, filters, channels)), (0, 2, 1)) for v in right]
    matmuls = b.call(T.AtenBmmOp, (16, rows, filters), accumulate, many, b.concatenate(turned, 0))
    each = [b.reshape(b.slice(matmuls, 0, i, i + 1), (n, *tiles, filters)) for i in range(16)]
    columns = [_results(b, each[j::4]) for j in range(4)]
    lines = []
    for row in range(2):
        pair = _results(b, [column[row] for column in columns])
        wide = [b.reshape(v, (n, *tiles, 1, filters)) for v in pair]
        lines.append(b.reshape(b.concatenate(wide, 3), (n, tiles[0], 1, 2 * tiles[1], filters)))
    y = b.reshape(b.concatenate(lines, 2), (n, 2 * tiles[0], 2 * tiles[1], filters))
    for i, extent in enumerate(extents):
        y = b.slice(y, 1 + i, 0, extent)
    return channels_second(b, y, y.shape)


def _transformed(
    v: Value, axes: tuple[int, int], factors: Callable[[Value, int], list[Value]]
) -> list[Value]:
    first, second = axes
    return [inner for outer in factors(v, first) for inner in factors(outer, second)]


def _input_factors(b: Builder, v: Value, axis: int, tiles: int) -> list[Value]:
    d = [b.slice(v, axis, i, i + 2 * (tiles - 1) + 1, 2) for i in range(4)]
    return [b.sub(d[0], d[2]), b.add(d[1], d[2]), b.sub(d[2], d[1]), b.sub(d[1], d[3])]


def _filter_factors(b: Builder, v: Value, axis: int) -> list[Value]:
    g = [b.slice(v, axis, i, i + 1) for i in range(3)]
    outer, inner = b.scale(b.add(g[0], g[2]), 0.5), b.scale(g[1], 0.5)
    return [g[0], b.add(outer, inner), b.sub(outer, inner), g[2]]


def _results(b: Builder, m: Sequence[Value]) -> tuple[Value, Value]:
    both = b.sub(m[1], m[2])
    return b.add(m[0], b.add(m[1], m[2])), b.sub(both, m[3])


# ---------------------------------------------------------------------------- samples one by one


def by_sample(
    strategy: Strategy,
    b: Builder,
    x: Value,
    w: Value,
    op: ConvOp,
    accumulate: DataType,
    *,
    held: int = 0,
) -> Value:
    """Return the convolution of all samples, one by one where that keeps them in the cache.

    ``held``: elements that a sample is copied to; those of its patches if it is not given.
    """
    positions = prod(op.output_extents(x.shape[2:], w.shape[2:]))
    held = held or x.shape[1] * prod(w.shape[2:]) * positions
    single = prod(w.shape[2:]) == 1  # whose patches are not repeated
    small = x.shape[0] * held * accumulate.bits // 8 <= _CACHE
    if single or small or positions * w.shape[0] * prod(w.shape[1:]) < 1 << 22:
        return strategy(b, x, w, op, accumulate)
    parts = [strategy(b, b.slice(x, 0, i, i + 1), w, op, accumulate) for i in range(x.shape[0])]
    return b.concatenate(parts, 0)


GEMM: dict[str, Strategy] = {
    "row_im2col": partial(by_sample, row_im2col),
    "im2col_gemm": partial(by_sample, im2col_gemm),
    "winograd": partial(by_sample, winograd),
}
"""The function that emits each strategy."""
