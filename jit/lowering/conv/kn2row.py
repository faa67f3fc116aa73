# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Forward convolutions as one matmul whose results are shifted and summed, for the CPU.

After Vasudevan, Anderson and Gregg, "Parallel Multi Channel Convolution using General Matrix
Multiplication" (2017), who call it kn2row.  Where im2col copies each element of the input once for
each filter position, this has a result for each filter position.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ....graph_api.dtypes import DataType
from ....graph_api.enums import ConvMode
from ....graph_api.ops.conv_fprop import ConvOp
from ...emit.blocked import blocked_matmul
from ...emit.builder import Builder, Value
from ...ops.blocking import blocking
from ..sums import of_terms
from .im2col_gemm import channels_second, seen

__all__ = ["kn2row"]

# The compiler fuses elementwise ops up to 16 operands in all (W-032); a sum of sums is the others.
_FUSED_TERMS = 14


def kn2row(
    b: Builder, x: Value, w: Value, op: ConvOp, accumulate: DataType, *, last: bool
) -> Value:
    """Return the convolution as a sum of products of the whole input with each filter position.

    One matmul gives all products.  Those of a position are shifted by its index and added, in a
    loop that what follows is fused with.

    Parameters
    ----------
    b : Builder
    x, w : Value
        Dims (N, C, positions...) and (filters, C, filter size...).
    op : ConvOp
    accumulate : DataType
        Float32, which both are converted to.
    last : bool
        Whether x is laid out channels-last.

    Returns
    -------
    Value
        Dims (N, filters, positions...).
    """
    x, w = (b.convert(v, accumulate) for v in (x, w))
    n, filters, size = x.shape[0], w.shape[0], w.shape[2:]
    extents = op.output_extents(x.shape[2:], size)
    products, spatial, axis = (_columns if last else _planes)(b, x, w, op)
    terms = []
    for i, position in enumerate(np.ndindex(*size)):
        term = b.slice(products, axis, i, i + 1)
        for d, at in enumerate(position):
            # The products of a reversed filter meet the input in reverse.
            met = size[d] - 1 - at if op.conv_mode is ConvMode.CONVOLUTION else at
            term = seen(b, term, spatial + d, met, extents[d], op.stride[d], op.dilation[d])
        terms.append(term)
    total = of_terms(b, terms, _FUSED_TERMS)
    if last:
        return channels_second(b, total, (n, *extents, filters))
    return b.reshape(total, (n, filters, *extents))


# Padding is added to the products, as those of zeros need not be multiplied (4x20x14x9, 10 filters
# of 7x7 with a padding of 3, channels-last, Zen 3: 0.40 ms; 1.42 with padded inputs).


def _columns(b: Builder, x: Value, w: Value, op: ConvOp) -> tuple[Value, int, int]:
    """Return products (N, positions..., filter positions, filters), and the axes of both positions.

    They are padded as the input is.
    """
    n, channels, *extents = x.shape
    rows = b.reshape(b.permute(x, (0, *range(2, x.rank), 1)), (1, n * prod(extents), channels))
    weights = _weights(b, w)
    blocks = blocking(b.target, rows.shape[1], weights.shape[1], channels)
    products = blocked_matmul(b, rows, weights, blocks, columns=True)
    products = b.reshape(products, (n, *extents, prod(w.shape[2:]), w.shape[0]))
    before, after = ((*side, 0, 0) for side in (op.pre_padding, op.post_padding))
    return b.pad(products, before, after), 1, products.rank - 2


def _planes(b: Builder, x: Value, w: Value, op: ConvOp) -> tuple[Value, int, int]:
    """Return products (N, filter positions, filters, positions...), and these axes."""
    n, channels, *extents = x.shape
    weights, columns = _weights(b, w), b.reshape(x, (n, channels, prod(extents)))
    blocks = blocking(b.target, weights.shape[1], columns.shape[2], channels)
    products = blocked_matmul(b, weights, columns, blocks)
    products = b.reshape(products, (n, prod(w.shape[2:]), w.shape[0], *extents))
    return b.pad(products, op.pre_padding, op.post_padding), 3, 1


def _weights(b: Builder, w: Value) -> Value:
    """Return the filters as rows of channels, those of a position side by side."""
    order = (*range(2, w.rank), 0, 1)
    return b.reshape(b.permute(w, order), (1, w.shape[0] * prod(w.shape[2:]), w.shape[1]))
