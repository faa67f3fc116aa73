# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Batches of matmuls that are compiled rightly for every target."""

from __future__ import annotations

from ...graph_api.dtypes import DataType
from ..emit import narrow
from ..emit.builder import Builder, T, Value

__all__ = ["batched_matmul", "swapped", "unmixed"]


def batched_matmul(
    b: Builder,
    left: Value,
    right: Value,
    dtype: DataType,
    *,
    transposed: bool = False,
    columns: bool = False,
) -> Value:
    """Return left · right of rank 3, accumulated in ``dtype``.

    ``transposed``: the left operand may be a transpose, which the compiler would fold
    into the matmul.  ``columns``: the right operand lies in memory column by column.
    Operands of 8-bit floats stay such where ``operands`` left them.
    """
    (count, m, k), n = left.shape, right.shape[-1]
    if count == 1:
        # A batch of one only keeps the compiler from its matmul code.
        flat = _matmul(b, b.reshape(left, (m, k)), b.reshape(right, (k, n)), dtype)
        return b.reshape(flat, (1, m, n))
    if transposed and b.strikes("W-071", m, k, left.dtype):
        left = b.materialise(left)
    if not columns and 1 not in (m, n) and b.strikes("W-071", n, k, right.dtype):
        right = b.permute(b.materialise(b.permute(right, (0, 2, 1))), (0, 2, 1))
    if b.strikes("W-070", count, m, n):
        ends = ((0, count - 1), (count - 1, count))
        parts = [[b.slice(x, 0, *end) for x in (left, right)] for end in ends]
        return b.concatenate([batched_matmul(b, x, y, dtype) for x, y in parts], 0)
    return _matmul(b, left, right, dtype)


def swapped(b: Builder, x: Value) -> Value:
    """Return x with its last two dims swapped."""
    return b.permute(x, (*range(x.rank - 2), x.rank - 1, x.rank - 2))


def unmixed(b: Builder, x: Value) -> Value:
    """Return an operand (batch, rows, ...) that the compiler does not take for one matrix (W-098).

    For what is gathered, padded or computed right before a batch of matmuls.
    """
    return b.materialise(x) if b.strikes("W-098", *x.shape[:2]) else x


def _matmul(b: Builder, left: Value, right: Value, dtype: DataType) -> Value:
    op = T.AtenMmOp if left.rank == 2 else T.AtenBmmOp
    shape = (*left.shape[:-1], right.shape[-1])
    *_, m, n = shape
    few_rows, few_columns = (b.strikes("W-149", d, left.shape[-1], left.dtype) for d in (m, n))
    if few_rows and not few_columns:
        turned = (swapped(b, x) for x in (right, left))
        return swapped(b, b.call(op, (*shape[:-2], n, m), dtype, *turned))
    if few_rows or (left.rank == 2 and b.strikes("W-130", *left.shape, n, left.dtype)):
        left, right = (b.materialise(b.convert(x, dtype)) for x in (left, right))
    return b.call(op, shape, dtype, *(narrow.native(b, x) for x in (left, right)))
