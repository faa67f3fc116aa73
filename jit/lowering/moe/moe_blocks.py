# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rows of a mixture of experts in blocks of one expert each, where only run time knows how many.

Each group's rows are padded to full blocks.  Every shape is static: the number of blocks is the
upper bound, and blocks that no group needs hold arbitrary rows.  The index tensors are sums and
selects over the groups and are computed at run time.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....graph_api.dtypes import DataType
from ...emit.builder import Builder, T, Value
from ...ops.experts import block_count
from .moe_rows import groups_of_rows, iota

__all__ = ["Blocks", "assign_blocks", "gather_rows"]

I32, I64 = DataType.INT32, DataType.INT64


@dataclass(frozen=True, slots=True)
class Blocks:
    """Which rows are in which block.

    Attributes
    ----------
    expert : Value
        The expert of each block, int64, of shape (blocks,).
    row : Value
        The row in each slot of all blocks, int64, of shape (blocks · size,); an arbitrary row in
        unused slots.
    used : Value
        Whether a slot is used, of the same shape.
    slot : Value
        The slot of each row, int64, of shape (rows,); an arbitrary one for a row of no expert.
    owned : Value
        Whether a row has an expert, of the same shape.
    """

    expert: Value
    row: Value
    used: Value
    slot: Value
    owned: Value


def assign_blocks(b: Builder, offsets: Value, rows: int, experts: int, size: int) -> Blocks:
    """Return the blocks of ``size`` rows for the first rows of the groups."""
    groups = offsets.shape[0]
    blocks = block_count(rows, groups, size)
    group = groups_of_rows(b, offsets, rows)
    # Counted from the rows, because the groups' first rows need not be sorted.
    numbers = b.reshape(iota(b, groups + 1), (groups + 1, 1))
    before = b.compare(T.AtenLtTensorOp, b.reshape(group, (1, rows)), numbers)
    bounds = _count(b, before)
    begin, end = b.slice(bounds, 0, 0, groups), b.slice(bounds, 0, 1, groups + 1)
    wanted = b.add(b.sub(end, begin), b.literal(size - 1, I32, ()))
    wanted = b.call(T.AtenFloorDivideScalarOp, (groups,), I32, wanted, size)
    number = iota(b, groups)
    earlier = b.compare(
        T.AtenLtTensorOp, b.reshape(number, (1, groups)), b.reshape(number, (groups, 1))
    )
    first = _total(b, b.where(earlier, b.reshape(wanted, (1, groups)), b.literal(0, I32, ())))

    block = iota(b, blocks)
    begun = b.compare(
        T.AtenLeTensorOp, b.reshape(first, (1, groups)), b.reshape(block, (blocks, 1))
    )
    owner = b.sub(_count(b, begun), b.literal(1, I32, ()))
    start = b.unary(T.AtenMulScalarOp, b.sub(block, _at(b, first, owner)), size)
    start = b.reshape(b.add(_at(b, begin, owner), start), (blocks, 1))
    row = b.add(start, b.reshape(iota(b, size), (1, size)))
    used = b.compare(T.AtenLtTensorOp, row, b.reshape(_at(b, end, owner), (blocks, 1)))
    expert = owner if groups == experts else b.unary(T.AtenRemainderScalarOp, owner, experts)

    known = b.unary(T.AtenClampOp, group, 0, groups - 1)
    offset = b.unary(T.AtenMulScalarOp, _at(b, first, known), size)
    slot = b.add(b.sub(iota(b, rows), _at(b, begin, known)), offset)
    slots = blocks * size
    return Blocks(
        expert=b.cast(expert, I64),
        row=_inside(b, b.reshape(row, (slots,)), rows),
        used=b.reshape(used, (slots,)),
        slot=_inside(b, slot, slots),
        owned=b.compare(T.AtenGeTensorOp, group, b.literal(0, I32, ())),
    )


def gather_rows(b: Builder, x: Value, index: Value, used: Value | None = None) -> Value:
    """Return rows of x (rank 2), or zeros where they are not used.

    The two halves are gathered separately and concatenated (W-025).  Fused with the packing of a
    matmul's operands, single elements would be read and written (measured: all took 1.3 to 1.6
    times as long).
    """
    count = index.shape[0]
    half = count // 2
    ends = [(0, half), (half, count)] if half else [(0, count)]
    parts = []
    for end in ends:
        n = end[1] - end[0]
        part = b.slice(index, 0, *end)
        rows = b.call(T.AtenIndexSelectOp, (n, x.shape[1]), x.dtype, x, 0, part)
        if used is not None:
            mask = b.reshape(b.slice(used, 0, *end), (n, 1))
            rows = b.where(mask, rows, b.literal(0, x.dtype, ()))
        parts.append(rows)
    return b.concatenate(parts, 0)


def _at(b: Builder, table: Value, index: Value) -> Value:
    return b.call(T.AtenIndexSelectOp, index.shape, I32, table, 0, b.cast(index, I64))


def _inside(b: Builder, index: Value, count: int) -> Value:
    return b.cast(b.unary(T.AtenClampOp, index, 0, count - 1), I64)


def _count(b: Builder, marks: Value) -> Value:
    """Return how many marks each row of a table has."""
    return _total(b, b.cast(marks, I32))


def _total(b: Builder, table: Value) -> Value:
    code = I32.value.torch_code
    return b.call(T.AtenSumDimIntListOp, table.shape[:1], I32, table, [1], False, code)
