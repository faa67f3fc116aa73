# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""C's fmod and pow, which Torch and the compiler only approximate, and division of integers."""

from __future__ import annotations

from math import frexp, inf, nan

from ...graph_api.dtypes import DataType
from ..emit.builder import Builder, T, Value
from .double_remainder import double_remainder

__all__ = ["divide", "power", "remainder"]

F32, F64 = DataType.FLOAT, DataType.DOUBLE


def divide(b: Builder, x: Value, y: Value) -> Value:
    """Return the quotient; that of integers is truncated, and 0 where the divisor is 0."""
    if x.dtype.is_float:
        return b.binary(T.AtenDivTensorOp, x, y)
    zero, minus, safe = _divisor(b, y)
    quotient = b.binary(T.AtenDivTensorModeOp, x, safe, "trunc")
    return b.where(zero, b.literal(0, x.dtype, ()), b.where(minus, b.negate(x), quotient))


def _divisor(b: Builder, y: Value) -> tuple[Value, Value, Value]:
    """Return where an integer is 0, where it is -1, and the integer with 1 instead of both.

    An x86 CPU ends the process (SIGFPE) where an integer is divided by 0, and the smallest one by
    -1.
    """
    zero, minus = (b.call(T.AtenEqScalarOp, y.shape, DataType.BOOLEAN, y, n) for n in (0, -1))
    either = b.compare(T.AtenLogicalOrOp, zero, minus)
    return zero, minus, b.where(either, b.literal(1, y.dtype, ()), y)


def remainder(b: Builder, x: Value, y: Value) -> Value:
    """Return C's fmod: exact, with the sign of x (W-103); of integers 0 where the divisor is 0.

    Doubles are divided as integers.  Narrower types have few bits: their long division in float64
    is by digits so short that no product is rounded.
    """
    if not x.dtype.is_float:
        return b.binary(T.AtenFmodTensorOp, x, _divisor(b, y)[2])
    if x.dtype is F64:
        return double_remainder(b, x, y)
    dividend, divisor = (b.unary(T.AtenAbsOp, b.cast(v, F64)) for v in (x, y))
    mantissa = x.dtype.value.mantissa + 1
    exponents = frexp(x.dtype.largest)[1] - x.dtype.tiny_exponent
    digit = 52 - mantissa
    rest = b.convert(
        b.cast(_rest(b, dividend, divisor, digit, -(-exponents // digit)), F32), x.dtype
    )
    negative = b.call(T.AtenLtScalarOp, x.shape, DataType.BOOLEAN, x, 0.0)
    inside = b.compare(T.AtenLtTensorOp, dividend, divisor)
    return b.where(inside, x, b.where(negative, b.negate(rest), rest))


def _rest(b: Builder, rest: Value, divisor: Value, digit: int, rounds: int) -> Value:
    """Return the rest of a division."""
    inverse = b.unary(T.AtenReciprocalOp, divisor)
    for i in reversed(range(rounds)):
        shift = 2.0 ** (digit * i)
        # To the nearest digit, so that the rest is at most half the divisor, of either sign.
        # (Rounding to even takes a CPU twenty instructions.)
        quotient = b.add(b.mul(rest, b.scale(inverse, 1 / shift)), b.literal(0.5, F64, ()))
        quotient = b.unary(T.AtenFloorOp, quotient)
        rest = b.sub(rest, b.mul(b.scale(quotient, shift), divisor))
    below = b.call(T.AtenLtScalarOp, rest.shape, DataType.BOOLEAN, rest, 0.0)
    return b.where(below, b.add(rest, divisor), rest)


def power(b: Builder, x: Value, y: Value) -> Value:
    """Return C's pow; on the CPU as exp(y · log|x|) in float64, with the cases apart (W-102)."""
    if not b.strikes("W-102"):
        return b.binary(T.AtenPowTensorTensorOp, x, y)
    kind = x.dtype
    x, y = (v if kind is F64 else b.cast(v, F64) for v in (x, y))
    zero, one = b.literal(0.0, F64, ()), b.literal(1.0, F64, ())
    size = b.unary(T.AtenAbsOp, x)
    value = b.unary(T.AtenExpOp, b.mul(y, b.unary(T.AtenLogOp, size)))
    # 1 to the power of anything, also of infinity.
    value = b.where(b.compare(T.AtenEqTensorOp, size, one), one, value)
    below = b.compare(T.AtenLtTensorOp, x, zero)
    finite = b.compare(T.AtenGtTensorOp, x, b.literal(-inf, F64, ()))
    half = b.scale(y, 0.5)
    whole = b.compare(T.AtenEqTensorOp, y, b.unary(T.AtenFloorOp, y))
    odd = b.compare(T.AtenNeTensorOp, half, b.unary(T.AtenFloorOp, half))
    # -0 is below 0 too, which its inverse tells.
    minus_zero = b.compare(T.AtenLtTensorOp, b.unary(T.AtenReciprocalOp, x), zero)
    minus = b.compare(T.AtenLogicalOrOp, below, minus_zero)
    for other in (whole, odd):
        minus = b.compare(T.AtenLogicalAndOp, minus, other)
    value = b.where(minus, b.negate(value), value)
    broken = b.unary(T.AtenLogicalNotOp, whole)
    for other in (below, finite):
        broken = b.compare(T.AtenLogicalAndOp, broken, other)
    value = b.where(broken, b.literal(nan, F64, ()), value)
    value = b.where(b.compare(T.AtenEqTensorOp, y, zero), one, value)
    return value if kind is F64 else b.convert(b.cast(value, F32), kind)
