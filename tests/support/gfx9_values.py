# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Edge values for vector instructions, and exact rounding to compare results with."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from gfx9_kernels import execute, get, op, put, single, v

WIDTHS = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
EDGES = {
    "u16": [0, 1, 2, 3, 15, 16, 31, 0x7FFF, 0x8000, 0x8001, 0xFFFE, 0xFFFF],
    "u32": [0, 1, 2, 3, 31, 32, 0xFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFF, 0xFFFFFFFF],
    "u64": [0, 1, 63, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1],
}


def float_edges(kind):
    dtype = WIDTHS[kind]
    info = np.finfo(dtype)
    one = dtype(1)
    some = [0.0, info.smallest_subnormal, info.smallest_normal, 1, 1.5, 2, 3, 0.1, 7.5, info.max]
    some += [np.nextafter(one, dtype(2)), np.nextafter(one, dtype(0)), np.inf]
    some += [info.smallest_normal - info.smallest_subnormal, 2.0**-info.nmant, 1 + 2.0**-5]
    positive = np.array(some, dtype)
    return np.concatenate([positive, -positive, np.array([np.nan], dtype)])


def values(kind, seed):
    """128 values, edges in an order of their own, the rest random bits."""
    rng = np.random.default_rng(seed)
    if kind in WIDTHS:
        edges, unsigned = float_edges(kind), np.dtype(f"u{np.dtype(WIDTHS[kind]).itemsize}")
        bits = rng.integers(0, np.iinfo(unsigned).max, 128, dtype=unsigned, endpoint=True)
        near = (rng.standard_normal(128) * 8).astype(WIDTHS[kind])
        values = np.where(rng.random(128) < 0.3, bits.view(WIDTHS[kind]), near)
    else:
        unsigned = np.dtype(f"u{int(kind[1:]) // 8}")
        edges = np.array(EDGES["u" + kind[1:]], unsigned)
        values = rng.integers(0, np.iinfo(unsigned).max, 128, dtype=unsigned, endpoint=True)
    at = rng.permutation(128)[: min(100, 3 * len(edges))]
    values[at] = rng.choice(edges, len(at))
    return values.reshape(2, 64)


def ints(x, kind):
    dtype = np.dtype(f"{kind[0]}{int(kind[1:]) // 8}")
    return [int(value) for value in np.ascontiguousarray(x).view(dtype).ravel()]


def apply(mnemonic, kinds, result, *, target="gfx950", mode=0xF0, **modifiers):
    """Execute on edge values; return the sources and the result, ``(2, 64)`` each."""
    m = single(target, mode=mode)
    given = [values(kind, seed + 1) for seed, kind in enumerate(kinds)]
    for number, x in enumerate(given):
        put(m, 10 + 2 * number, x)
    width = 2 if result.endswith("64") else 1
    counts = [2 if kind.endswith("64") else 1 for kind in kinds]
    sources = [v(10 + 2 * n, c) for n, c in enumerate(counts)]
    execute(m, op(mnemonic, v(30, width), *sources, **modifiers))
    dtype = WIDTHS.get(result) or np.dtype(f"{result[0]}{int(result[1:]) // 8}")
    return given, get(m, 30, dtype)


def nearest(value: Fraction, dtype) -> float:
    """Round an exact value to nearest even, denormals included, by integer arithmetic."""
    info = np.finfo(dtype)
    if not value:
        return 0.0
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    step = Fraction(2) ** (max(exponent, int(info.minexp)) - int(info.nmant))
    rounded = round(size / step) * step  # Python's round is to even
    if rounded > Fraction(float(info.max)):
        rounded = None
    sign = -1.0 if value < 0 else 1.0
    return sign * (math.inf if rounded is None else float(rounded))


def same(got, expected):
    """Equal values, signs of zeros too; any NaN is as good as another."""
    got, expected = np.asarray(got), np.asarray(expected, got.dtype)
    nan = np.isnan(got) & np.isnan(expected)
    bits = np.dtype(f"u{got.dtype.itemsize}")
    return bool((nan | (got.view(bits) == expected.view(bits))).all())
