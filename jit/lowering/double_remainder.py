# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""C's fmod of doubles, in integers: exact for every quotient, of which there are up to 2^2098.

A double is an integer times a power of two.  The dividend's integer is shifted left, some bits at
a time, and replaced by its rest, until the powers are equal; the usual quotients take one step.
"""

from __future__ import annotations

from ..emit.builder import Builder, Value
from ..emit.elements import Element, elementwise, repeat

__all__ = ["double_remainder"]

_STEP = 10  # bits of the quotient at a time: with the 53 of a divisor they are fewer than 64
_ONE = 1 << 52  # the bit of a mantissa that is not stored
_INFINITE, _SIGN = 0x7FF << 52, -(2**63)


def double_remainder(b: Builder, x: Value, y: Value) -> Value:
    """Return the rest of x / y with the sign of x; NaN for an infinite x, and where y is 0."""
    return elementwise(b, [x, y], _remainder)


def _remainder(x: Element, y: Element) -> Element:
    top, bottom = (v.bits() & ~_SIGN for v in (x, y))
    (upper, dividend), (lower, divisor) = _parts(top), _parts(bottom)
    divisor = divisor.at_least(1)  # what is divided by 0 does not count

    def step(rest: Element, distance: Element) -> tuple[Element, Element]:
        bits = distance.at_most(_STEP)
        return (rest << bits) % divisor, distance - bits

    distance = (upper - lower).at_least(0)
    rest, _ = repeat([dividend % divisor, distance], lambda _, left: left > 0, step)
    found = (top < bottom).choose(top, _assembled(rest, lower)) | (x.bits() & _SIGN)
    for unknown in (bottom.equals(0), bottom > _INFINITE, top >= _INFINITE):
        found = unknown.choose(found.number(_INFINITE | _ONE >> 1), found)
    return found.bits()


def _parts(bits: Element) -> tuple[Element, Element]:
    """Return e and m of a positive number m · 2^(e - 1075)."""
    exponent, mantissa = bits >> 52, bits & (_ONE - 1)
    return exponent, exponent.equals(0).choose(mantissa << 1, mantissa | _ONE)


def _assembled(mantissa: Element, exponent: Element) -> Element:
    """Return the bits of the double m · 2^(e - 1075)."""
    whole, scale = mantissa.double().bits(), exponent - 1075
    # Subnormal numbers have an exponent below 53, and are m · 2^(e - 1) units of 2^-1074.
    small = (mantissa << exponent.at_most(53)) >> 1
    found = ((whole >> 52) + scale > 0).choose(whole + (scale << 52), small)
    return mantissa.equals(0).choose(mantissa, found)
