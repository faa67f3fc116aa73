# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Types of 8 bits and less as bytes: decoded and encoded by integer arithmetic in the IR.

The compiler has these types for some targets only (8-bit floats: FNUZ on gfx942, OCP on gfx950)
or not at all (FP4, FP6), and specifies little of rounding and overflow.  So they enter and leave a
function as raw bytes, and become float32 (INT4: int8) by integer and exact float arithmetic, the
same on every target.  Inside a function one element of a narrow float takes a ``ui8`` that
holds its code; a 4-bit integer takes an ``si8`` with its value.  Only in memory are types below
8 bits packed, low bits first.

The numeric meaning is that of ``provider/reference/convert.py``: to nearest, ties to even; what
is too large becomes infinity (E5M2), NaN (the other 8-bit types) or the largest number (FP4, FP6,
and E8M0, where ties go up).  -0 becomes 0.

Only arithmetic that the compiler fuses is used: it treats a change of the type of bits as a
boundary between kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import frexp, inf, nan, prod
from typing import TYPE_CHECKING, Any

from torch_mlir import ir
from torch_mlir.dialects import torch as T  # noqa: N812 (the dialect is written everywhere)

from ...graph_api.dtypes import DataType
from ..ops.multiply_types import is_code

if TYPE_CHECKING:
    from .builder import Builder, Value

__all__ = [
    "decode",
    "encode",
    "native",
    "pack",
    "plain",
    "shared_scale",
    "storage",
    "unpack",
]

BOOL = DataType.BOOLEAN
I32, F32 = DataType.INT32, DataType.FLOAT


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


def storage(dtype: DataType) -> str:
    """Return the spelling of the element type that holds a value of ``dtype`` in the IR."""
    if is_code(dtype):
        return "ui8"
    return "si8" if dtype is DataType.INT4 else dtype.value.mlir


def plain(dtype: DataType) -> DataType:
    """Return a type for a constant of type ``dtype`` that need not be decoded."""
    return F32 if is_code(dtype) else dtype


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
    codes = _fields(b, word, per_word, dtype.bits)
    if dtype is DataType.INT4:
        # Sign extension: 8..15 mean -8..-1.
        codes = _add(b, b.binary(T.AtenBitwiseXorTensorOp, codes, _like(b, 8, codes)), -8)
    flat = b.reshape(b.cast(codes, _byte(dtype)), (groups * per_word,))
    return b.relabel(b.slice(flat, 0, 0, count), dtype)


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
        word = _fields(b, word, word_bytes, 8)
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


def _fields(b: Builder, word: Value, count: int, bits: int) -> Value:
    """Return the first ``count`` bit fields of words (n, 1) as (n, count)."""
    end, code = count * bits, I32.value.torch_code
    shifts = b.call(T.AtenArangeStartStepOp, (count,), I32, 0, end, bits, code, None, None, None)
    return _and(b, b.binary(T.AtenBitwiseRightShiftTensorOp, word, shifts), 2**bits - 1)


# ------------------------------------------------------------------------ values


def decode(b: Builder, x: Value) -> Value:
    """Return codes as the float32 numbers that they mean, exactly."""
    codes = b.cast(b.relabel(x, DataType.UINT8), I32)
    if x.dtype is DataType.FP8_E8M0:
        return _decode_scale(b, codes)
    f = _FORMATS[x.dtype]
    magnitude = _and(b, codes, f.sign - 1)
    exponent = _right(b, magnitude, f.mantissa)
    # Significand and exponent as an integer multiple of the smallest number; large shifts in two.
    implied = b.where(
        _is(b, T.AtenGtScalarOp, exponent, 0), _like(b, 1 << f.mantissa, codes), _like(b, 0, codes)
    )
    significand = b.add(_and(b, magnitude, (1 << f.mantissa) - 1), implied)
    shift = b.unary(T.AtenClampMinOp, _add(b, exponent, -1), 0)
    steps = b.binary(T.AtenBitwiseLeftShiftTensorOp, significand, _and(b, shift, 15))
    number = b.scale(b.cast(steps, F32), 2.0 ** (1 - f.bias - f.mantissa))
    if f.top >> f.mantissa > 16:
        number = b.mul(number, _power(b, shift, 16))
    if x.dtype is DataType.FP8_E5M2:
        special = _is(b, T.AtenGtScalarOp, magnitude, f.top)
        wrong = _is(b, T.AtenGtScalarOp, magnitude, f.over)
        number = b.where(
            special, b.where(wrong, _like(b, nan, number), _like(b, inf, number)), number
        )
    negative = _is(b, T.AtenGeScalarOp, codes, f.sign)
    number = b.where(negative, b.unary(T.AtenNegOp, number), number)
    if x.dtype is DataType.FP8_E4M3:
        number = b.where(_is(b, T.AtenEqScalarOp, magnitude, f.nan), _like(b, nan, number), number)
    if f.one_zero:
        number = b.where(_is(b, T.AtenEqScalarOp, codes, f.nan), _like(b, nan, number), number)
    return number


def _decode_scale(b: Builder, codes: Value) -> Value:
    low = b.binary(T.AtenBitwiseLeftShiftTensorOp, _like(b, 1, codes), _and(b, codes, 15))
    number = b.cast(low, F32)
    for bit in (16, 32, 64):
        number = b.mul(number, _power(b, codes, bit))
    # Times 2^-127 in parts, as that is no normal number of float32.
    large = _is(b, T.AtenGeScalarOp, codes, 128)
    for above, below in ((2.0, 2.0**-64), (1.0, 2.0**-63)):
        number = b.mul(number, b.where(large, _like(b, above, number), _like(b, below, number)))
    return b.where(_is(b, T.AtenEqScalarOp, codes, 255), _like(b, nan, number), number)


def _power(b: Builder, exponent: Value, bit: int) -> Value:
    """Return 2^bit where the exponent has that bit, else 1."""
    on = _is(b, T.AtenNeScalarOp, _and(b, exponent, bit), 0)
    return b.where(on, b.literal(2.0**bit, F32, ()), b.literal(1.0, F32, ()))


def encode(b: Builder, x: Value, dtype: DataType) -> Value:
    """Return float32 or float64 numbers as codes of a narrow float, rounded once."""
    if dtype is DataType.FP8_E8M0:
        return _encode_scale(b, x)
    f = _FORMATS[dtype]
    size = b.unary(T.AtenAbsOp, x)
    # In units of the smallest normal number; what is too large shall stay so and be finite.
    size = b.scale(b.unary(T.AtenClampMaxOp, size, 2.0 * dtype.largest), 2.0 ** (f.bias - 1))
    exponent, size = _exponent(b, size, (f.top >> f.mantissa).bit_length())
    # Torch's round is to even.  A carry out of the mantissa goes into the exponent.
    steps = b.cast(b.unary(T.AtenRoundOp, b.scale(size, 2.0**f.mantissa)), I32)
    code = b.add(_left(b, exponent, f.mantissa), steps)
    code = b.where(_is(b, T.AtenGtScalarOp, code, f.top), _like(b, f.over, code), code)
    below = b.call(T.AtenLtScalarOp, x.shape, BOOL, x, 0.0)
    sign = b.where(below, _like(b, f.sign, code), _like(b, 0, code))
    if f.one_zero:
        sign = b.where(_is(b, T.AtenEqScalarOp, code, 0), _like(b, 0, code), sign)
    code = b.where(b.compare(T.AtenNeTensorOp, x, x), _like(b, f.nan, code), _or(b, code, sign))
    return b.relabel(b.cast(code, DataType.UINT8), dtype)


def _exponent(b: Builder, size: Value, bits: int) -> tuple[Value, Value]:
    """Return the exponents (0 below 1) of numbers below 2^2^bits, and the numbers without them."""
    exponent: Value | None = None
    for power in (1 << i for i in reversed(range(bits))):
        above = b.call(T.AtenGeScalarOp, size.shape, BOOL, size, 2.0**power)
        size = b.where(above, b.scale(size, 2.0**-power), size)
        zero = b.literal(0, I32, ())
        part = b.where(above, _like(b, power, zero), zero)
        exponent = part if exponent is None else b.add(exponent, part)
    assert exponent is not None
    return exponent, size


def _biased_exponent(b: Builder, x: Value) -> tuple[Value, Value]:
    """Return ⌊log2 x⌋ + 127 of positive numbers (at least 1, at most 254), and x over that power.

    Below 2^-126 the second is below 1.
    """
    # Large numbers in units of 1, the others in units of 2^-126, whose code is 1.
    large = b.call(T.AtenGeScalarOp, x.shape, BOOL, x, 1.0)
    size = b.unary(T.AtenClampMaxOp, x, 2.0**127)
    size = b.where(large, size, b.scale(size, 2.0**126))
    exponent, size = _exponent(b, size, 7)
    return b.add(exponent, b.where(large, _like(b, 127, exponent), _like(b, 1, exponent))), size


def shared_scale(b: Builder, largest: Value, element: DataType) -> tuple[Value, Value]:
    """Return the E8M0 scales of blocks, and their inverses as float32.

    2^(⌊log2 largest⌋ - ⌊log2 m⌋) with the largest number m of the element type, as in the OCP
    Microscaling Formats specification; at least 2^-127, and NaN where a block is not finite.
    """
    exponent, size = _biased_exponent(b, largest)
    below = b.call(T.AtenLtScalarOp, size.shape, BOOL, size, 1.0)
    exponent = b.where(below, _like(b, 0, exponent), exponent)
    top = frexp(element.largest)[1] - 1
    code = b.unary(T.AtenClampMinOp, _add(b, exponent, -top), 0)
    inverse = _decode_scale(b, b.unary(T.AtenRsubScalarOp, code, 254, 1))
    finite = b.call(T.AtenLtScalarOp, largest.shape, BOOL, largest, inf)
    code = b.where(finite, code, _like(b, 255, code))
    return b.relabel(b.cast(code, DataType.UINT8), DataType.FP8_E8M0), inverse


def _encode_scale(b: Builder, x: Value) -> Value:
    """Return the exponents of positive numbers, rounded; all other numbers become NaN."""
    code, size = _biased_exponent(b, x)
    # Ties go up, also between the smallest code and the next.
    up = b.call(T.AtenGeScalarOp, x.shape, BOOL, size, 1.5)
    code = b.where(up, _add(b, code, 1), code)
    least = b.call(T.AtenLtScalarOp, x.shape, BOOL, size, 0.75)
    code = b.where(least, _like(b, 0, code), code)
    bad = b.call(T.AtenLogicalNotOp, x.shape, BOOL, b.call(T.AtenGtScalarOp, x.shape, BOOL, x, 0.0))
    code = b.where(bad, _like(b, 255, code), code)
    infinite = b.call(T.AtenEqScalarOp, x.shape, BOOL, x, inf)
    code = b.where(infinite, _like(b, 255, code), code)
    return b.relabel(b.cast(code, DataType.UINT8), DataType.FP8_E8M0)


def native(b: Builder, x: Value) -> Value:
    """Return codes in the compiler's own type, for a matmul; other values as they are."""
    if not is_code(x.dtype):
        return x
    shape, info = ",".join(map(str, x.shape)), x.dtype.value
    kind = ir.Type.parse(f"!torch.vtensor<[{shape}],{info.mlir}>")
    op = T.AtenViewDtypeOp(kind, x.ssa, b.constant(info.torch_code))
    return b.value(op.result, x.shape, x.dtype)


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


def _left(b: Builder, x: Value, bits: int) -> Value:
    return b.binary(T.AtenBitwiseLeftShiftTensorOp, x, _like(b, bits, x))


def _right(b: Builder, x: Value, bits: int) -> Value:
    return b.binary(T.AtenBitwiseRightShiftTensorOp, x, _like(b, bits, x))
