# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operand and result types of multiply-accumulate ops (convolutions and matmuls)."""

from __future__ import annotations

from ...graph_api.dtypes import DataType
from ..emit.builder import Builder, Value
from ..ops.multiply_types import is_code, is_emulated, multiply_type
from .movement.view_copies import in_memory_order

__all__ = ["copied", "operands"]


def operands(
    b: Builder,
    a: Value,
    w: Value,
    compute: DataType,
    *,
    widen: bool = False,
    codes: bool = False,
    fuse: bool = False,
) -> tuple[Value, Value, DataType]:
    """Return both operands in one type (`multiply_type`), and the type to accumulate in.

    ``fuse``: the op takes types of 8 bits and less nevertheless.
    """
    # A convolution that is to be widened has copies of its own.
    uses = 0 if widen else min(w.shape[-1], a.shape[-2])
    apart = not widen and any(is_emulated(b.target, x.dtype, uses) for x in (a, w))
    dtype = multiply_type(b.target, compute, a.dtype, w.dtype, widen=widen or apart, codes=codes)
    left, right = (_prepared(b, x, dtype, fuse=fuse, apart=apart) for x in (a, w))
    return left, right, compute


def copied(b: Builder, x: Value, dtype: DataType) -> Value:
    """Return a copy of x in another type, which is made as x lies in memory.

    In another order x would be read number by number.
    """
    return in_memory_order(b, [x], lambda v, _: b.materialise(b.convert(v[0], dtype)))


def _prepared(b: Builder, x: Value, dtype: DataType, *, fuse: bool, apart: bool) -> Value:
    """Return an operand in a type, copied where what makes it must not be fused."""
    repeated = b.strikes("W-002", x.repeated)
    if x.dtype is dtype:
        return b.materialise(x) if repeated else x
    if apart and x.order:
        return copied(b, x, dtype)
    converted = b.convert(x, dtype)
    if is_code(x.dtype) or x.dtype is DataType.INT4:
        # gfx9 decodes them within a matmul; the CPU would do that anew for every tile.
        alone = not (b.target.is_gfx9 and fuse)
    else:
        alone = apart or b.strikes("W-018", x.dtype) or b.strikes("W-072")
    return b.materialise(converted) if alone or repeated else converted
