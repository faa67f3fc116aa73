# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Data gradient by a transposed convolution: for gfx9 with strides, the fewest dispatches."""

from __future__ import annotations

from ....graph_api.dtypes import DataType
from ....graph_api.ops.conv_dgrad import ConvDgrad
from ...emit.builder import Builder, T, Value

__all__ = ["transposed"]


def transposed(b: Builder, dy: Value, w: Value, op: ConvDgrad, accumulate: DataType) -> Value:
    """Return dx; the filter is in the order of cross-correlation.

    Torch pads both sides alike and takes padding off at both ends; what is then missing at the
    end (of the result) is output padding, what is too much is cut off.
    """
    extra, extents = [], []
    for n, o, k, s, d, pre in zip(
        op.dx_dims[2:],
        dy.shape[2:],
        w.shape[2:],
        op.stride,
        op.dilation,
        op.pre_padding,
        strict=True,
    ):
        reach = (o - 1) * s + d * (k - 1) + 1 - 2 * pre
        extra.append(max(n - reach, 0))
        extents.append(reach + extra[-1])
    dx = b.call(
        T.AtenConvolutionOp,
        (*op.dx_dims[:2], *extents),
        accumulate,
        dy,
        w,
        None,
        list(op.stride),
        list(op.pre_padding),
        list(op.dilation),
        True,
        extra,
        1,
    )
    for axis, n in enumerate(op.dx_dims[2:], 2):
        dx = b.slice(dx, axis, 0, n)
    return dx
