# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weight gradient of a convolution: a matmul per filter position, or x convolved with dy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import numpy as np

from ....graph_api.dtypes import DataType
from ....graph_api.enums import ConvMode
from ....graph_api.frozen import FrozenNode
from ....graph_api.ops.conv_fprop import ConvFprop, ConvOp
from ....graph_api.ops.conv_wgrad import ConvWgrad
from ...emit.builder import Builder, T, Value
from ...ops.blocking import BLOCKED
from ...ops.convolution import CHANNELS_LAST
from ...ops.wgrad_cost import EXCHANGED
from ..accumulate import operands
from ..batched_matmul import unmixed
from ..sums import total
from .conv_fprop import convolve, doubled, is_last, padded
from .depthwise import weight_gradient as depthwise_gradient
from .plain_gradient import backward
from .wgrad_blocked import exchanged, of_one_position, weight_gradient

__all__ = ["lower"]


def lower(b: Builder, node: FrozenNode, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Emit dw, the transpose of conv(x, ·) applied to dy."""
    op = node.op
    assert isinstance(op, ConvWgrad)
    if b.strategy == "plain":
        return {"dw": _plain(b, node, op, inputs)}
    x, dy, compute = inputs["x"], inputs["dy"], node.compute_data_type
    last, widen = is_last(x), b.avoids("W-013")
    if not b.target.is_cpu:  # kernels there are known with operands that are converted first
        x, dy, _ = operands(b, x, dy, compute)
    cropped = _cropped(b, x, dy, op)
    if cropped is None:
        return {"dw": b.literal(0, compute, op.dw_dims)}
    x, dy, op = cropped
    if b.strategy == CHANNELS_LAST:
        return {"dw": _in_order(b, depthwise_gradient(b, x, dy, op, compute), op)}
    if widen:
        # Before operands are converted: the compiler would put all of x on the stack otherwise.
        x, op = of_one_position(b, x, op.dw_dims[2:], op)
    x, dy, accumulate = operands(b, x, dy, compute, widen=widen)
    if b.strikes("W-059", x.shape[0], op.stride):
        # Strides become dilation, the batch dim is summed over.
        x, dy = (doubled(b, v, 0) for v in (x, dy))
    x, dy = (_compilable(b, v, op) for v in (x, dy))
    if b.strategy in (BLOCKED, EXCHANGED):
        x, dy = (b.convert(v, accumulate) for v in (x, dy))
        groups, size = x.shape[1] // op.dw_dims[1], op.dw_dims[2:]
        if b.strategy == EXCHANGED:
            dw = exchanged(b, x, dy, op, size, last=is_last(inputs["dy"]))
        else:
            dw = weight_gradient(b, x, dy, op, size, groups, last=last)
    elif b.strategy == "gemm" or (prod(op.dw_dims[2:]) == 1 and _bare(op)):
        dw = _per_position(b, x, dy, op, accumulate)
    else:
        dw = _correlated(b, x, dy, op, accumulate)
    return {"dw": _in_order(b, dw, op)}


def _in_order(b: Builder, dw: Value, op: ConvWgrad) -> Value:
    """Return dw, whose positions are those of a cross-correlation, as the op has them."""
    return b.flip(dw, range(2, dw.rank)) if op.conv_mode is ConvMode.CONVOLUTION else dw


def _bare(op: ConvWgrad) -> bool:
    return set(op.stride) == {1} and not any((*op.pre_padding, *op.post_padding))


def _plain(b: Builder, node: FrozenNode, op: ConvWgrad, inputs: Mapping[str, Value]) -> Value:
    """Return dw by torch's own op for gradients of convolutions."""
    x, dy, accumulate = operands(b, inputs["x"], inputs["dy"], node.compute_data_type)
    filter_ = b.literal(0, x.dtype, op.dw_dims)
    return _in_order(b, backward(b, dy, x, filter_, op, accumulate, which=1), op)


def _cropped(
    b: Builder, x: Value, dy: Value, op: ConvWgrad
) -> tuple[Value, Value, ConvWgrad] | None:
    """Return x and dy without the windows of the forward convolution that are all padding.

    Dims of filter size 1 have no padding then.  None: no window holds an element of x.
    """
    unpadded = b.strikes("W-065", op.dw_dims[2:], op)
    pre_padding, post_padding = list(op.pre_padding), list(op.post_padding)
    for i, (k, s, pre) in enumerate(zip(op.dw_dims[2:], op.stride, op.pre_padding, strict=True)):
        axis, reach = 2 + i, (k - 1) * op.dilation[i]
        n, count = x.shape[axis], dy.shape[axis]
        low, high = max(-(-(pre - reach) // s), 0), min((n - 1 + pre) // s + 1, count)
        if low >= high:
            return None
        if (low, high) == (0, count) and not (unpadded and k == 1):
            continue
        dy = b.slice(dy, axis, low, high)
        start = low * s - pre
        stop = start + (high - low - 1) * s + reach + 1
        x = b.slice(x, axis, max(start, 0), min(stop, n))
        pre_padding[i], post_padding[i] = max(-start, 0), max(stop - n, 0)
    return x, dy, replace(op, pre_padding=tuple(pre_padding), post_padding=tuple(post_padding))


def _compilable(b: Builder, v: Value, op: ConvWgrad) -> Value:
    """Return an operand that compiles: with a known memory order, or in float32."""
    if b.strikes("W-066", v.dtype, op.dw_dims, op.stride):
        return b.materialise(b.convert(v, DataType.FLOAT))
    return b.materialise(v) if b.strikes("W-067", v.order) else v


def _per_position(b: Builder, x: Value, dy: Value, op: ConvWgrad, accumulate: DataType) -> Value:
    """Return dw by filter position: dy (K, positions) times the shifted x (positions, C)."""
    filters, channels, *size = op.dw_dims
    groups = x.shape[1] // channels
    extents, rank = dy.shape[2:], len(size)
    x = b.pad(x, op.pre_padding, op.post_padding)
    depthwise = channels == 1 and filters == groups
    if b.strikes("W-017", channels, filters, groups):
        x, dy = b.materialise(x), b.materialise(dy)
    positions = x.shape[0] * prod(extents)
    spatial = range(2, 2 + rank)
    left = (
        dy if depthwise else _rows(b, dy, (1, 0, *spatial), (groups, filters // groups, positions))
    )
    parts = []
    for position in np.ndindex(*size):
        seen = x
        for i, at in enumerate(position):
            start = at * op.dilation[i]
            stop = start + (extents[i] - 1) * op.stride[i] + 1
            seen = b.slice(seen, 2 + i, start, stop, op.stride[i])
        if depthwise:
            each = b.mul(b.convert(left, accumulate), b.convert(seen, accumulate))
            part = total(b, each, [0, *spatial], keep=False)
        elif groups == 1:
            right = _rows(b, seen, (0, *spatial, 1), (positions, channels))
            flat = b.reshape(left, (filters, positions))
            part = b.call(T.AtenMmOp, (filters, channels), accumulate, flat, right)
        else:
            order = (1, 0, *spatial)
            right = unmixed(b, _rows(b, seen, order, (groups, channels, positions)))
            part = b.call(
                T.AtenBmmOp,
                (groups, filters // groups, channels),
                accumulate,
                unmixed(b, left),
                b.permute(right, (0, 2, 1)),
            )
        parts.append(b.reshape(part, (filters, channels, 1)))
    return b.reshape(b.concatenate(parts, 2), op.dw_dims)


def _rows(b: Builder, x: Value, order: tuple[int, ...], shape: tuple[int, ...]) -> Value:
    return b.reshape(b.permute(x, order), shape)


def _correlated(b: Builder, x: Value, dy: Value, op: ConvWgrad, accumulate: DataType) -> Value:
    """Return dw as x convolved with dy, batch and channels exchanged.

    Stride becomes dilation and the other way round.  Groups of the forward convolution are groups
    of this one.
    """
    channels, *size = op.dw_dims[1:]
    groups, batch, rank = x.shape[1] // channels, x.shape[0], len(size)
    post = []
    for i, k in enumerate(size):
        # What no filter position reaches is cut off, so that the result has no extents too many.
        reach = (dy.shape[2 + i] - 1) * op.stride[i] + op.dilation[i] * (k - 1) + 1
        missing = reach - op.pre_padding[i] - x.shape[2 + i]
        post.append(max(missing, 0))
        x = b.slice(x, 2 + i, 0, x.shape[2 + i] + min(missing, 0))
    activation = b.reshape(x, (batch, groups, channels, *x.shape[2:]))
    activation = b.permute(activation, (2, 1, 0, *range(3, 3 + rank)))
    activation = b.reshape(activation, (channels, groups * batch, *x.shape[2:]))
    turned = b.permute(dy, (1, 0, *range(2, 2 + rank)))
    forward: ConvOp = ConvFprop(
        pre_padding=op.pre_padding,
        post_padding=tuple(post),
        stride=op.dilation,
        dilation=op.stride,
    )
    flat = b.strikes("W-093", x.shape[1:], (*op.pre_padding, *op.post_padding))
    if flat or b.strikes("W-064", size, op):
        activation, turned, forward = padded(b, activation, turned, forward)
    dw = convolve(b, activation, turned, forward, accumulate)
    return b.permute(dw, (1, 0, *range(2, 2 + rank)))
