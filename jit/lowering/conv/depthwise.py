# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Forward convolutions of each channel with a filter of its own, for the CPU.

IREE's code for the Torch dialect's grouped convolution, which is channels-first, is 6 to 15 times
slower than oneDNN's (W-026).
"""

from __future__ import annotations

import numpy as np

from ....graph_api.dtypes import DataType
from ....graph_api.ops.conv_fprop import ConvOp
from ...emit.builder import Builder, Value
from ...emit.structured import depthwise
from ..sums import of_terms
from .im2col_gemm import seen
from .zeros import padded_last

__all__ = ["channels_last", "shifted_sum"]

# The compiler fuses elementwise ops up to 16 operands in all (W-032), of which a term takes two.
_FUSED_TERMS = 7


def channels_last(b: Builder, x: Value, w: Value, op: ConvOp, accumulate: DataType) -> Value:
    """Return the convolution by linalg's op for channels-last inputs.

    The filters are copied: a transpose that is folded into the op makes scalar code (128x56x56,
    3x3: 2.2 ms of CPU time instead of 0.15).
    """
    rank = x.rank - 2
    activation = padded_last(b, b.convert(x, accumulate), op.pre_padding, op.post_padding)
    filters = b.permute(b.convert(w, accumulate), (*range(2, w.rank), 0, 1))
    filters = b.materialise(b.reshape(filters, (*w.shape[2:], w.shape[0])))
    y = depthwise(b, activation, filters, op.stride, op.dilation)
    return b.permute(y, (0, rank + 1, *range(1, rank + 1)))


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
