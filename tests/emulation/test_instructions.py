# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares, masks, lanes and scalars."""

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
    twos,
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


# ---- scalars -------------------------------------------------------------------------------------

B32, B64 = 2**32, 2**64
SCALARS = {  # sources' width, result of Python integers, scc (None: unchanged)
    "s_add_u32": (32, lambda x, y: x + y, lambda x, y, r: x + y >= B32),
    "s_sub_u32": (32, lambda x, y: x - y, lambda x, y, r: x < y),
    "s_add_i32": (-32, lambda x, y: x + y, lambda x, y, r: not -(2**31) <= x + y < 2**31),
    "s_sub_i32": (-32, lambda x, y: x - y, lambda x, y, r: not -(2**31) <= x - y < 2**31),
    "s_absdiff_i32": (-32, lambda x, y: abs(x - y), lambda x, y, r: r != 0),
    "s_mul_i32": (32, lambda x, y: x * y, None),
    "s_mul_hi_u32": (32, lambda x, y: x * y >> 32, None),
    "s_mul_hi_i32": (-32, lambda x, y: x * y >> 32, None),
    "s_min_i32": (-32, min, lambda x, y, r: x < y),
    "s_max_u32": (32, max, lambda x, y, r: x > y),
    "s_lshl_b32": (32, lambda x, y: x << (y & 31), lambda x, y, r: r != 0),
    "s_ashr_i32": (-32, lambda x, y: x >> (y & 31), lambda x, y, r: r != 0),
    "s_lshl2_add_u32": (32, lambda x, y: (x << 2) + y, lambda x, y, r: (x << 2) + y >= B32),
    "s_bfm_b32": (32, lambda x, y: ((1 << (x & 31)) - 1) << (y & 31), None),
    "s_bfe_u32": (
        32,
        lambda x, y: (x >> (y & 31)) & ((1 << min(y >> 16 & 127, 32)) - 1),
        lambda x, y, r: r != 0,
    ),
    "s_pack_ll_b32_b16": (32, lambda x, y: x & 65535 | (y & 65535) << 16, None),
    "s_pack_lh_b32_b16": (32, lambda x, y: x & 65535 | y & 0xFFFF0000, None),
    "s_pack_hh_b32_b16": (32, lambda x, y: x >> 16 | y & 0xFFFF0000, None),
    "s_and_b64": (64, lambda x, y: x & y, lambda x, y, r: r != 0),
    "s_andn2_b64": (64, lambda x, y: x & ~y, lambda x, y, r: r != 0),
    "s_orn2_b64": (64, lambda x, y: x | ~y, lambda x, y, r: r != 0),
    "s_xnor_b64": (64, lambda x, y: ~(x ^ y), lambda x, y, r: r != 0),
    "s_nand_b32": (32, lambda x, y: ~(x & y), lambda x, y, r: r != 0),
}
CASES = [
    (0, 0),
    (1, 2),
    (2**31, 2**31),
    (2**32 - 1, 1),
    (5, 2**32 - 1),
    (0x12345678, 0x80004),
    (7, 2**31 - 1),
]


@pytest.mark.parametrize("name", SCALARS)
def test_scalar_arithmetic(name):
    width, fn, flag = SCALARS[name]
    bits = abs(width)
    wide = [(x << 32 | y, y << 16 | x) for x, y in CASES]
    for x, y in wide if bits == 64 else CASES:
        m = single()
        for first, value in ((10, x), (12, y)):
            m.s[first], m.s[first + 1] = value % B32, value >> 32
        m.scc[:] = True
        count = bits // 32
        execute(m, op(name, s(14, count), s(10, count), s(12, count), encoding="sop2"))
        p, q = (twos(x, 32), twos(y, 32)) if width < 0 else (x, y)
        want = fn(p, q) % 2**bits
        got = int(m.s[14][0]) | (int(m.s[15][0]) << 32 if count == 2 else 0)
        assert got == want, (x, y)
        assert bool(m.scc[1]) == (True if flag is None else flag(p, q, want)), (x, y)


def test_scalar_bits():
    m = single()
    m.s[10], m.s[11] = 0x00F00000, 0x80000000
    for name, width, want in (
        ("s_ff1_i32_b32", 1, 20),
        ("s_flbit_i32_b32", 1, 8),
        ("s_bcnt1_i32_b64", 2, 5),
        ("s_not_b32", 1, 0xFF0FFFFF),
        ("s_ff1_i32_b64", 2, 20),
        ("s_brev_b32", 1, 0x00000F00),
        ("s_flbit_i32_i64", 2, 1),
        ("s_sext_i32_i16", 1, 0),
    ):
        execute(m, op(name, s(14), s(10, width), encoding="sop1"))
        assert m.s[14][0] == want, name
    execute(m, op("s_bitset1_b32", s(10), integer(33), encoding="sop1"))
    assert m.s[10][0] == 0x00F00002
    execute(m, op("s_bitset0_b64", s(10, 2), literal(63), encoding="sop1"))
    assert m.s[11][0] == 0
    execute(m, op("s_bitcmp1_b32", s(10), integer(1), encoding="sopc"))
    assert m.scc.all()
    execute(m, op("s_cselect_b32", s(14), integer(5), integer(6), encoding="sop2"))
    assert m.s[14][0] == 5
    execute(m, op("s_cmp_lt_i32", integer(-1), integer(0), encoding="sopc"))
    assert m.scc.all()
    execute(m, op("s_cmp_lt_u32", integer(-1), integer(0), encoding="sopc"))
    assert not m.scc.any()
    execute(m, op("s_cmovk_i32", s(14), integer(9), encoding="sopk"))
    assert m.s[14][0] == 5
    m.s[14] = 0x7FFFFFFF
    execute(m, op("s_addk_i32", s(14), integer(1), encoding="sopk"))
    assert m.s[14][0] == 0x80000000
    assert m.scc.all()


def test_saveexec_masks_lanes():
    m = single()
    m.s[10:12] = 0x0000FFFF
    execute(m, op("s_and_saveexec_b64", s(12, 2), s(10, 2), encoding="sop1"))
    assert _mask(m, 12)[0] == B64 - 1
    assert m.mask is not None
    assert m.mask.sum() == 64
    put(m, 1, np.zeros((2, 64), U32))
    execute(m, op("v_mov_b32", v(1), integer(3)))
    assert (get(m, 1, U32)[0] == np.where(np.arange(64) % 32 < 16, 3, 0)).all()
