"""C's fmod and pow, which Torch and the compiler only approximate."""

from __future__ import annotations

from math import frexp, inf, nan

from ...graph_api.dtypes import DataType
from ..emit.builder import Builder, T, Value

__all__ = ["power", "remainder"]

F32, F64 = DataType.FLOAT, DataType.DOUBLE
_DOUBLE_ROUNDS = 6


def remainder(b: Builder, x: Value, y: Value) -> Value:
    """Return C's fmod: exact, with the sign of x (W-103).

    Long division in float64, by digits so short that no product is rounded.  The operands of
    narrower types have few bits, so that a divisor's product with a digit of the quotient fits in
    53; doubles are divided in two halves.  Of these only quotients below 2^156 are covered, as
    each digit takes 26 bits of an exponent's 2098; beyond, the result is NaN.
    """
    if not x.dtype.is_float:
        return b.binary(T.AtenFmodTensorOp, x, y)
    wide_x, wide_y = (v if v.dtype is F64 else b.cast(v, F64) for v in (x, y))
    dividend, divisor = b.unary(T.AtenAbsOp, wide_x), b.unary(T.AtenAbsOp, wide_y)
    inside = b.compare(T.AtenLtTensorOp, dividend, divisor)
    if x.dtype is F64:
        rest = _double_rest(b, dividend, divisor)
    else:
        mantissa = x.dtype.value.mantissa + 1
        exponents = frexp(x.dtype.largest)[1] - x.dtype.tiny_exponent
        digit = 52 - mantissa
        rest = _rest(b, dividend, (divisor,), divisor, digit, -(-exponents // digit))
        rest = b.cast(rest, F32)
        rest = rest if x.dtype is F32 else b.convert(rest, x.dtype)
    negative = b.call(T.AtenLtScalarOp, x.shape, DataType.BOOLEAN, x, 0.0)
    return b.where(inside, x, b.where(negative, b.negate(rest), rest))


def _rest(
    b: Builder, rest: Value, parts: tuple[Value, ...], divisor: Value, digit: int, rounds: int
) -> Value:
    """Return the rest of a division; the parts add up to the divisor."""
    inverse = b.unary(T.AtenReciprocalOp, divisor)
    for i in reversed(range(rounds)):
        shift = 2.0 ** (digit * i)
        # To the nearest digit, so that the rest is at most half the divisor, of either sign.
        quotient = b.unary(T.AtenRoundOp, b.mul(rest, b.scale(inverse, 1 / shift)))
        quotient = b.scale(quotient, shift)
        for part in parts:
            rest = b.sub(rest, b.mul(quotient, part))
    below = b.call(T.AtenLtScalarOp, rest.shape, DataType.BOOLEAN, rest, 0.0)
    return b.where(below, b.add(rest, divisor), rest)


def _double_rest(b: Builder, x: Value, y: Value) -> Value:
    """Return the rest of two positive doubles, both scaled where y is large."""
    large = b.call(T.AtenGtScalarOp, y.shape, DataType.BOOLEAN, y, 2.0**500)
    down, up = (
        b.where(large, b.literal(f, F64, ()), b.literal(1.0, F64, ()))
        for f in (2.0**-600, 2.0**600)
    )
    x, y = b.mul(x, down), b.mul(y, down)
    # Dekker's halves of 26 bits.
    split = b.scale(y, 2.0**27 + 1)
    high = b.sub(split, b.sub(split, y))
    rest = _rest(b, x, (high, b.sub(y, high)), y, 26, _DOUBLE_ROUNDS)
    known = b.compare(T.AtenLtTensorOp, x, b.scale(y, 2.0 ** (26 * _DOUBLE_ROUNDS)))
    return b.where(known, b.mul(rest, up), b.literal(nan, F64, ()))


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
