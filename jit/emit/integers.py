# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Conversions of integers to bfloat16, which are exact or rounded once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch_mlir import ir
from torch_mlir.dialects import torch as T  # noqa: N812 (the dialect is written everywhere)

from ...graph_api.dtypes import DataType

if TYPE_CHECKING:
    from .builder import Builder, Value

__all__ = ["are_converted", "as_float", "shielded"]

BOOL, F32, F64 = DataType.BOOLEAN, DataType.FLOAT, DataType.DOUBLE
_CONVERT, _CAT = "torch.prims.convert_element_type", "torch.aten.cat"
_MOVES = frozenset(
    (
        *("torch.aten.permute", "torch.aten.view", "torch.aten.expand", "torch.aten.flip"),
        *("torch.aten.slice.Tensor", "torch.aten.constant_pad_nd"),
    )
)


def are_converted(value: Any) -> bool:
    """Return whether numbers are integers that were converted and since then only moved."""
    found, seen = [value], set[Any]()
    while found:
        one = found.pop()
        owner = one.owner
        if one in seen or isinstance(owner, ir.Block):
            continue
        seen.add(one)  # a source is reached in many ways
        name, operands = owner.name, owner.operands
        if name == _CONVERT and "f" not in str(operands[0].type).rpartition(",")[2]:
            return True
        if name == _CAT:
            found.extend(operands[0].owner.operands)
        elif name in _MOVES:
            found.append(operands[0])
    return False


def shielded(b: Builder, x: Value) -> Value:
    """Return floats that are converted integers, by an op that the compiler cannot leave out.

    Without one it makes a single conversion of two, which rounds twice, and which a CPU may not
    have (W-147).
    """
    return b.unary(T.AtenAddScalarOp, x, 0.0, 1)


def as_float(b: Builder, x: Value) -> Value:
    """Return integers or booleans as floats that round to bfloat16 as the integers do.

    No conversion of large integers to bfloat16 rounds once: all go by way of float32.
    """
    if x.dtype is DataType.INT32:
        return b.cast(_odd(b, x, F32, bits=24, dropped=8), F32)
    if x.dtype is DataType.INT64:
        return shielded(b, b.cast(_odd(b, x, F64, bits=53, dropped=11), F64))
    return b.cast(x, F32)


def _odd(b: Builder, x: Value, wide: DataType, bits: int, dropped: int) -> Value:
    """Return integers that a float type of so many bits holds, and that round to fewer bits alike.

    Large ones lose their last bits; the bit before tells that not all were 0 (rounding to odd).
    """
    rest = b.unary(T.AtenBitwiseAndScalarOp, x, 2**dropped - 1)
    some = b.call(T.AtenNeScalarOp, x.shape, BOOL, rest, 0)
    mark, zero = (b.literal(n, x.dtype, ()) for n in (2 ** (dropped - 1), 0))
    size = b.unary(T.AtenAbsOp, b.cast(x, wide))  # the smallest integer has none
    large = b.call(T.AtenGtScalarOp, x.shape, BOOL, size, 2.0**bits)
    return b.where(large, b.add(b.sub(x, rest), b.where(some, mark, zero)), x)
