# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of matrices of 8, 6 and 4 bits on gfx950, with and without scales."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from gfx9_kernels import execute, get, integer, op, put, single, v

F32, U32 = np.float32, np.uint32

_FORMATS = ("float8_e4m3fn", "float8_e5m2", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn")


def _words(matrix, width):
    """Put each row of codes, the first one lowest, into words of 32 bits."""
    numbers = [sum(int(code) << width * k for k, code in enumerate(row)) for row in matrix]
    return np.array([[n >> 32 * w & 0xFFFFFFFF for w in range(width)] for n in numbers], U32)


def _row(size, k, lane):
    """The row of D in a lane's register k, as AMD's tables place it."""
    if size == 16:
        return 4 * (lane // 16) + k
    return 8 * (k // 4) + 4 * (lane // 32) + k % 4


@pytest.mark.parametrize("size", [16, 32])
@pytest.mark.parametrize(("cbsz", "blgp"), [(4, 4), (0, 4), (2, 3), (3, 0), (4, 1), (1, 2)])
@pytest.mark.parametrize("scaled", [False, True])
def test_products_of_narrow_floats_with_scales(size, cbsz, blgp, scaled):
    """A and B of 8, 6 and 4 bits; 32 elements along k share a scale of 8 bits, a power of two."""
    groups, rng = 64 // size, np.random.default_rng(10 * cbsz + blgp + scaled)
    m, values, scales = single("gfx950", waves=1), [], []
    for first, kind, shift in ((0, cbsz, 8), (8, blgp, 24)):
        dtype = getattr(ml_dtypes, _FORMATS[kind])
        width = int(_FORMATS[kind][5])
        codes = rng.integers(0, 2**width, (size, 32 * groups), dtype=np.uint8)
        value = codes.view(dtype).astype(np.float64)
        codes[~np.isfinite(value)] = 0
        value = codes.view(dtype).astype(np.float64)
        chosen = rng.integers(117, 137, (size, groups))
        for group in range(groups):
            lanes = slice(size * group, size * (group + 1))
            words = _words(codes[:, 32 * group : 32 * group + 32], width)
            for k in range(words.shape[1]):
                m.files["v"][first + k, 0, lanes] = words[:, k]
            noise = rng.integers(0, 2**32, size, dtype=np.uint64)
            register = noise & ~np.uint64(255 << shift) | chosen[:, group].astype(
                np.uint64
            ) << np.uint64(shift)
            m.files["v"][16 + first // 8, 0, lanes] = register.astype(U32)
        values.append(value)
        scales.append(2.0 ** (chosen - 127.0).repeat(32, 1) if scaled else 1.0)
    count = size * size // 64
    depth, c = 32 * groups, rng.integers(-9, 10, (64, count)).astype(F32)
    for k in range(count):
        m.files["v"][24 + k, 0] = c[:, k].view(U32)
    name = f"f32_{size}x{size}x{depth}_f8f6f4"
    widths = [int(_FORMATS[kind][5]) for kind in (cbsz, blgp)]
    sources = [v(0, widths[0]), v(8, widths[1]), v(24, count)]
    given = {"cbsz": cbsz, "blgp": blgp}
    if scaled:  # byte 1 of the first register, byte 3 of the second one
        sources += [v(16), v(17)]
        given |= {"op_sel": (1, 1, 0), "op_sel_hi": (0, 1, 0)}
    name = f"v_mfma_{'scale_' if scaled else ''}{name}"
    execute(m, op(name, v(60, count), *sources, encoding="mfma", **given))
    product = (values[0] * scales[0]) @ (values[1] * scales[1]).T
    most = np.abs(values[0] * scales[0]) @ np.abs(values[1] * scales[1]).T
    for k in range(count):
        got = get(m, 60 + k, F32)
        for lane in range(64):
            row = _row(size, k, lane)
            want = product[row, lane % size] + c[lane, k]
            allowed = 2.0**-23 * abs(want) if scaled else 2.0**-18 * (most[row, lane % size] + 9)
            assert abs(got[0, lane] - want) <= allowed, (k, lane)


def test_a_scale_of_255_is_nan():
    m = single("gfx950", waves=1)
    for k in range(16):
        put(m, k, np.full((1, 64), 0x22222222, U32))  # 1.0 in four bits
    put(m, 16, np.where(np.arange(64) == 3, 255, 127).astype(U32)[None])
    put(m, 17, np.full((1, 64), 128, U32))
    given = {"cbsz": 4, "blgp": 4, "op_sel": (0, 0, 0), "op_sel_hi": (0, 0, 0)}
    name = "v_mfma_scale_f32_16x16x128_f8f6f4"
    operands = (v(0, 4), v(4, 4), integer(0), v(16), v(17))
    execute(m, op(name, v(20, 4), *operands, encoding="mfma", **given))
    found = np.stack([get(m, 20 + k, F32)[0] for k in range(4)])  # row 4 * (lane // 16) + k
    bad = np.zeros((4, 64), bool)
    bad[3, :16] = True
    assert (np.isnan(found) == bad).all()
    assert (found[~bad] == 256).all()
