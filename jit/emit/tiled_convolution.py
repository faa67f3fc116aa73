# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Convolutions of channels-last images as one op of MLIR's linalg dialect, with our own tiles.

IREE cuts a 2-D convolution into 1-D ones, for which it has vector code that reads the input as it
lies.  With its own tiles a multiply-add takes 0.09 ns on Zen 3, with ours 0.025.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from operator import mul

from torch_mlir import ir

from ..ops.group_tiles import spatial_loops
from .builder import Builder, Value
from .structured import barrier, from_builtin, opaque, sliced, to_builtin
from .tiled_sum import contraction

__all__ = ["grouped_convolution", "tiled_convolution"]

_LOOPS = "nhwfijc"


def tiled_convolution(
    b: Builder,
    x: Value,
    w: Value,
    extents: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    tiles: Mapping[str, Mapping[str, int]],
) -> Value:
    """Return the convolution without padding.

    Parameters
    ----------
    x : Value
        Input, dims (N, H, W, C).  No dim of it, of the filters and of the result is 1.
    w : Value
        Filters, dims (filter height, filter width, C, filters), of x's floating type.
    extents : sequence of int
        Rows and columns of the result; the input may have more than they meet.
    stride, dilation : sequence of int
        Of both spatial dims.
    tiles : mapping
        Tile sizes of the loops n, h, w, f (of the result), i, j, c (filter positions and channels)
        for each level of IREE's ``lowering_config``.  They divide these dims.

    Returns
    -------
    Value
        Dims (N, positions..., filters).
    """
    shape = (x.shape[0], *extents, w.shape[-1])
    assert min(*shape, *x.shape, *w.shape) > 1  # such dims are dropped, and the tiles with them
    (s, t), (d, e) = stride, dilation
    maps = (f"n, h * {s} + i * {d}, w * {t} + j * {e}, c", "i, j, c, f", "n, h, w, f")
    given = [barrier(to_builtin(v), "start") for v in (x, w)]
    pipeline = "ConvTileAndDecomposeExpert"
    total = contraction(given, shape, _LOOPS, maps, tiles, pipeline=pipeline)
    return from_builtin(b, barrier(total, "end"), shape, x.dtype)


def grouped_convolution(
    b: Builder,
    x: Value,
    w: Value,
    extents: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    tiles: Mapping[str, Mapping[str, int]],
    *,
    reverse: bool = False,
) -> Value:
    """Return the convolution of several groups without padding.

    The image is read once for each position of the filter, from another start, and multiplied by
    the number there of several filters.

    Parameters
    ----------
    x : Value
        Input, dims (N, spatial..., groups, C).
    w : Value
        Filters, dims (groups, C, spatial..., filters), of x's floating type.
    extents : sequence of int
        Spatial dims of the result; the input may have more than they meet.
    stride, dilation : sequence of int
        Of all spatial dims.
    tiles : mapping
        Tile sizes of the loops n, those of `spatial_loops`, g, f (of the result) and c (channels)
        for each level of IREE's ``lowering_config``.
    reverse : bool
        Whether the filter is read in reverse along all spatial dims.

    Returns
    -------
    Value
        Dims (N, positions..., groups, filters).
    """
    size, spatial = w.shape[2:-1], spatial_loops(len(extents))
    # Equal numbers are one argument of the kernel: it takes few.
    starts: dict[int, ir.Value] = {}
    image, filters = (barrier(to_builtin(v), "start") for v in (x, w))
    seen = (x.shape[0], *extents, *x.shape[-2:])
    steps = dict(enumerate(stride, 1))
    images, positions = [], []
    for position in product(*map(range, size)):
        at = [n - 1 - i if reverse else i for i, n in zip(position, size, strict=True)]
        there = [*map(mul, position, dilation)]
        starts |= {n: opaque(n) for n in {*there, *at} - starts.keys()}
        met = {i: starts[n] for i, n in enumerate(there, 1)}
        images.append(sliced(image, met, seen, steps))
        part = (*w.shape[:2], *(1 for _ in size), w.shape[-1])
        positions.append(sliced(filters, {i: starts[n] for i, n in enumerate(at, 2)}, part))
    shape = (x.shape[0], *extents, x.shape[-2], w.shape[-1])
    # The compiler drops loops of one element, and would take the tiles for those of other loops.
    result = dict(zip(f"n{spatial}gf", shape, strict=True))
    loops = "".join(d for d, n in [*result.items(), ("c", x.shape[-1])] if n > 1)
    maps = [", ".join(d for d in dims if d in loops) for dims in (f"n{spatial}gc", "gcf", result)]
    kept = [n for n in shape if n > 1]
    total = contraction([*images, *positions], kept, loops, maps, tiles)
    return b.reshape(from_builtin(b, barrier(total, "end"), tuple(kept), x.dtype), shape)
