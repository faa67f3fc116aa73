# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""sin, cos and tan on the CPU, where IREE's own lose digits with the size of the angle (W-101).

The angle is counted in quarter turns: x · 2/π, modulo 4.  Large angles are scaled down by a power
of two, and 2/π is scaled up by it: what its leading bits contribute are whole turns, so that they
can be left out, and few products remain (after M. Payne and R. Hanek, "Radian reduction for
trigonometric functions", SIGNUM 18, 1983).  The rows of a table have the bits that are left for
each range of angles; the row is chosen by halving, without branches.  All products are exact, so
that it does not matter whether the compiler fuses them with sums.  What is left of the angle is
within an eighth of a turn, where the Taylor series ends early.

Errors, in units of the compute type's epsilon: sin and cos 2 of the result, tan 4, at every angle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from math import factorial, pi

from ...graph_api.dtypes import DataType
from ..emit.builder import Builder, Value
from ..emit.elements import Element, elementwise

__all__ = ["cos", "needed", "sin", "tan"]

F32, F64 = DataType.FLOAT, DataType.DOUBLE
_BITS = 26  # of a digit of 2/π, and between two ranges of angles
_DIGITS = 48  # doubles end below 2^1024: 39 ranges, 8 digits each
_ROUNDS = 7  # the error is 2^-128 of a quarter turn; no double is nearer than 2^-62 to a whole one


@dataclass(frozen=True)
class _Table:
    """What is left of 2/π for angles below 2^limit, and for each range of 26 bits beyond."""

    limit: int
    rows: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class _Series:
    """Coefficients of sin and cos of quarter turns, highest power first."""

    sine: tuple[float, ...]
    cosine: tuple[float, ...]

    @classmethod
    def of(cls, terms: int) -> _Series:
        signed = [(-1) ** (n // 2) * (pi / 2) ** n / factorial(n) for n in range(2 * terms + 1)]
        return cls(tuple(signed[-2::-2]), tuple(signed[::-2]))


# (π/4)^10 / 11! < 2^-28, (π/4)^18 / 19! < 2^-62; those of cos, with a term more, are smaller.
_SERIES = {F32: _Series.of(5), F64: _Series.of(9)}


def needed(b: Builder, x: Value) -> bool:
    """Whether the target's own functions lose digits."""
    return b.strikes("W-101")


def _arctan_of_inverse(n: int, one: int) -> int:
    total, power, k = 0, one // n, 1
    while power:
        total += power // k if k % 4 == 1 else -(power // k)
        power, k = power // (n * n), k + 2
    return total


@lru_cache(maxsize=1)
def _two_over_pi() -> int:
    """Return ⌊2/π · 2^(26 · 48)⌋, by Machin's formula for π."""
    bits = _BITS * _DIGITS
    one = 1 << (bits + 64)
    quarter = 4 * _arctan_of_inverse(5, one) - _arctan_of_inverse(239, one)
    return (one << bits) // (2 * quarter)


def _digits(first: int, count: int) -> int:
    """Return ``count`` bits of 2/π that follow the first ``first`` ones."""
    return (_two_over_pi() >> (_BITS * _DIGITS - first - count)) % (1 << count)


@lru_cache(maxsize=2)
def _table(precision: DataType) -> _Table:
    if precision is F32:
        # An angle has 24 bits: parts of 29, the last one with all that a double takes.
        parts = ((0, 29), (29, 29), (58, 53))
        rows = (
            tuple(_digits(_BITS * j + at, n) * 2.0 ** -(at + n) for at, n in parts)
            for j in range(4)
        )
        return _Table(51, tuple(rows))
    digits = [_digits(_BITS * i, _BITS) for i in range(_DIGITS)]
    # Of either sign, but for the first: a bit less, and sums of two products are exact.
    for i in reversed(range(1, _DIGITS)):
        if digits[i] >= 2 ** (_BITS - 1):
            digits[i] -= 2**_BITS
            digits[i - 1] += 1
    line = [0.0, *map(float, digits)]
    return _Table(54, tuple(tuple(line[j : j + _ROUNDS + 1]) for j in range(39)))


def _scaled(x: Element, table: _Table, double: Element) -> tuple[Element, list[Element]]:
    """Return angles below 2^limit, and the row of each; ``double`` is any double."""
    rows: list[Sequence[float | Element]] = list(table.rows)
    step = 1 << ((len(rows) - 1).bit_length() - 1)
    while step:
        far = x.size() >= 2.0 ** (table.limit + _BITS * (step - 1))
        x = x * far.choose(x.number(2.0 ** (-_BITS * step)), x.number(1.0))
        # Rows overlap: each pair is chosen from once.
        chosen: dict[tuple[float | Element, float | Element], Element] = {}
        pairs = [list(zip(rows[i + step], rows[i], strict=True)) for i in range(len(rows) - step)]
        for pair in (p for row in pairs for p in row):
            if pair not in chosen:
                chosen[pair] = far.choose(*(double.number(part) for part in pair))
        rows = [[chosen[p] for p in row] for row in pairs] + rows[len(pairs) : step]
        step //= 2
    return x, [double.number(part) for part in rows[0]]


def _within_a_turn(x: Element) -> Element:
    return x - (x * 0.25).nearest() * 4.0


def _reduced(x: Element) -> tuple[Element, Element]:
    """Return the nearest number of quarter turns, less whole turns, and the rest."""
    x, parts = _scaled(x, _table(F32), x.double())
    wide = x.double()
    large, middle, small = (wide * part for part in parts)
    large = _within_a_turn(large)
    k = (large + middle).nearest()
    return k.single(), (large - k + middle + small).single()


def _reduced_double(x: Element) -> tuple[Element, Element]:
    x, row = _scaled(x, _table(F64), x)
    # Veltkamp's halves of 26 bits.
    moved = x * 2.0**27 + x
    high = moved - (moved - x)
    low = (x - high) * 2.0**_BITS
    # Two products with the same last place, of 52 and 51 bits: their sum is exact.
    first, second, *others = (
        (high * row[i] + low * row[i - 1]) * 2.0 ** (-_BITS * i) for i in range(1, _ROUNDS + 1)
    )
    first, second = _within_a_turn(first), _within_a_turn(second)
    k = (first + second + others[0]).nearest()
    rest, lost = first - k, []
    for place in (second, *others[:3]):
        rest, error = _two_sum(rest, place)
        lost.append(error)
    return k, rest + sum(others[3:], sum(lost[1:], lost[0]))


def _two_sum(x: Element, y: Element) -> tuple[Element, Element]:
    """Return a sum and what rounding took from it (D. E. Knuth)."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def _polynomial(x: Element, coefficients: Sequence[float]) -> Element:
    y = x.number(coefficients[0])
    for c in coefficients[1:]:
        y = y * x + c
    return y


def _halved(k: Element) -> tuple[Element, Element]:
    """Return ⌊k / 2⌋, and whether k is odd."""
    half = k * 0.5
    whole = half.floor()
    return whole, half.differs(whole)


def _sine(k: Element, s: Element, c: Element) -> Element:
    """Return sin of the whole angle: s, c, -s, -c in quadrants 0, 1, 2, 3."""
    half, odd = _halved(k)
    _, minus = _halved(half)
    value = odd.choose(c, s)
    return minus.choose(-value, value)


def _cosine(k: Element, s: Element, c: Element) -> Element:
    return _sine(k + 1.0, s, c)


def _tangent(k: Element, s: Element, c: Element) -> Element:
    _, odd = _halved(k)
    return odd.choose(c, s) / odd.choose(-s, c)


def _of(x: Element, *, precision: DataType, function: Callable[..., Element], odd: bool) -> Element:
    k, rest = (_reduced if precision is F32 else _reduced_double)(x)
    square, series = rest * rest, _SERIES[precision]
    sine = rest * _polynomial(square, series.sine)
    y = function(k, sine, _polynomial(square, series.cosine))
    # Small angles are their own sine and tangent; -0 among them.
    return (x.size() < 2.0 ** (-13 if precision is F32 else -27)).choose(x, y) if odd else y


def _function(function: Callable[..., Element], *, odd: bool) -> Callable[[Builder, Value], Value]:
    def emit(b: Builder, x: Value) -> Value:
        wide = x if x.dtype is F64 else b.convert(x, F32)
        body = partial(_of, precision=wide.dtype, function=function, odd=odd)
        return b.convert(elementwise(b, [wide], body), x.dtype)

    return emit


sin = _function(_sine, odd=True)
cos = _function(_cosine, odd=False)
tan = _function(_tangent, odd=True)
