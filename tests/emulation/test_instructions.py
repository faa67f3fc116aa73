# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares, masks and lanes."""

from __future__ import annotations

import numpy as np
import pytest
from gfx9_kernels import (
    EXEC,
    VCC,
    execute,
    get,
    integer,
    literal,
    op,
    put,
    random_bits,
    s,
    single,
    v,
)

F32, U32, U16, F16 = np.float32, np.uint32, np.uint16, np.float16


# ---- compares, masks, lanes ----------------------------------------------------------------------


def _mask(m, first):
    return (
        m.s[first].astype(np.uint64) | m.s[first + 1].astype(np.uint64) << np.uint64(32)
    ).tolist()


def test_compares_write_masks_of_lanes_that_are_on():
    m = single()
    x, y = np.random.default_rng(2).integers(-3, 3, (2, 2, 64)).astype(F32)
    x[:, ::7] = np.nan
    put(m, 1, x)
    put(m, 2, y)
    m.s[126] = 0x0FF0FFFF
    m.refresh()
    on = np.array([0xFFFFFFFF0FF0FFFF >> lane & 1 for lane in range(64)], bool)
    with np.errstate(invalid="ignore"):
        wanted = {
            "lt": x < y,
            "ge": x >= y,
            "nlt": ~(x < y),
            "lg": (x < y) | (x > y),
            "u": np.isnan(x),
            "o": ~np.isnan(x),
            "neq": x != y,
            "nle": ~(x <= y),
        }
    for name, want in wanted.items():
        execute(m, op(f"v_cmp_{name}_f32", s(20, 2), v(1), v(2)))
        bits = [int("".join("01"[int(z)] for z in row[::-1]), 2) for row in want & on]
        assert _mask(m, 20) == bits, name
    execute(m, op("v_cmpx_eq_u32", VCC, v(1), v(1), encoding="vopc"))
    assert _mask(m, 126) == [0xFFFFFFFF0FF0FFFF] * 2


def test_classes():
    kinds = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
    for bits, patterns in (
        (
            32,
            [
                0x7F800001,
                0x7FC00000,
                0xFF800000,
                0xBF800000,
                0x80000001,
                0x80000000,
                0,
                1,
                0x3F800000,
                0x7F800000,
            ],
        ),
        (16, [0x7C01, 0x7E00, 0xFC00, 0xBC00, 0x8001, 0x8000, 0, 1, 0x3C00, 0x7C00]),
    ):
        m = single()
        x = np.zeros((2, 64), f"u{bits // 8}")
        x[:, :10] = patterns
        put(m, 1, x)
        for number, kind in enumerate(kinds):
            execute(m, op(f"v_cmp_class_f{bits}", s(20, 2), v(1), literal(kind)))
            assert _mask(m, 20)[0] & 1023 == 1 << number


def test_carries_make_64_bit_sums():
    m = single()
    x, y = random_bits(1, 2, 64, bits=64), random_bits(2, 2, 64, bits=64)
    put(m, 2, x)
    put(m, 4, y)
    for low, high, want in (
        ("v_add_co_u32", "v_addc_co_u32", x + y),
        ("v_sub_co_u32", "v_subb_co_u32", x - y),
        ("v_subrev_co_u32", "v_subbrev_co_u32", y - x),
    ):
        execute(m, op(low, v(6), VCC, v(2), v(4)))
        execute(m, op(high, v(7), VCC, v(3), v(5), VCC))
        assert (get(m, 6, np.uint64) == want).all()
    execute(m, op("v_mad_u64_u32", v(8, 2), s(20, 2), v(2), v(4), v(2, 2)))
    product = (x & 0xFFFFFFFF) * (y & 0xFFFFFFFF)
    assert (get(m, 8, np.uint64) == product + x).all()
    signed = (x & 0xFFFFFFFF).astype(U32).view(np.int32).astype(np.int64)
    execute(m, op("v_mad_i64_i32", v(8, 2), s(20, 2), v(2), integer(-5), integer(7)))
    assert (get(m, 8, np.int64) == signed * -5 + 7).all()


def test_lanes_are_read_written_and_counted():
    m = single()
    x = random_bits(3, 2, 64)
    put(m, 1, x)
    m.s[126] = 0xFFFFFF00
    m.refresh()
    execute(m, op("v_readfirstlane_b32", s(20), v(1)))
    assert m.s[20].tolist() == x[:, 8].tolist()
    execute(m, op("v_readlane_b32", s(20), v(1), integer(63)))
    assert m.s[20].tolist() == x[:, 63].tolist()
    execute(m, op("v_writelane_b32", v(1), integer(9), integer(3)))
    assert (get(m, 1, U32)[:, 3] == 9).all()
    put(m, 2, np.full((2, 64), 100, U32))
    execute(m, op("v_mbcnt_lo_u32_b32", v(3), integer(-1), integer(0)))
    execute(m, op("v_mbcnt_hi_u32_b32", v(3), integer(-1), v(3)))
    assert get(m, 3, U32)[0, 8:].tolist() == list(range(8, 64))
    execute(m, op("v_cndmask_b32", v(4), v(1), v(2), EXEC))
    assert (get(m, 4, U32)[:, 8:] == 100).all()


def test_rows_are_swapped_on_gfx950():
    for bits, size in (("16", 16), ("32", 32)):
        m = single("gfx950")
        x, y = random_bits(1, 2, 64), random_bits(2, 2, 64)
        put(m, 1, x)
        put(m, 2, y)
        execute(m, op(f"v_permlane{bits}_swap_b32", v(1), v(2)))
        p, q = (z.reshape(2, -1, 2, size).copy() for z in (x, y))
        p[:, :, 1], q[:, :, 0] = y.reshape(p.shape)[:, :, 0], x.reshape(p.shape)[:, :, 1]
        assert (get(m, 1, U32) == p.reshape(2, 64)).all()
        assert (get(m, 2, U32) == q.reshape(2, 64)).all()


@pytest.mark.parametrize("table", [0x00, 0xFF, 0x96, 0xE8, 0xCA, 0x54])
def test_any_function_of_three_bits(table):
    m = single("gfx950")
    values = [random_bits(k, 2, 64) for k in (1, 2, 3)]
    for register, value in enumerate(values):
        put(m, register, value)
    execute(m, op("v_bitop3_b32", v(5), v(0), v(1), v(2), bitop3=table))
    got = get(m, 5, U32)
    for bit in range(32):
        p, q, r = ((value >> bit) & 1 for value in values)
        assert ((got >> bit) & 1 == (table >> (4 * p + 2 * q + r)) & 1).all()
