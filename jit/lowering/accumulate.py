"""Operand and result types of multiply-accumulate ops (convolutions and matrix products)."""

from __future__ import annotations

from ...graph_api.dtypes import DataType
from ..emit.builder import Builder, Value

__all__ = ["operands"]


def operands(
    b: Builder, a: Value, w: Value, compute: DataType, *, widen: bool = False
) -> tuple[Value, Value, DataType]:
    """Return both operands in one type, and the type to accumulate in.

    Operands narrower than the compute type stay narrow: the product is exact in the wider type
    and the hardware's mixed-precision instructions (MFMA, VNNI) apply.  All others are
    converted to the compute type, and so are 16-bit floats with ``widen``.
    """
    if widen and a.dtype.is_float and w.dtype.is_float:
        return b.convert(a, compute), b.convert(w, compute), compute
    if a.dtype is w.dtype and _stays_narrow(a.dtype, compute):
        return a, w, compute
    common = next((t for t in (a.dtype, w.dtype) if t.holds(a.dtype) and t.holds(w.dtype)), None)
    if common is not None and _stays_narrow(common, compute):
        return b.convert(a, common), b.convert(w, common), compute
    return b.convert(a, compute), b.convert(w, compute), compute


def _stays_narrow(operand: DataType, compute: DataType) -> bool:
    if operand is compute:
        return True
    if compute is DataType.FLOAT:
        return operand.is_float and operand.bits < 32
    # torch-mlir multiplies si8 into si32; other integer kinds go through the compute type.
    return compute is DataType.INT32 and operand is DataType.INT8
