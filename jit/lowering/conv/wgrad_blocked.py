# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weight gradients as matmuls in blocks of our own choice, for the CPU."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TypeVar

from ....graph_api.ops.conv_fprop import ConvFprop, ConvOp
from ...emit.blocked import blocked_matmul
from ...emit.builder import Builder, Value
from ...ops.wgrad_cost import wgrad_blocks
from ..sums import total
from .im2col_gemm import samples_inside, seen, stacked

__all__ = ["exchanged", "of_one_position", "weight_gradient"]

Ints = tuple[int, ...]
Op = TypeVar("Op", bound=ConvOp)


def weight_gradient(
    b: Builder, x: Value, dy: Value, op: ConvOp, size: Ints, groups: int, *, last: bool
) -> Value:
    """Return dw as matmuls in blocks of the patches of x with dy, along all places.

    The operand that is not packed is channels-first, so that what a step reads of each row lies
    behind what the one before it has read.

    Parameters
    ----------
    b : Builder
    x, dy : Value
        Of float32, logical dims (N, C, positions...) and (N, filters, positions...).
    op : ConvOp
    size : tuple of int
        Spatial dims of the filter.
    groups : int
    last : bool
        Whether x is laid out channels-last.
    """
    filters, channels = dy.shape[1], x.shape[1] // groups
    samples, places, rank = dy.shape[0], prod(dy.shape[2:]), len(size)
    if last:
        x, op = of_one_position(b, x, size, op)
        x = b.materialise(x)
    way = wgrad_blocks(b.target, (filters, channels, *size), samples, places, groups)
    patches, columns = stacked(b, x, size, op), channels * prod(size)
    # What is packed may lie channels-last.
    by_rows = last and groups == 1 and not way.swapped
    count, depth = (samples, places) if way.by_sample else (groups, samples * places)
    if not way.by_sample:
        patches = samples_inside(b, patches, rank)
    left = b.reshape(patches, (count, columns, depth))
    if by_rows:
        rows = b.permute(dy, (0, *range(2, dy.rank), 1))
        right = b.reshape(rows, (count, depth, filters))
    else:
        rows = b.materialise(dy) if last else dy
        rows = rows if way.by_sample else b.permute(rows, (1, 0, *range(2, dy.rank)))
        right = b.reshape(rows, (count, filters // groups, depth))
    if way.swapped:
        left, right = right, left
    y = blocked_matmul(b, left, right, way.blocks, columns=not by_rows)
    y = total(b, y, [0]) if way.by_sample else y
    y = y if way.swapped else b.permute(y, (0, 2, 1))
    return b.reshape(y, (filters, channels, *size))


def of_one_position(b: Builder, x: Value, size: Ints, op: Op) -> tuple[Value, Op]:
    """Return what a filter of one position meets, if it is one, before channels are moved."""
    if prod(size) > 1 or any((*op.pre_padding, *op.post_padding)):
        return x, op
    ones = (1,) * len(size)
    for axis, (count, stride) in enumerate(
        zip(op.output_extents(x.shape[2:], size), op.stride, strict=True), 2
    ):
        x = seen(b, x, axis, 0, count, stride, 1)
    return x, replace(op, stride=ones, dilation=ones)


def exchanged(b: Builder, x: Value, dy: Value, op: ConvOp, size: Ints, *, last: bool) -> Value:
    """Return dw as a matmul of x with the patches of dy, for filters of stride 1 (`exchanges`).

    What dy lies away from x is what x lies away from dy, the other way round: the positions come
    reversed.  ``last``: dy is laid out channels-last.
    """
    reach = [(k - 1) * d for k, d in zip(size, op.dilation, strict=True)]
    pre, post = (
        tuple(most - pad for most, pad in zip(reach, padding, strict=True))
        for padding in (op.pre_padding, op.post_padding)
    )
    shifted = ConvFprop(pre_padding=pre, post_padding=post, stride=op.stride, dilation=op.dilation)
    dw = weight_gradient(b, dy, x, shifted, size, 1, last=last)
    return b.flip(b.permute(dw, (1, 0, *range(2, dw.rank))), range(2, dw.rank))
