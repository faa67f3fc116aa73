# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operand and result types of multiply-accumulate ops (convolutions and matmuls)."""

from __future__ import annotations

from ...graph_api.dtypes import DataType
from ..emit.builder import Builder, Value
from ..ops.multiply_types import is_code, is_emulated, multiply_type

__all__ = ["operands"]


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
    copied = not widen and any(is_emulated(b.target, x.dtype, uses) for x in (a, w))
    dtype = multiply_type(b.target, compute, a.dtype, w.dtype, widen=widen or copied, codes=codes)
    left, right = (_prepared(b, x, dtype, fuse=fuse, copied=copied) for x in (a, w))
    return left, right, compute


def _prepared(b: Builder, x: Value, dtype: DataType, *, fuse: bool, copied: bool) -> Value:
    """Return an operand in a type, copied where what makes it must not be fused."""
    repeated = b.strikes("W-002", x.repeated)
    if x.dtype is dtype:
        return b.materialise(x) if repeated else x
    if copied and x.order:
        # As it lies in memory: in another order it is read number by number.
        own = b.materialise(b.convert(b.permute(x, x.order), dtype))
        return b.permute(own, sorted(range(x.rank), key=x.order.__getitem__))
    converted = b.convert(x, dtype)
    if is_code(x.dtype) or x.dtype is DataType.INT4:
        # gfx9 decodes them within a matmul; the CPU would do that anew for every tile.
        alone = not (b.target.is_gfx9 and fuse)
    else:
        alone = copied or b.strikes("W-018", x.dtype) or b.strikes("W-072")
    return b.materialise(converted) if alone or repeated else converted
