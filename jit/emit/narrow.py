"""Types of 8 bits and less as bytes: decoded and encoded by integer arithmetic in the IR.

The compiler has these types for some targets only (8-bit floats: FNUZ on gfx942, OCP on gfx950)
or not at all (FP4, FP6), and says little of rounding and overflow.  So they enter and leave a
function as raw bytes, and become float32 (INT4: int8) by shifts and additions on their bits,
the same on every target.  Inside a function one element of a narrow float takes a ``ui8`` that
holds its code; a 4-bit integer takes an ``si8`` with its value.  Only in memory are types below
8 bits packed, low bits first.

The numeric meaning is that of ``provider/reference/convert.py``: to nearest, ties to even; what
is too large becomes infinity (E5M2), NaN (the other 8-bit types) or the largest number (FP4, FP6,
and E8M0, where ties go up).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan, prod
from typing import TYPE_CHECKING, Any

from torch_mlir import ir
from torch_mlir.dialects import torch as T  # noqa: N812 (the dialect is written everywhere)

from ...graph_api.dtypes import DataType

if TYPE_CHECKING:
    from .builder import Builder, Value

__all__ = ["carrier", "decode", "encode", "is_code", "native", "pack", "storage", "unpack"]

BOOL = DataType.BOOLEAN
I32, I64, F32, F64 = DataType.INT32, DataType.INT64, DataType.FLOAT, DataType.DOUBLE


@dataclass(frozen=True, slots=True)
class _Format:
    """A float type of sign, exponent and mantissa.

    Attributes
    ----------
    bits, mantissa, bias : int
        Width, explicit mantissa bits, exponent bias.
    top : int
        Code of the largest finite number.
    over, nan : int
        Codes of what is too large, and of NaN (FP4 and FP6 have none: 0).
    one_zero : bool
        FNUZ: the code of -0 is NaN.
    """

    bits: int
    mantissa: int
    bias: int
    top: int
    over: int
    nan: int
    one_zero: bool = False

    @property
    def sign(self) -> int:
        return 1 << (self.bits - 1)


# OCP 8-bit Floating Point Specification 1.0; OCP Microscaling Formats 1.0; FNUZ as in LLVM's
# APFloat (Float8E4M3FNUZ, Float8E5M2FNUZ).
_FORMATS: dict[DataType, _Format] = {
    DataType.FP8_E4M3: _Format(8, 3, 7, 0x7E, 0x7F, 0x7F),
    DataType.FP8_E5M2: _Format(8, 2, 15, 0x7B, 0x7C, 0x7E),
    DataType.FP8_E4M3_FNUZ: _Format(8, 3, 8, 0x7F, 0x80, 0x80, one_zero=True),
    DataType.FP8_E5M2_FNUZ: _Format(8, 2, 16, 0x7F, 0x80, 0x80, one_zero=True),
    DataType.FP4_E2M1: _Format(4, 1, 1, 0x07, 0x07, 0),
    DataType.FP6_E2M3: _Format(6, 3, 1, 0x1F, 0x1F, 0),
    DataType.FP6_E3M2: _Format(6, 2, 3, 0x1F, 0x1F, 0),
}

# Formats that matrix instructions take, by architecture (AMD's CDNA 3 and CDNA 4 ISA documents).
_NATIVE: dict[str, tuple[DataType, ...]] = {
    "gfx942": (DataType.FP8_E4M3_FNUZ, DataType.FP8_E5M2_FNUZ),
    "gfx950": (DataType.FP8_E4M3, DataType.FP8_E5M2),
}


def is_code(dtype: DataType) -> bool:
    """Whether elements are handled by the code of a narrow float, not by their value."""
    return dtype in _FORMATS or dtype is DataType.FP8_E8M0


def storage(dtype: DataType) -> str:
    """Return the spelling of the element type that holds a value of ``dtype`` in the IR."""
    if is_code(dtype):
        return "ui8"
    return "si8" if dtype is DataType.INT4 else dtype.value.mlir


def carrier(dtype: DataType) -> DataType:
    """Return the type that arithmetic on ``dtype`` is cheapest in and that holds all its values."""
    if dtype is DataType.INT4:
        return DataType.INT8
    if dtype in _FORMATS:
        return DataType.HALF
    return F32 if dtype is DataType.FP8_E8M0 else dtype


# ------------------------------------------------------------------------ memory


def unpack(b: Builder, raw: Value, count: int, dtype: DataType) -> Value:
    """Return ``count`` elements of a packed type from the flat bytes that hold them."""
    word_bytes, per_word = _word(dtype)
    groups = -(-count // per_word)
    raw = _filled(b, raw, groups * word_bytes)
    rows = b.cast(b.reshape(raw, (groups, word_bytes)), I32)
    word = b.slice(rows, 1, 0, 1)
    for k in range(1, word_bytes):
        word = _or(b, word, _left(b, b.slice(rows, 1, k, k + 1), 8 * k))
    codes = _fields(b, word, [dtype.bits * i for i in range(per_word)], 2**dtype.bits - 1)
    codes = b.slice(b.reshape(codes, (groups * per_word,)), 0, 0, count)
    if dtype is DataType.INT4:
        # Sign extension: 8..15 mean -8..-1.
        signed = b.binary(T.AtenBitwiseXorTensorOp, codes, _like(b, 8, codes))
        return b.relabel(b.cast(_add(b, signed, -8), DataType.INT8), dtype)
    return b.relabel(b.cast(codes, DataType.UINT8), dtype)


def pack(b: Builder, values: Value) -> Value:
    """Return the bytes that hold the elements of a packed type, flat; unused bits are 0."""
    dtype = values.dtype
    word_bytes, per_word = _word(dtype)
    count = prod(values.shape)
    groups = -(-count // per_word)
    flat = b.reshape(b.relabel(values, _byte(dtype)), (count,))
    rows = b.reshape(_filled(b, flat, groups * per_word), (groups, per_word))
    codes = _and(b, b.cast(rows, I32), 2**dtype.bits - 1)
    word = b.slice(codes, 1, 0, 1)
    for k in range(1, per_word):
        word = _or(b, word, _left(b, b.slice(codes, 1, k, k + 1), dtype.bits * k))
    if word_bytes > 1:
        word = _fields(b, word, [8 * i for i in range(word_bytes)], 255)
    raw = b.reshape(b.cast(word, DataType.UINT8), (groups * word_bytes,))
    return b.slice(raw, 0, 0, dtype.nbytes(count))


def _word(dtype: DataType) -> tuple[int, int]:
    """Return bytes and elements of the smallest group that ends on a byte."""
    return (1, 2) if dtype.bits == 4 else (3, 4)


def _byte(dtype: DataType) -> DataType:
    return DataType.INT8 if dtype is DataType.INT4 else DataType.UINT8


def _filled(b: Builder, flat: Value, count: int) -> Value:
    """Return a flat value with zeros after it, ``count`` elements long."""
    missing = count - flat.shape[0]
    return b.concatenate([flat, b.literal(0, flat.dtype, (missing,))], 0) if missing else flat


def _fields(b: Builder, word: Value, places: list[int], mask: int) -> Value:
    """Return the bit fields of words (n, 1) that begin at ``places``, as (n, places)."""
    text = ", ".join(map(str, places))
    attribute = ir.Attribute.parse(f"dense<[{text}]> : tensor<{len(places)}xsi32>")
    op = T.ValueTensorLiteralOp(attribute, results=[b.type((len(places),), I32)])
    shifts = b.value(op.result, (len(places),), I32)
    return _and(b, b.binary(T.AtenBitwiseRightShiftTensorOp, word, shifts), mask)


# ------------------------------------------------------------------------ values


def decode(b: Builder, x: Value) -> Value:
    """Return codes as the float32 numbers that they mean, exactly."""
    codes = b.cast(b.relabel(x, DataType.UINT8), I32)
    if x.dtype is DataType.FP8_E8M0:
        bits = _left(b, codes, 23)
        subnormal, quiet = _like(b, 1 << 22, bits), _like(b, 0x7FC00000, bits)  # 2^-127, NaN
        bits = b.where(_is(b, T.AtenEqScalarOp, codes, 0), subnormal, bits)
        bits = b.where(_is(b, T.AtenEqScalarOp, codes, 255), quiet, bits)
        return _as_float(b, bits, F32)
    f = _FORMATS[x.dtype]
    magnitude = _and(b, codes, f.sign - 1)
    bits = _add(b, _left(b, magnitude, 23 - f.mantissa), (127 - f.bias) << 23)
    if x.dtype is DataType.FP8_E5M2:
        # The largest exponent is that of infinity and NaN in both types.
        special = _add(b, bits, (127 - f.bias) << 23)
        bits = b.where(_is(b, T.AtenGtScalarOp, magnitude, f.top), special, bits)
    number = _as_float(b, bits, F32)
    # Without the implied 1, the code counts steps of the smallest number.
    few = b.scale(b.cast(magnitude, F32), 2.0 ** (1 - f.bias - f.mantissa))
    number = b.where(_is(b, T.AtenLtScalarOp, magnitude, 1 << f.mantissa), few, number)
    negative = _is(b, T.AtenGeScalarOp, codes, f.sign)
    number = b.where(negative, b.unary(T.AtenNegOp, number), number)
    if x.dtype is DataType.FP8_E4M3:
        number = b.where(_is(b, T.AtenEqScalarOp, magnitude, f.nan), _like(b, nan, number), number)
    if f.one_zero:
        number = b.where(_is(b, T.AtenEqScalarOp, codes, f.nan), _like(b, nan, number), number)
    return number


def encode(b: Builder, x: Value, dtype: DataType) -> Value:
    """Return float32 or float64 numbers as codes of a narrow float, rounded once."""
    wide = _WIDE[x.dtype]
    raw = _as_whole(b, x, wide)
    if dtype is DataType.FP8_E8M0:
        return _encode_scale(b, raw, wide)
    f = _FORMATS[dtype]
    magnitude = _and(b, raw, 2 ** (wide.bits - 1) - 1)
    drop = wide.mantissa - f.mantissa
    # Half a step less one, plus the last bit that stays: ties go to even.
    odd = _and(b, _right(b, magnitude, drop), 1)
    rounded = b.add(_add(b, magnitude, 2 ** (drop - 1) - 1), odd)
    code = _add(b, _right(b, rounded, drop), -((wide.bias - f.bias) << f.mantissa))
    # Below the normal numbers: adding a number whose last bit is the smallest step rounds.
    anchor = 2.0 ** (1 - f.bias - f.mantissa + wide.mantissa)
    lifted = b.add(_as_float(b, magnitude, x.dtype), b.literal(anchor, x.dtype, ()))
    steps = _and(b, _as_whole(b, lifted, wide), 2**wide.mantissa - 1)
    least = (wide.bias + 1 - f.bias) << wide.mantissa
    code = b.where(_is(b, T.AtenLtScalarOp, magnitude, least), steps, code)
    code = b.where(_is(b, T.AtenGtScalarOp, code, f.top), _like(b, f.over, code), code)
    is_nan = _is(b, T.AtenGtScalarOp, magnitude, wide.infinity)
    code = b.where(is_nan, _like(b, f.nan, code), code)
    sign = _and(b, _right(b, raw, wide.bits - f.bits), f.sign)
    if f.one_zero:
        sign = b.where(_is(b, T.AtenEqScalarOp, code, 0), _like(b, 0, sign), sign)
    return b.relabel(b.cast(_or(b, code, sign), DataType.UINT8), dtype)


def _encode_scale(b: Builder, raw: Value, wide: _Wide) -> Value:
    """Return the exponents of positive numbers, rounded; all other numbers become NaN."""
    half = 2 ** (wide.mantissa - 1)
    code = _add(b, _right(b, _add(b, raw, half), wide.mantissa), 127 - wide.bias)
    if wide.bias == 127:
        # Numbers below 2^-126 have no implied 1: the step from 2^-127 lies at 1.5 times it.
        small = _right(b, _add(b, raw, half // 2), wide.mantissa)
        code = b.where(_is(b, T.AtenLtScalarOp, raw, 1 << wide.mantissa), small, code)
    code = b.unary(T.AtenClampOp, code, 0, 254)
    code = b.where(_is(b, T.AtenGeScalarOp, raw, wide.infinity), _like(b, 255, code), code)
    code = b.where(_is(b, T.AtenLeScalarOp, raw, 0), _like(b, 255, code), code)
    return b.relabel(b.cast(code, DataType.UINT8), DataType.FP8_E8M0)


def native(b: Builder, x: Value) -> Value | None:
    """Return codes in the compiler's own 8-bit float type, or None where the target has none."""
    if x.dtype not in _NATIVE.get(b.target.arch, ()):
        return None
    shape, info = ",".join(map(str, x.shape)), x.dtype.value
    kind = ir.Type.parse(f"!torch.vtensor<[{shape}],{info.mlir}>")
    op = T.AtenViewDtypeOp(kind, x.ssa, b.constant(info.torch_code))
    return b.value(op.result, x.shape, x.dtype)


@dataclass(frozen=True, slots=True)
class _Wide:
    """A float type that is encoded, and the integer type of its bits."""

    whole: DataType
    bits: int
    mantissa: int
    bias: int

    @property
    def infinity(self) -> int:
        return (2 * self.bias + 1) << self.mantissa


_WIDE = {F32: _Wide(I32, 32, 23, 127), F64: _Wide(I64, 64, 52, 1023)}


def _as_whole(b: Builder, x: Value, wide: _Wide) -> Value:
    return b.call(T.AtenViewDtypeOp, x.shape, wide.whole, x, wide.whole.value.torch_code)


def _as_float(b: Builder, x: Value, dtype: DataType) -> Value:
    return b.call(T.AtenViewDtypeOp, x.shape, dtype, x, dtype.value.torch_code)


def _like(b: Builder, number: float, x: Value) -> Value:
    return b.literal(number, x.dtype, ())


def _is(b: Builder, op: Any, x: Value, number: int) -> Value:
    return b.call(op, x.shape, BOOL, x, number)


def _and(b: Builder, x: Value, mask: int) -> Value:
    return b.unary(T.AtenBitwiseAndScalarOp, x, mask)


def _or(b: Builder, x: Value, y: Value) -> Value:
    return b.binary(T.AtenBitwiseOrTensorOp, x, y)


def _add(b: Builder, x: Value, number: int) -> Value:
    return b.unary(T.AtenAddScalarOp, x, number, 1)


def _left(b: Builder, x: Value, places: int) -> Value:
    return b.binary(T.AtenBitwiseLeftShiftTensorOp, x, _like(b, places, x))


def _right(b: Builder, x: Value, places: int) -> Value:
    return b.binary(T.AtenBitwiseRightShiftTensorOp, x, _like(b, places, x))
