"""Operand and result types of multiply-accumulate ops (convolutions and matrix products)."""

from __future__ import annotations

from ...graph_api.dtypes import DataType
from ..emit import narrow
from ..emit.builder import Builder, Value

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
    """Return both operands in one type, and the type to accumulate in.

    Operands narrower than the compute type stay narrow: the product is exact in the wider type
    and the hardware's mixed-precision instructions (MFMA, VNNI) apply.  All others are
    converted to the compute type, and so are 16-bit floats with ``widen``.  Types of 8 bits and
    less come as float16 (INT4 in integers: int8), which holds them; with ``codes`` two of one
    kind stay as they are if the target multiplies them (``narrow.native``).
    """
    # IREE 3.13's 16-bit products for CUDA are wrong for transposed operands, and where extents do
    # not fill its matrix instructions (found on an H200).  That target is a check, not for speed.
    widen = widen or not (b.target.is_cpu or b.target.is_gfx9)
    types = (a.dtype, w.dtype)
    kept = codes and compute is DataType.FLOAT and types[0] is types[1]
    if kept and narrow.multiplies(b.target, types[0]):
        return _prepared(b, a, types[0]), _prepared(b, w, types[0]), compute
    carriers = [narrow.carrier(t, compute) for t in types]
    common = next((t for t in carriers if all(map(t.holds, types))), None)
    wide = common is None or (widen and common.is_float) or not _stays_narrow(common, compute)
    chosen = compute if wide or common is None else common
    return _prepared(b, a, chosen, fuse=fuse), _prepared(b, w, chosen, fuse=fuse), compute


def _prepared(b: Builder, x: Value, dtype: DataType, *, fuse: bool = False) -> Value:
    """Return an operand in a type, copied where IREE 3.13 fuses what makes it and then fails.

    That is: a broadcast operand (the compiler crashes), a conversion in a GPU pipeline (operands
    of two types, or the padding of a convolution, are refused), and on the CPU a conversion of
    integers to floats beside floats that are extended.  ``fuse`` says that the op takes types of
    8 bits and less all the same: gfx9 decodes them within a matrix product.  The CPU would do
    that anew for every tile.
    """
    if x.dtype is dtype:
        return b.materialise(x) if x.repeated else x
    small = narrow.is_code(x.dtype) or x.dtype is DataType.INT4
    inside = b.target.is_gfx9 and fuse if small else b.target.is_cpu and x.dtype.is_float
    fused = inside and not x.repeated
    converted = b.convert(x, dtype)
    return converted if fused else b.materialise(converted)


def _stays_narrow(operand: DataType, compute: DataType) -> bool:
    if operand is compute:
        return True
    if compute is DataType.FLOAT:
        return operand.is_float and operand.bits < 32
    # torch-mlir multiplies si8 into si32; other integer kinds go through the compute type.
    return compute is DataType.INT32 and operand is DataType.INT8
