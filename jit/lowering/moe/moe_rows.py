# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which group and which expert the rows of a mixture of experts belong to."""

from __future__ import annotations

from ....graph_api.dtypes import DataType
from ...emit.builder import Builder, T, Value
from ...emit.gather import gather
from ...emit.structured import barrier, from_builtin, to_builtin

__all__ = ["clamped_rows", "experts_of_rows", "groups_of_rows", "iota"]

I32, I64 = DataType.INT32, DataType.INT64


def groups_of_rows(b: Builder, offsets: Value, rows: int) -> Value:
    """Return each row's group as int32, -1 for rows before the first one; it never descends."""
    groups = offsets.shape[0]
    starts = b.reshape(offsets, (1, groups))
    begun = b.compare(T.AtenLeTensorOp, starts, b.reshape(iota(b, rows), (rows, 1)))
    # Counted, not searched for in the groups' indices: those would be a constant in memory, which
    # the gfx9 emulator cannot read.
    ones = b.cast(begun, I32)
    count = b.call(T.AtenSumDimIntListOp, (rows, 1), I32, ones, [1], True, I32.value.torch_code)
    return b.sub(b.reshape(count, (rows,)), b.literal(1, I32, ()))


def experts_of_rows(b: Builder, offsets: Value, rows: int, experts: int) -> Value:
    """Return each row's expert as int32, -1 for rows before the first group."""
    # Counted in a kernel of its own: one that also selects elements of the rows is shared out by
    # what it counts, and had 4 workgroups on gfx942 for 256 rows of 14,336.
    group = groups_of_rows(b, offsets, rows)
    group = from_builtin(b, barrier(to_builtin(group), "end"), (rows,), I32)
    if offsets.shape[0] == experts:
        return group
    wrapped = b.unary(T.AtenRemainderScalarOp, group, experts)
    return b.where(b.compare(T.AtenLtTensorOp, group, b.literal(0, I32, ())), group, wrapped)


def iota(b: Builder, n: int) -> Value:
    """Return 0, 1, ... n - 1 as int32."""
    code = I32.value.torch_code
    return b.call(T.AtenArangeStartStepOp, (n,), I32, 0, n, 1, code, None, None, None)


def clamped_rows(b: Builder, x: Value, index: Value) -> Value:
    """Return rows of x (dims 1, rows, width); an index out of range takes the nearest row."""
    inside = b.cast(b.unary(T.AtenClampOp, index, 0, x.shape[1] - 1), I64)
    return gather(b, x, 1, inside)
