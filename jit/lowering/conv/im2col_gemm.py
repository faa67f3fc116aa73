"""Forward convolutions of one group as matrix products, for the CPU.

IREE's code for convolutions there reaches half of what its data-tiled matrix products do, a sixth
with steps.  Images are taken channels-last, so that the channels of joined taps lie side by side;
memory order is only a transpose, which the compiler folds into the first copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod

from ....graph_api.dtypes import DataType
from ....graph_api.ops.conv_fprop import ConvOp
from ...emit.builder import Builder, T, Value

__all__ = ["PRODUCTS", "gathered", "seen", "shifted", "winograd"]

Ints = Sequence[int]
Form = Callable[[Builder, Value, Value, ConvOp, DataType], Value]

# Images are computed one by one when the joined taps of all are larger than this: then those of
# one are still in the cache when they are multiplied (8x64x56x56, 3x3: 12.2 ms instead of 14.9).
_CACHE = 4 << 20


def seen(b: Builder, x: Value, axis: int, tap: int, count: int, step: int, dilation: int) -> Value:
    """Return what one tap meets along an axis, at each of ``count`` positions."""
    start = tap * dilation
    return b.slice(x, axis, start, start + (count - 1) * step + 1, step)


def shifted(b: Builder, x: Value, w: Value, op: ConvOp, accumulate: DataType) -> Value:
    """Return the convolution as a sum over the taps of the last dim.

    The taps of the other dims are joined as channels.  One product of all positions, also those
    of the last dim's padding, gives a column per filter and tap of the last dim; each tap's
    columns are shifted by its place and added, in a loop that what follows is fused with.
    """
    n, filters = x.shape[0], w.shape[0]
    extents, taps = op.output_extents(x.shape[2:], w.shape[2:]), w.shape[2:]
    joined = _joined(b, x, w, op, range(len(taps) - 1))
    rows, depth = joined.shape[:-1], joined.shape[-1]
    # (taps of the other dims, last first..., channels) as joined, then (last dim's taps, filters).
    weights = b.permute(w, (*reversed(range(2, w.rank - 1)), 1, w.rank - 1, 0))
    weights = b.reshape(weights, (depth, taps[-1] * filters))
    columns = _product(b, b.reshape(joined, (prod(rows), depth)), weights, accumulate)
    columns = b.reshape(columns, (*rows, taps[-1] * filters))
    total: Value | None = None
    for tap in range(taps[-1]):
        part = b.slice(columns, columns.rank - 1, tap * filters, (tap + 1) * filters)
        last = len(taps)
        part = seen(b, part, last, tap, extents[-1], op.stride[-1], op.dilation[-1])
        total = part if total is None else b.add(total, part)
    assert total is not None
    return _channels_second(b, total, (n, *extents, filters))


def gathered(b: Builder, x: Value, w: Value, op: ConvOp, accumulate: DataType) -> Value:
    """Return the convolution as one product of all patches with the filter.

    Patches are gathered dim by dim: few copies, of long runs (49 taps take 14).
    """
    n, filters = x.shape[0], w.shape[0]
    extents = op.output_extents(x.shape[2:], w.shape[2:])
    joined = _joined(b, x, w, op, range(len(extents)))
    depth = joined.shape[-1]
    weights = b.permute(w, (*reversed(range(2, w.rank)), 1, 0))
    weights = b.reshape(weights, (depth, filters))
    rows = b.reshape(joined, (n * prod(extents), depth))
    y = _product(b, rows, weights, accumulate)
    return _channels_second(b, y, (n, *extents, filters))


def _joined(b: Builder, x: Value, w: Value, op: ConvOp, dims: Sequence[int]) -> Value:
    """Return the padded image, channels-last, with the taps of some dims joined as channels."""
    extents = op.output_extents(x.shape[2:], w.shape[2:])
    padded = b.pad(x, op.pre_padding, op.post_padding)
    image = b.permute(padded, (0, *range(2, x.rank), 1))
    for i in dims:
        parts = [
            seen(b, image, 1 + i, tap, extents[i], op.stride[i], op.dilation[i])
            for tap in range(w.shape[2 + i])
        ]
        image = b.concatenate(parts, image.rank - 1)
    return image


def _channels_second(b: Builder, y: Value, shape: Ints) -> Value:
    y = b.reshape(y, shape)
    return b.permute(y, (0, y.rank - 1, *range(1, y.rank - 1)))


def _product(b: Builder, left: Value, right: Value, dtype: DataType) -> Value:
    return b.call(T.AtenMmOp, (left.shape[0], right.shape[1]), dtype, left, right)


# ---------------------------------------------------------------------------- Winograd

# F(2, 3) of Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2015): two
# results of three taps by four products.  With d the four inputs and g the taps the factors are
# (d0 - d2, d1 + d2, d2 - d1, d1 - d3) and (g0, (g0 + g1 + g2)/2, (g0 - g1 + g2)/2, g2), and the
# results m0 + m1 + m2 and m1 - m2 - m3.


def winograd(b: Builder, x: Value, w: Value, op: ConvOp, accumulate: DataType) -> Value:
    """Return a 3x3 convolution as 16 products of transformed tiles, F(2x2, 3x3)."""
    (n, channels), filters = x.shape[:2], w.shape[0]
    extents = op.output_extents(x.shape[2:], w.shape[2:])
    tiles = [(e + 1) // 2 for e in extents]
    x, w = b.convert(x, accumulate), b.convert(w, accumulate)
    after = [
        2 * t + 2 - size - pre
        for t, size, pre in zip(tiles, x.shape[2:], op.pre_padding, strict=True)
    ]
    image = b.permute(b.pad(x, op.pre_padding, after), (0, 2, 3, 1))
    rows, depth = n * prod(tiles), (n * prod(tiles), channels)
    left = _transformed(image, (1, 2), lambda v, axis: _image_factors(b, v, axis, tiles[axis - 1]))
    right = _transformed(w, (2, 3), partial(_filter_factors, b))
    many = b.concatenate([b.reshape(v, (1, *depth)) for v in left], 0)
    turned = [b.permute(b.reshape(v, (1, filters, channels)), (0, 2, 1)) for v in right]
    products = b.call(T.AtenBmmOp, (16, rows, filters), accumulate, many, b.concatenate(turned, 0))
    each = [b.reshape(b.slice(products, 0, i, i + 1), (n, *tiles, filters)) for i in range(16)]
    columns = [_results(b, each[j::4]) for j in range(4)]
    lines = []
    for row in range(2):
        pair = _results(b, [column[row] for column in columns])
        wide = [b.reshape(v, (n, *tiles, 1, filters)) for v in pair]
        lines.append(b.reshape(b.concatenate(wide, 3), (n, tiles[0], 1, 2 * tiles[1], filters)))
    y = b.reshape(b.concatenate(lines, 2), (n, 2 * tiles[0], 2 * tiles[1], filters))
    for i, extent in enumerate(extents):
        y = b.slice(y, 1 + i, 0, extent)
    return _channels_second(b, y, y.shape)


def _transformed(
    v: Value, axes: tuple[int, int], factors: Callable[[Value, int], list[Value]]
) -> list[Value]:
    first, second = axes
    return [inner for outer in factors(v, first) for inner in factors(outer, second)]


def _image_factors(b: Builder, v: Value, axis: int, tiles: int) -> list[Value]:
    d = [b.slice(v, axis, i, i + 2 * (tiles - 1) + 1, 2) for i in range(4)]
    return [b.sub(d[0], d[2]), b.add(d[1], d[2]), b.sub(d[2], d[1]), b.sub(d[1], d[3])]


def _filter_factors(b: Builder, v: Value, axis: int) -> list[Value]:
    g = [b.slice(v, axis, i, i + 1) for i in range(3)]
    outer, inner = b.scale(b.add(g[0], g[2]), 0.5), b.scale(g[1], 0.5)
    return [g[0], b.add(outer, inner), b.sub(outer, inner), g[2]]


def _results(b: Builder, m: Sequence[Value]) -> tuple[Value, Value]:
    both = b.sub(m[1], m[2])
    return b.add(m[0], b.add(m[1], m[2])), b.sub(both, m[3])


# ---------------------------------------------------------------------------- images one by one


def _by_image(
    form: Form, b: Builder, x: Value, w: Value, op: ConvOp, accumulate: DataType
) -> Value:
    """Return the convolution of all images, one by one where that keeps them in the cache."""
    positions = prod(op.output_extents(x.shape[2:], w.shape[2:]))
    needed = x.shape[0] * x.shape[1] * prod(w.shape[2:]) * positions * accumulate.bits // 8
    if needed <= _CACHE or positions * w.shape[0] * prod(w.shape[1:]) < 1 << 22:
        return form(b, x, w, op, accumulate)
    parts = [form(b, b.slice(x, 0, i, i + 1), w, op, accumulate) for i in range(x.shape[0])]
    return b.concatenate(parts, 0)


PRODUCTS: dict[str, Form] = {
    name: partial(_by_image, form)
    for name, form in {"shifted": shifted, "gathered": gathered, "winograd": winograd}.items()
}
"""What emits each of these forms."""
