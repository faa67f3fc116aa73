# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Convolutions of each channel with a filter of its own, and their gradients, for the CPU.

IREE's code for the Torch dialect's grouped convolution, which is channels-first, is 6 to 15 times
slower than oneDNN's (W-026).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ....graph_api.dtypes import DataType
from ....graph_api.ops.conv_dgrad import ConvDgrad
from ....graph_api.ops.conv_fprop import ConvOp
from ....graph_api.ops.conv_wgrad import ConvWgrad
from ...emit.builder import Builder, Value
from ...emit.structured import depthwise
from ...emit.windows import Met, Strides, window_gradients, window_sums
from ...ops.blocking import divisors
from ...ops.convolution import MOST_POSITIONS
from ..sums import of_columns, of_terms
from .im2col_gemm import channels_second, seen
from .zeros import padded_last

__all__ = ["channels_last", "data_gradient", "shifted_sum", "weight_gradient"]

Ints = tuple[int, ...]

# The compiler fuses elementwise ops up to 16 operands in all (W-032), of which a term takes two.
_FUSED_TERMS = 7
# Each element of a run is a term of the code.
_SHORTEST_RUN, _LONGEST_RUN = 8, 32


def channels_last(b: Builder, x: Value, w: Value, op: ConvOp, accumulate: DataType) -> Value:
    """Return the convolution as a sum of products for each element of a channels-last result."""
    if prod(w.shape[2:]) > MOST_POSITIONS:
        return _large(b, x, w, op, accumulate)
    extents = op.output_extents(x.shape[2:], w.shape[2:])
    windows = [
        [Met(stride, at * dilation - pad, 1, at) for at in range(size)]
        for size, stride, dilation, pad in zip(
            w.shape[2:], op.stride, op.dilation, op.pre_padding, strict=True
        )
    ]
    return _window_sums(b, x, w, extents, windows, accumulate)


def _large(b: Builder, x: Value, w: Value, op: ConvOp, accumulate: DataType) -> Value:
    """Return the same by linalg's op, of filters whose positions are too many for one sum.

    The filters are copied: a transpose that is folded into the op makes scalar code (128x56x56,
    3x3: 2.2 ms of CPU time instead of 0.15).
    """
    activation = padded_last(b, b.convert(x, accumulate), op.pre_padding, op.post_padding)
    y = depthwise(b, activation, _filters(b, w, accumulate), op.stride, op.dilation)
    return channels_second(b, y, y.shape)


def data_gradient(b: Builder, dy: Value, w: Value, op: ConvDgrad, accumulate: DataType) -> Value:
    """Return dx of filters that are not dilated: each element of it meets some of dy's.

    Element i meets ``dy[(i + padding - k) / stride]`` with the filter positions k that leave no
    remainder, which are every ``stride``-th.
    """
    windows = [
        [Met(1, pad - first, stride, first) for first in range(0, size, stride)]
        for size, stride, pad in zip(w.shape[2:], op.stride, op.pre_padding, strict=True)
    ]
    return _window_sums(b, dy, w, op.dx_dims[2:], windows, accumulate)


def _window_sums(
    b: Builder,
    x: Value,
    w: Value,
    extents: Ints,
    windows: Sequence[Sequence[Met]],
    accumulate: DataType,
) -> Value:
    """Return them, (N, C, extents...); x is converted where it is read."""
    image = b.permute(x, (0, *range(2, x.rank), 1))
    y = window_sums(b, image, _filters(b, w, accumulate), extents, windows)
    return channels_second(b, y, y.shape)


def _filters(b: Builder, w: Value, accumulate: DataType) -> Value:
    """Return the filters, (positions..., channels)."""
    filters = b.permute(b.convert(w, accumulate), (*range(2, w.rank), 0, 1))
    return b.materialise(b.reshape(filters, (*w.shape[2:], w.shape[0])))


def weight_gradient(b: Builder, x: Value, dy: Value, op: ConvWgrad, accumulate: DataType) -> Value:
    """Return dw: sums of runs of dy's rows, and the sums of these.

    x is converted where it is read, dy before: each of its elements meets more of x's.
    """
    channels, size = dy.shape[1], op.dw_dims[2:]
    dims = [
        Strides(*each) for each in zip(size, op.stride, op.dilation, op.pre_padding, strict=True)
    ]
    image, gradient = (b.permute(v, (0, *range(2, v.rank), 1)) for v in (x, dy))
    gradient = b.convert(gradient, accumulate)
    parts = window_gradients(b, image, gradient, dims, _run(dy.shape[-1]), accumulate)
    columns = prod(size) * channels
    sums = of_columns(b, b.reshape(parts, (prod(parts.shape) // columns, columns)))
    return b.reshape(b.permute(b.reshape(sums, (prod(size), channels)), (1, 0)), op.dw_dims)


def _run(columns: int) -> int:
    """Return how many elements of a row are added up at once."""
    if columns <= _LONGEST_RUN:
        return columns
    whole = divisors(columns, _LONGEST_RUN)[-1]
    return whole if whole >= _SHORTEST_RUN else -(-columns // -(-columns // _LONGEST_RUN))


def shifted_sum(
    b: Builder, x: Value, w: Value, op: ConvOp, accumulate: DataType, *, last: bool = False
) -> Value:
    """Return the convolution as a sum over the filter positions.

    Each term is the padded input, shifted, times one number per channel; the compiler fuses the
    sum into one vectorised loop.  It runs along channels where those of a position are side by
    side (``last``), or where a stride would pull the elements of a row apart (128x56x56, 3x3: 0.15
    ms instead of 0.62 with strides of 2).
    """
    channels, rank = w.shape[0], w.rank - 2
    extents = op.output_extents(x.shape[2:], w.shape[2:])
    along = last or max(op.stride) > 1
    x, w = b.convert(x, accumulate), b.convert(w, accumulate)
    around: tuple[tuple[int, ...], tuple[int, ...]] = (op.pre_padding, op.post_padding)
    if along:
        # Filters too, so that those of neighbouring channels are neighbours.
        x = b.permute(x, (0, *range(2, x.rank), 1))
        w = b.permute(w, (*range(2, w.rank), 0, 1))
        around = ((*op.pre_padding, 0), (*op.post_padding, 0))
    # In the order of the loop: an input that is permuted after its padding is copied twice.
    x = b.pad(x, *around)
    terms = []
    for position in np.ndindex(*(w.shape[:rank] if along else w.shape[2:])):
        activation, weight = x, w
        for i, at in enumerate(position):
            axis = i + (1 if along else 2)
            activation = seen(b, activation, axis, at, extents[i], op.stride[i], op.dilation[i])
            weight = b.slice(weight, i if along else i + 2, at, at + 1)
        ones = (1,) * rank
        weight = b.reshape(weight, (1, *ones, channels) if along else (1, channels, *ones))
        terms.append(b.mul(activation, weight))
    # Of one long sum single multiplications are left over as separate loops (128x56x56,
    # 3x3, channels-last: 0.42 ms of CPU time, of partial sums 0.16).
    total = of_terms(b, terms, _FUSED_TERMS)
    return b.permute(total, (0, rank + 1, *range(1, rank + 1))) if along else total
