# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Floating-point arithmetic on arrays, as the instructions define it.

Transcendental functions are rounded once from double precision; the hardware's last bit differs.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from .formats import Array, flush

__all__ = [
    "clamp",
    "class_test",
    "div_fixup",
    "div_fmas",
    "div_scale",
    "f16_toward_zero",
    "fma",
    "fmax",
    "fmin",
    "fract",
    "med3",
    "saturate",
    "transcendental",
    "trig_preop",
]

F16, F32, F64 = np.float16, np.float32, np.float64
U64 = np.uint64
# fraction bits, exponent bits, unsigned type
_LAYOUT: dict[Any, tuple[int, int, Any]] = {
    np.dtype(F16): (10, 5, np.uint16),
    np.dtype(F32): (23, 8, np.uint32),
    np.dtype(F64): (52, 11, np.uint64),
}


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _to_odd(s: Array, error: Array) -> Array:
    """Return sums whose last bit is set if they are inexact, so that rounding again is harmless."""
    bits = np.ascontiguousarray(s).view(np.int64)
    fix = (error != 0) & np.isfinite(s) & ((bits & 1) == 0)
    toward = np.where((error > 0) == (s > 0), bits + 1, bits - 1)
    return np.where(fix, toward, bits).view(F64)


def fma(a: Array, b: Array, c: Array) -> Array:
    """Return ``a * b + c`` with one rounding, in the type of `a`."""
    if a.dtype == F64:
        return _fma64(a, b, c)
    product = a.astype(F64) * b.astype(F64)  # exact
    wide = c.astype(F64)
    total = product + wide
    fraction = _LAYOUT[a.dtype][0]
    # The second rounding errs only from a tie, or where results are denormal.
    tail = np.ascontiguousarray(total).view(U64) & U64((1 << (52 - fraction)) - 1)
    smallest = float(np.finfo(a.dtype).smallest_normal)
    if (tail == U64(1 << (51 - fraction))).any() or (
        (np.abs(total) < smallest) & (total != 0)
    ).any():
        total = _to_odd(*_two_sum(product, wide))
    return total.astype(a.dtype)


def _split(x: Array) -> tuple[Array, Array]:
    t = x * F64(134217729.0)
    high = t - (t - x)
    return high, x - high


def _fma64(a: Array, b: Array, c: Array) -> Array:
    a, b, c = (np.ascontiguousarray(x) for x in np.broadcast_arrays(a, b, c))
    product = a * b
    ah, al = _split(a)
    bh, bl = _split(b)
    error = ((ah * bh - product) + ah * bl + al * bh) + al * bl
    # Emulated fma after Boldo and Melquiond: sum the three parts, the small ones rounded to odd.
    uh, ul = _two_sum(c, error)
    th, tl = _two_sum(product, uh)
    result = th + _to_odd(*_two_sum(tl, ul))
    middle = [np.abs(x) for x in (a, b, c, product)]
    safe = np.ones(a.shape, bool)
    for x in middle:
        safe &= (x == 0) | ((x > 1e-250) & (x < 1e250))
    safe &= (product != 0) | (a == 0) | (b == 0)
    exact = product + c
    result = np.where((product == 0) | (c == 0) & (error == 0), exact, result)
    if safe.all():
        return result
    out = np.where(safe, result, exact)
    finite = ~safe & np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
    for at in np.argwhere(finite):
        where = tuple(at)
        value = Fraction(float(a[where])) * Fraction(float(b[where])) + Fraction(float(c[where]))
        if value:
            try:
                out[where] = value.numerator / value.denominator
            except OverflowError:
                out[where] = np.inf if value > 0 else -np.inf
    return out


def _signs(a: Array, b: Array) -> tuple[Any, Array, Array]:
    unsigned = _LAYOUT[a.dtype][2]
    return unsigned, a.view(unsigned), b.view(unsigned)


def fmin(a: Array, b: Array) -> Array:
    """Return the smaller number; NaN only of two NaN; -0 is smaller than 0."""
    r = np.fmin(a, b)
    if (r == 0).any():
        _, x, y = _signs(a, b)
        return np.where((a == 0) & (b == 0), (x | y).view(a.dtype), r)
    return r


def fmax(a: Array, b: Array) -> Array:
    """Return the larger number; NaN only of two NaN; 0 is larger than -0."""
    r = np.fmax(a, b)
    if (r == 0).any():
        _, x, y = _signs(a, b)
        return np.where((a == 0) & (b == 0), (x & y).view(a.dtype), r)
    return r


def med3(a: Array, b: Array, c: Array) -> Array:
    """Return the median; with NaN among them the minimum of the others."""
    middle = fmax(fmin(a, b), fmin(fmax(a, b), c))
    nan = np.isnan(a) | np.isnan(b) | np.isnan(c)
    return np.where(nan, fmin(fmin(a, b), c), middle)


def clamp(x: Array, nan_is_zero: bool) -> Array:
    """Return `x` between 0 and 1."""
    low = np.where(x > 0, np.minimum(x, x.dtype.type(1)), x.dtype.type(0))
    return low if nan_is_zero else np.where(np.isnan(x), x, low)


def fract(x: Array) -> Array:
    """Return what is above the floor, below 1."""
    most = np.nextafter(x.dtype.type(1), x.dtype.type(0))
    wide = (x.astype(F64) - np.floor(x.astype(F64))).astype(x.dtype)
    return np.where(np.isnan(x) | np.isinf(x), x.dtype.type(np.nan), np.minimum(wide, most))


def transcendental(fn: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return the instruction of a function: single precision without denormals."""

    def compute(x: Array) -> Array:
        single = x.dtype == F32
        wide = (flush(np.ascontiguousarray(x)) if single else x).astype(F64)
        result = np.asarray(fn(wide)).astype(x.dtype)
        return flush(result) if single else result

    return compute


def saturate(dtype: Any) -> Callable[[Array], Array]:
    """Return the conversion of floats to an integer: toward zero, saturated; NaN is 0."""
    info = np.iinfo(dtype)

    def convert(x: Array) -> Array:
        y = np.trunc(x.astype(F64))
        y = np.where(np.isnan(y), 0.0, np.clip(y, float(info.min), float(info.max)))
        return y.astype(np.int64).astype(dtype)

    return convert


def f16_toward_zero(x: Array) -> Array:
    """Return float32 as half, rounded toward zero (what is finite stays so)."""
    half = x.astype(F16)
    beyond = np.abs(half.astype(F64)) > np.abs(x.astype(F64))
    bits = half.view(np.uint16)
    return np.where(beyond, bits - np.uint16(1), bits).view(F16)


def _exponent(x: Array) -> Array:
    fraction, width, unsigned = _LAYOUT[x.dtype]
    field = np.ascontiguousarray(x).view(unsigned) >> unsigned(fraction)
    return field.astype(np.int64) & ((1 << width) - 1)


def _denormal(x: Array) -> Array:
    return (_exponent(x) == 0) & (x != 0)


def div_scale(x: Array, d: Array, n: Array) -> tuple[Array, Array]:
    """Return v_div_scale: `x`, which is the denominator `d` or the numerator `n`, scaled.

    The division that follows then neither overflows nor loses bits.  The second result says
    whether its quotient is to be scaled back.
    """
    single = x.dtype == F32
    power, near, tiny = (64, 96, 23) if single else (128, 768, 53)
    up, down = np.ldexp(x, power), np.ldexp(x, -power)
    smallest = np.finfo(x.dtype).smallest_normal
    reciprocal = np.abs(1.0 / d.astype(F64)) < smallest if single else _denormal(1.0 / d)
    # In single precision the quotient is exact enough in double to tell a denormal one.
    quotient = np.abs(n.astype(F64) / d.astype(F64))
    small = (quotient < smallest) & (quotient != 0)
    is_d, is_n = x == d, x == n
    rules: list[tuple[Array, Array, bool]] = [
        ((d == 0) | (n == 0), np.full_like(x, np.nan), False),
        (_exponent(n) - _exponent(d) >= near, np.where(is_d, up, x), True),
        (_denormal(d), up, False),
        # AMD's manuals scale up here, which would overflow the denominator.
        (reciprocal & small, np.where(is_d, down, x), True),
        (reciprocal, down, False),
        (small, np.where(is_n, up, x), True),
        (_exponent(n) <= tiny, up, False),
    ]
    conditions = [r[0] for r in rules]
    value = np.select(conditions, [r[1] for r in rules], x).astype(x.dtype)
    return value, np.select(conditions, [np.full(x.shape, r[2]) for r in rules], False)


def div_fmas(a: Array, b: Array, c: Array, scaled: Array) -> Array:
    """Return v_div_fmas: the fused product and sum, scaled back where `scaled`."""
    power, bias = (64, 127) if a.dtype == F32 else (128, 1023)
    plain = fma(a, b, c)
    factor = np.where(_exponent(np.ascontiguousarray(c)) > bias, 2.0**power, 2.0**-power).astype(
        a.dtype
    )
    return np.where(scaled, plain * factor, plain)


def div_fixup(q: Array, d: Array, n: Array) -> Array:
    """Return v_div_fixup: the quotient `q` of ``n / d`` with the special cases put right."""
    dtype = q.dtype.type
    below = {2: -25, 4: -150, 8: -1075}[q.dtype.itemsize]
    negative = np.signbit(d) ^ np.signbit(n)
    infinity, zero = (np.where(negative, -dtype(v), dtype(v)) for v in (np.inf, 0.0))
    r = np.where(negative, -np.abs(q), np.abs(q))
    # The steps before turn a quotient that is too large into inf - inf.
    r = np.where(np.isnan(q), infinity, r)
    r = np.where(_exponent(n) - _exponent(d) < below, zero, r)
    r = np.where(np.isinf(d) | (n == 0), zero, r)
    r = np.where(np.isinf(n) | (d == 0), infinity, r)
    r = np.where(((d == 0) & (n == 0)) | (np.isinf(d) & np.isinf(n)), -dtype(np.nan), r)
    r = np.where(np.isnan(d), d, r)
    return np.where(np.isnan(n), n, r).astype(q.dtype)


@cache
def _two_by_pi() -> int:
    """Return the first `_DIGITS` bits of 2/pi, by Machin's formula."""
    one = 1 << _DIGITS + 64

    def arctangent(inverse: int) -> int:
        term, total, k = one // inverse, 0, 1
        while term:
            total += term // k if k % 4 == 1 else -(term // k)
            term, k = term // inverse**2, k + 2
        return total

    pi = 4 * (4 * arctangent(5) - arctangent(239))
    return (one << _DIGITS + 1) // pi


_DIGITS = 1184  # 37 words of 32 bits


def trig_preop(x: Array, segment: Array) -> Array:
    """Return v_trig_preop_f64: 53 bits of 2/pi in their place, those that matter for an angle.

    Higher digits than those that the first segment begins with make whole turns only.  Beyond the
    digits that the hardware holds, the segment is 0; for angles from 2^945 on all are scaled by
    2^128.  What is below the smallest double is cut off.

    Parameters
    ----------
    x : numpy.ndarray of float64
        Angles; their signs do not matter.  NaN is the result for NaN.
    segment : numpy.ndarray of uint32
        Of its low five bits.
    """
    exponent = _exponent(np.ascontiguousarray(x))
    shift = 53 * (segment.astype(np.int64) & 31) + np.maximum(exponent - 1077, 0)
    known = shift < _DIGITS - 64  # all 64 bits from the word on in which the segment begins
    shift = np.where(known, shift, 0)
    which, at = np.unique(shift, return_inverse=True)
    bits = [_two_by_pi() >> (_DIGITS - 53 - int(n)) & (1 << 53) - 1 for n in which]
    value = np.array(bits, F64)[at].reshape(shift.shape)
    scale = np.where(exponent >= 1968, 128, 0) - 53 - shift
    lost = np.maximum(-1074 - scale, 0)  # bits
    value = np.where(lost > 0, np.floor(np.ldexp(value, -lost)), value)
    result = np.where(known, np.ldexp(value, scale + lost), 0.0)
    return np.where(np.isnan(x), x, result)


def class_test(x: Array, mask: Array) -> Array:
    """Return whether each value is of one of the classes whose bits are set in `mask`.

    Bits: signalling NaN, quiet NaN, -infinity, -normal, -denormal, -0, 0, denormal, normal,
    infinity.
    """
    fraction, width, unsigned = _LAYOUT[x.dtype]
    x, mask = np.broadcast_arrays(x, mask)
    bits = np.ascontiguousarray(x).view(unsigned)
    rest = bits & unsigned((1 << fraction) - 1)
    exponent, negative = _exponent(x), np.signbit(x)
    top, quiet = exponent == (1 << width) - 1, (rest >> unsigned(fraction - 1)) == 1
    which = np.select(
        [top & (rest != 0) & ~quiet, top & (rest != 0), top, exponent > 0, rest != 0],
        [0, 1, np.where(negative, 2, 9), np.where(negative, 3, 8), np.where(negative, 4, 7)],
        np.where(negative, 5, 6),
    )
    return (mask.astype(np.int64) >> which & 1).astype(bool)
