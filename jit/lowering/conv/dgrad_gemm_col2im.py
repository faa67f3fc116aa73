# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Data gradient by one matmul of dy with the filter, and sums of its columns for each phase."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from ....graph_api.dtypes import DataType
from ....graph_api.ops.conv_dgrad import ConvDgrad
from ...emit.blocked import blocked_matmul
from ...emit.builder import Builder, T, Value
from ...ops.blocking import blocking
from ...ops.dgrad_geometry import pads_columns, turns_columns
from .phases import Phase, joined, phases_of

__all__ = ["gemm_col2im"]


def gemm_col2im(b: Builder, dy: Value, w: Value, op: ConvDgrad, accumulate: DataType) -> Value:
    """Return dx; the filter is in the order of cross-correlation.

    No zero is multiplied, unlike with zeros between the elements of dy.  Everything is
    channels-last, so that a column is a run of channels.
    """
    (filters, channels, *size), rank = w.shape, len(op.stride)
    extents = [-(-n // s) for n, s in zip(op.dx_dims[2:], op.stride, strict=True)]
    phases = phases_of(size, op)
    before, after = [], []
    for have, extent, row in zip(dy.shape[2:], extents, phases, strict=True):
        met = [p for p in row if p.count]
        before.append(max([0, *(-p.start for p in met)]))
        ends = (p.start + extent + (p.count - 1) * p.dilation for p in met)
        after.append(max([0, *(end - have for end in ends)]))
    padded = dy.shape[0] * prod(map(sum, zip(before, dy.shape[2:], after, strict=True)))
    late = pads_columns(dy.shape[0] * prod(dy.shape[2:]), padded, filters)
    given = dy if late else b.pad(dy, before, after)
    rows = b.permute(given, (0, *range(2, dy.rank), 1))
    count, positions = prod(rows.shape[:-1]), prod(size)
    turned = turns_columns(count, filters)
    # Moving channels behind positions: of the filters or of the columns, whichever are fewer.
    weights = w if turned else b.permute(w, (0, *range(2, w.rank), 1))
    weights = b.reshape(weights, (filters, positions * channels))
    flat = b.reshape(rows, (count, filters))
    columns = _product(b, flat, weights, accumulate)
    if turned:
        columns = b.permute(b.reshape(columns, (count, channels, positions)), (0, 2, 1))
    columns = b.reshape(columns, (*rows.shape[:-1], positions * channels))
    if late:
        columns = b.pad(columns, (*before, 0), (*after, 0))

    def part(here: Sequence[Phase]) -> Value:
        return _phase_sum(b, columns, here, before, extents, size, channels)

    whole = joined(b, op, phases, part)
    return b.permute(whole, (0, rank + 1, *range(1, rank + 1)))


def _product(b: Builder, rows: Value, weights: Value, accumulate: DataType) -> Value:
    """Return all columns; the compiler's own tiles take up to 30 times as long as blocks."""
    shape = rows.shape[0], weights.shape[1]
    rows, weights = b.convert(rows, accumulate), b.convert(weights, accumulate)
    if {rows.dtype, weights.dtype, accumulate} != {DataType.FLOAT}:
        return b.call(T.AtenMmOp, shape, accumulate, rows, weights)
    blocks = blocking(b.target, *shape, rows.shape[1])
    left, right = (b.reshape(v, (1, *v.shape)) for v in (rows, weights))
    return b.reshape(blocked_matmul(b, left, right, blocks), shape)


def _phase_sum(
    b: Builder,
    columns: Value,
    phases: Sequence[Phase],
    before: Sequence[int],
    extents: Sequence[int],
    size: Sequence[int],
    channels: int,
) -> Value:
    """Return the sum of what the filter positions of one phase add to its positions of dx."""
    total: Value | None = None
    for each in product(*(range(p.count) for p in phases)):
        number, part = 0, columns
        for i, (phase, e) in enumerate(zip(phases, each, strict=True)):
            number = number * size[i] + phase.first + (phase.count - 1 - e) * phase.step
            start = before[i] + phase.start + e * phase.dilation
            part = b.slice(part, 1 + i, start, start + extents[i])
        last = part.rank - 1
        part = b.slice(part, last, number * channels, (number + 1) * channels)
        total = part if total is None else b.add(total, part)
    if total is None:
        return b.literal(0, columns.dtype, (columns.shape[0], *extents, channels))
    return total
