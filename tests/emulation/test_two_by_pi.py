# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""v_trig_preop_f64 against digits of 2/pi that are found in another way."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from gfx9_kernels import execute, get, integer, op, put, single, v


def _two_by_pi(bits):
    """So many bits of 2/pi, from the sum over 16^-k (Bailey, Borwein and Plouffe)."""
    scale = 1 << bits + 64
    pi = sum(
        (4 * scale // (8 * k + 1) - 2 * scale // (8 * k + 4))
        - (scale // (8 * k + 5) + scale // (8 * k + 6))
        >> 4 * k
        for k in range((bits + 64) // 4 + 1)
    )
    return (scale << bits + 1) // pi


def test_digits_of_two_by_pi():
    """v_trig_preop_f64: what a segment stands for is a run of bits of 2/pi in their place."""
    digits, exponents = _two_by_pi(1184), [0, 1, 1023, 1077, 1078, 1130, 1967, 1968, 2000, 2047]
    angles = [e << 52 | (e % 7) << 49 for e in exponents] + [1 << 63 | 1100 << 52 | 5]
    for segment in [*range(32), 32 + 2]:
        m = single()
        put(m, 10, np.resize(np.array(angles, np.uint64), (2, 64)))
        put(m, 12, np.full((2, 64), segment, np.uint32))
        execute(m, op("v_trig_preop_f64", v(30, 2), v(10, 2), v(12)))
        for angle, got in zip(angles, get(m, 30, np.float64).ravel().tolist(), strict=False):
            exponent = angle >> 52 & 0x7FF
            first = 53 * (segment % 32) + max(exponent - 1077, 0)
            if exponent == 0x7FF and angle << 12 & (1 << 64) - 1:
                assert math.isnan(got)
            elif first >= 1120:
                assert got == 0
            else:
                bits = digits >> (1184 - 53 - first) & (1 << 53) - 1
                exact = Fraction(bits, 1 << 53 + first) * (1 << 128 * (exponent >= 1968))
                step = Fraction(1, 1 << 1074)
                assert Fraction(got) == (exact // step * step if exact < step * 2**53 else exact)


def test_three_segments_reduce_an_angle():
    """Their products with it, summed without whole turns, are the angle's part of a quarter."""
    digits = _two_by_pi(1184)
    angles = [1.0, 3.5, 1e5, 2.0**60, 1e22, 1.7e292, 1.7976931348623157e308, 2.0**1000 * 1.1]
    parts = []
    for segment in range(3):
        m = single()
        put(m, 10, np.resize(np.array(angles), (2, 64)))
        execute(m, op("v_trig_preop_f64", v(30, 2), v(10, 2), integer(segment)))
        parts.append(get(m, 30, np.float64).ravel()[: len(angles)].tolist())
    for angle, *segments in zip(angles, *parts, strict=True):
        scaled = Fraction(angle) / (1 << 128 if angle >= 2.0**945 else 1)
        quarter = scaled * sum(map(Fraction, segments)) % 4
        exact = Fraction(angle) * Fraction(digits, 1 << 1184) % 4
        assert abs(quarter - exact) < Fraction(1, 1 << 100)
