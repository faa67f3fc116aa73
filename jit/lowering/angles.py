"""sin, cos and tan on the CPU, where IREE's own lose digits with the size of the angle (W-101).

The angle is counted in quarter turns: x · 2/π, modulo 4, in float64.  For operands of up to 24
significant bits 2/π comes in parts of 29 bits, so that each product is exact, and so is its
remainder modulo 4: no digit is lost at any size.  (After M. Payne and R. Hanek, "Radian reduction
for trigonometric functions", SIGNUM 18, 1983.)  Doubles are reduced by Cody and Waite's parts of
π/2.  What is left is within ±π/4, where the Taylor series ends early.
"""

from __future__ import annotations

from collections.abc import Callable
from math import factorial, pi

from ...graph_api.dtypes import DataType
from ..emit.builder import Builder, T, Value
from .double_math import polynomial

__all__ = ["cos", "needed", "sin", "tan"]

F32, F64 = DataType.FLOAT, DataType.DOUBLE

# ⌊2^203 · 2/π⌋ in seven parts of 29 bits: float32 ends below 2^128, and the last part still tells
# 2^-75 of a turn there.
_BITS = 0x517CC1B727220A94FE13ABE8FA9A6EE06DB14ACC9E21C820FF2
_PARTS = tuple(float((_BITS >> (29 * (6 - i))) % 2**29) * 2.0 ** (-29 * (i + 1)) for i in range(7))
# π/2 in three parts with trailing zero bits, so that k times each of the first two is exact for
# |k| < 2^20: doubles up to about 1.6e6 keep all their digits.
_HALF_PI = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)
_TERMS = {F32: 6, F64: 10}  # (π/4)^13 / 13! < 2^-37, (π/4)^21 / 21! < 2^-64


def needed(b: Builder, x: Value) -> bool:
    """Whether the target's own functions lose digits."""
    return b.strikes("W-101")


def _floor(b: Builder, x: Value) -> Value:
    return b.unary(T.AtenFloorOp, x)


def _modulo_4(b: Builder, x: Value) -> Value:
    return b.sub(x, b.scale(_floor(b, b.scale(x, 0.25)), 4.0))


def _nearest(b: Builder, x: Value) -> Value:
    return _floor(b, b.add(x, b.literal(0.5, F64, ())))


def _reduced(b: Builder, x: Value) -> tuple[Value, Value]:
    """Return the nearest number of quarter turns and the rest, for 24 significant bits."""
    parts = [_modulo_4(b, b.scale(x, part)) for part in _PARTS]
    total = parts[-1]
    for part in reversed(parts[:-1]):
        total = b.add(total, part)
    k = _nearest(b, total)
    rest = b.sub(parts[0], k)
    for part in parts[1:]:
        rest = b.add(rest, part)
    return k, b.scale(rest, pi / 2)


def _reduced_double(b: Builder, x: Value) -> tuple[Value, Value]:
    k = _nearest(b, b.scale(x, 2 / pi))
    rest = x
    for part in _HALF_PI:
        rest = b.sub(rest, b.scale(k, part))
    return k, rest


def _quadrant(b: Builder, x: Value, precision: DataType) -> tuple[Value, Value, Value]:
    """Return k mod 4 for the nearest multiple k · π/2, and sin and cos of the rest."""
    k, rest = (_reduced if precision is F32 else _reduced_double)(b, x)
    square, terms = b.mul(rest, rest), _TERMS[precision]
    sines = [(-1) ** n / factorial(2 * n + 1) for n in reversed(range(terms))]
    cosines = [(-1) ** n / factorial(2 * n) for n in reversed(range(terms + 1))]
    sine = b.mul(rest, polynomial(b, square, sines))
    return _modulo_4(b, k), sine, polynomial(b, square, cosines)


def _turned(b: Builder, which: Value, s: Value, c: Value) -> Value:
    """Return sin of the whole angle: s, c, -s, -c in quadrants 0, 1, 2, 3."""
    half = b.call(T.AtenGeScalarOp, which.shape, DataType.BOOLEAN, which, 1.5)
    within = b.where(half, b.sub(which, b.literal(2.0, which.dtype, ())), which)
    odd = b.call(T.AtenGeScalarOp, which.shape, DataType.BOOLEAN, within, 0.5)
    value = b.where(odd, c, s)
    return b.where(half, b.negate(value), value)


def _sine(b: Builder, which: Value, s: Value, c: Value) -> Value:
    return _turned(b, which, s, c)


def _cosine(b: Builder, which: Value, s: Value, c: Value) -> Value:
    # cos of quadrant q is sin of quadrant q + 1.
    return _turned(b, which, c, b.negate(s))


def _tangent(b: Builder, which: Value, s: Value, c: Value) -> Value:
    return b.binary(T.AtenDivTensorOp, _sine(b, which, s, c), _cosine(b, which, s, c))


def _function(of: Callable[..., Value], *, odd: bool) -> Callable[[Builder, Value], Value]:
    def function(b: Builder, x: Value) -> Value:
        if x.dtype is F64:
            return of(b, *_quadrant(b, x, F64))
        y = b.convert(b.cast(of(b, *_quadrant(b, b.cast(x, F64), F32)), F32), x.dtype)
        if not odd:
            return y
        # Small angles are their own sine and tangent; -0 among them.
        size = b.unary(T.AtenAbsOp, x)
        small = b.call(T.AtenLtScalarOp, x.shape, DataType.BOOLEAN, size, 2.0**-13)
        return b.where(small, x, y)

    return function


sin = _function(_sine, odd=True)
cos = _function(_cosine, odd=False)
tan = _function(_tangent, odd=True)
