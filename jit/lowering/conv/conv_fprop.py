# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Forward convolution: as ``torch.aten.convolution``, or as its strategy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import prod

from ....graph_api.dtypes import DataType
from ....graph_api.enums import ConvMode
from ....graph_api.frozen import FrozenNode
from ....graph_api.ops.conv_fprop import ConvFprop, ConvOp
from ...emit import layout
from ...emit.builder import Builder, T, Value
from ...ops.blocking import BLOCKED
from ...ops.conv_cost import KN2ROW, ROWS, WIDENING
from ...ops.conv_geometry import Convolution
from ...ops.convolution import CHANNELS_LAST, REVERSING, Forward, forward_strategy
from ...ops.direct_tiles import DIRECT_NHWC
from ..accumulate import copied, operands
from .depthwise import channels_last, shifted_sum
from .direct_nhwc import direct_nhwc, direct_nhwc_of_groups
from .im2col_gemm import GEMM, blocked, blocked_groups, by_sample, row_im2col_of_groups
from .kn2row import kn2row

__all__ = ["convolve", "doubled", "is_last", "lower", "padded"]


def lower(b: Builder, node: FrozenNode, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Emit y = conv(x, w)."""
    op, given = node.op, inputs["x"]
    assert isinstance(op, ConvFprop)
    if b.strategy == "plain":
        return {"y": _plain(b, node, op, inputs)}
    if b.avoids("W-053"):
        given = b.materialise(given)
    last, widen = is_last(given), b.avoids("W-013")
    if b.strategy in WIDENING and given.dtype is not node.compute_data_type:
        given = copied(b, given, node.compute_data_type)  # once, not for each filter position
    x, w, accumulate = operands(b, given, inputs["w"], node.compute_data_type, widen=widen)
    if b.avoids("W-010") or b.avoids("W-050"):
        w = b.materialise(w)
    if op.conv_mode is ConvMode.CONVOLUTION and b.strategy not in REVERSING:
        w, op = b.flip(w, range(2, w.rank)), replace(op, conv_mode=ConvMode.CROSS_CORRELATION)
    if b.node_plan.explicit_padding:
        x, w, op = padded(b, x, w, op)
    if b.avoids("W-059"):
        x, w = doubled(b, x, 1), doubled(b, w, 1)
    y = convolve(b, x, w, op, accumulate, strategy=b.strategy, last=last)
    if b.avoids("W-030"):
        y = b.reshape(b.materialise(b.reshape(y, y.shape[1:])), y.shape)
    return {"y": y}


def is_last(x: Value) -> bool:
    """Return whether an image is laid out channels-last, as is one of a single place."""
    return layout.channels_last(x) or set(x.shape[2:]) == {1}


def _plain(b: Builder, node: FrozenNode, op: ConvFprop, inputs: Mapping[str, Value]) -> Value:
    """Return the convolution as one op on the operands as they come."""
    x, w, accumulate = operands(b, inputs["x"], inputs["w"], node.compute_data_type)
    if op.conv_mode is ConvMode.CONVOLUTION:
        w = b.flip(w, range(2, w.rank))
    padding = list(op.pre_padding)
    if op.pre_padding != op.post_padding:
        x, padding = b.pad(x, op.pre_padding, op.post_padding, fused=True), [0] * len(padding)
    return _convolution(b, x, w, op, padding, accumulate)


def doubled(b: Builder, v: Value, axis: int) -> Value:
    """Return v with as many zeros behind it along an axis (W-059)."""
    return b.concatenate([v, b.literal(0, v.dtype, v.shape)], axis)


def padded(b: Builder, x: Value, w: Value, op: ConvOp) -> tuple[Value, Value, ConvOp]:
    """Return the input concatenated with its padding, the filter, and the op without any."""
    x, op = _read(b, x, w, op)
    none = (0,) * len(op.pre_padding)
    conv = Convolution(x.shape, w.shape, op)
    x = b.pad(x, op.pre_padding, op.post_padding)
    if b.strikes("W-123", conv):
        x, w = b.materialise(x), b.materialise(w)
    elif b.strikes("W-138", conv):
        x = b.materialise(x)
    return x, w, replace(op, pre_padding=none, post_padding=none)


def _read(b: Builder, x: Value, w: Value, op: ConvOp) -> tuple[Value, ConvOp]:
    """Return the input without what no window reads, along dims with one window.

    W-014, W-128, W-143; a filter of one position is compiled as it is (W-015).
    """
    pre, post = list(op.pre_padding), list(op.post_padding)
    stride, dilation = list(op.stride), list(op.dilation)
    for i, k in enumerate(w.shape[2:]):
        n, reach = x.shape[2 + i], dilation[i] * (k - 1) + 1
        dim = (n, k, stride[i], dilation[i], pre[i], post[i])
        if b.strikes("W-143", *dim):
            x = b.slice(x, 2 + i, 0, reach, dilation[i])
            stride[i] = dilation[i] = 1
        elif prod(w.shape[2:]) > 1 and b.strikes("W-128", *dim):
            x, stride[i] = b.slice(x, 2 + i, 0, 1), 1
        elif b.strikes("W-014", *dim):
            beyond = pre[i] + n + post[i] - reach
            x = b.slice(x, 2 + i, 0, min(reach - pre[i], n))
            post[i], stride[i] = max(post[i] - beyond, 0), 1
    found = replace(
        op,
        pre_padding=tuple(pre),
        post_padding=tuple(post),
        stride=tuple(stride),
        dilation=tuple(dilation),
    )
    return x, found


def convolve(
    b: Builder,
    x: Value,
    w: Value,
    op: ConvOp,
    accumulate: DataType,
    *,
    strategy: str = "",
    last: bool = False,
) -> Value:
    """Return the cross-correlation of logical x and w, accumulated in a type.

    ``last``: x is laid out channels-last.  Without a strategy the rules choose one.  Some
    strategies (`REVERSING`) reverse the filter if the op says so; for others it is reversed
    already.
    """
    if not strategy:
        conv = Forward(b.target, x.shape, w.shape, op, accumulate, x.dtype, last)
        strategy = forward_strategy(conv)
    if strategy == BLOCKED:
        x, w = (b.convert(v, accumulate) for v in (x, w))
        if x.shape[1] != w.shape[1]:
            return blocked_groups(b, x, w, op)
        return by_sample(partial(blocked, last=last), b, x, w, op, accumulate)
    if strategy == DIRECT_NHWC:
        of = direct_nhwc if x.shape[1] == w.shape[1] else direct_nhwc_of_groups
        return of(b, x, w, op, accumulate, last=last)
    if strategy == KN2ROW:
        products = w.shape[0] * prod((*w.shape[2:], *x.shape[2:]))
        return by_sample(partial(kn2row, last=last), b, x, w, op, accumulate, held=products)
    if strategy == ROWS and x.shape[1] != w.shape[1]:
        return row_im2col_of_groups(b, x, w, op, accumulate)
    if strategy in GEMM:
        return GEMM[strategy](b, x, w, op, accumulate)
    x, op = _read(b, x, w, op)
    if strategy == CHANNELS_LAST:
        return channels_last(b, x, w, op, accumulate)
    if strategy == "shifted_sum":
        return shifted_sum(b, x, w, op, accumulate, last=last)
    padding = list(op.pre_padding)
    single = prod(w.shape[2:]) == 1
    if op.pre_padding != op.post_padding or single:
        # Torch pads both sides alike, and a filter of one position becomes a matmul, into which
        # no padding is fused.
        x = b.pad(x, op.pre_padding, op.post_padding, fused=not single)
        padding = [0] * len(padding)
    if strategy == "per_group":
        return _per_group(b, x, w, op, padding, accumulate, last=last)
    return _convolution(b, x, w, op, padding, accumulate)


def _per_group(
    b: Builder,
    x: Value,
    w: Value,
    op: ConvOp,
    padding: list[int],
    accumulate: DataType,
    *,
    last: bool,
) -> Value:
    """Return a grouped convolution as one convolution per group, concatenated.

    On the CPU that is 10 to 40 times faster than the generic grouped convolution (W-026).
    """
    channels = w.shape[1]
    groups = x.shape[1] // channels
    filters = w.shape[0] // groups
    inner = replace(op, pre_padding=tuple(padding), post_padding=tuple(padding))
    parts = []
    for g in range(groups):
        given = b.slice(x, 1, g * channels, (g + 1) * channels)
        own = b.slice(w, 0, g * filters, (g + 1) * filters)
        parts.append(convolve(b, given, own, inner, accumulate, last=last))
    return b.concatenate(parts, 1, stored=True)


def _convolution(
    b: Builder, x: Value, w: Value, op: ConvOp, padding: list[int], accumulate: DataType
) -> Value:
    extents = [
        (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, k, p, s, d in zip(
            x.shape[2:], w.shape[2:], padding, op.stride, op.dilation, strict=True
        )
    ]
    return b.call(
        T.AtenConvolutionOp,
        (x.shape[0], w.shape[0], *extents),
        accumulate,
        x,
        w,
        None,
        list(op.stride),
        padding,
        list(op.dilation),
        False,
        [],
        x.shape[1] // w.shape[1],
    )
