# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Vector instructions in what the table of rows does not say: modes, modifiers, operands."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from gfx9_kernels import VCC, execute, get, integer, literal, op, put, real, s, single, v
from gfx9_values import WIDTHS, apply, ints, nearest, same, values

# ---- integers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "low", "high"), [("u32", 0, 2**32 - 1), ("i32", -(2**31), 2**31 - 1)]
)
def test_clamped_sums_saturate(kind, low, high):
    for name, sign in (("add", 1), ("sub", -1)):
        given, got = apply(f"v_{name}_{kind}", [kind, kind], kind, clamp=1)
        pairs = zip(*(ints(x, kind) for x in given), strict=True)
        assert ints(got, kind) == [max(low, min(high, x + sign * y)) for x, y in pairs]


# ---- floats --------------------------------------------------------------------------------------


def _each(fn, kind, *given):
    """Apply `fn` to exact fractions where all are finite, else IEEE arithmetic of doubles."""
    rows = zip(*(x.ravel() for x in given), strict=True)
    out = []
    for row in rows:
        floats = [float(x) for x in row]
        plain = fn(*(np.float64(x) for x in floats))
        if all(math.isfinite(x) for x in floats) and (exact := fn(*map(Fraction, floats))):
            out.append(nearest(exact, WIDTHS[kind]))
        else:
            out.append(float(plain))
    return np.array(out).astype(WIDTHS[kind]).reshape(given[0].shape)


@pytest.mark.parametrize("kind", WIDTHS)
def test_fused_products_of_ties(kind):
    """Sums that a rounding in between would get wrong."""
    dtype = WIDTHS[kind]
    nmant = np.finfo(dtype).nmant
    one = np.full((2, 64), 1, dtype)
    tiny = np.resize(
        np.array([2.0**-k for k in range(2, 26)] + [-(2.0**-k) for k in range(2, 26)]), 128
    )
    x = (one + dtype(2.0**-nmant)).astype(dtype)
    y = (one - dtype(2.0 ** (-nmant - 1))).astype(dtype)
    z = tiny.reshape(2, 64).astype(dtype)
    m = single()
    for register, given in ((10, x), (12, y), (14, z)):
        put(m, register, given)
    width = 2 if kind == "f64" else 1
    execute(m, op(f"v_fma_{kind}", v(30, width), v(10, width), v(12, width), v(14, width)))
    expected = _each(lambda p, q, r: p * q + r, kind, x, y, z)
    assert same(get(m, 30, dtype), expected)


def test_median_and_clamp_and_scale():
    given, got = apply("v_med3_f32", ["f32"] * 3, "f32")
    for x, y in zip(np.stack(given, -1).reshape(-1, 3), got.ravel(), strict=True):
        if not np.isnan(x).any() and (x != 0).all():
            assert y == np.sort(x)[1]
    (x, y), got = apply("v_add_f32", ["f32", "f32"], "f32", clamp=1)
    with np.errstate(all="ignore"):
        total = x + y
    assert same(got, np.where(total > 0, np.minimum(total, 1), 0))
    (x, y), got = apply("v_mul_f32", ["f32", "f32"], "f32", omod=3)
    with np.errstate(all="ignore"):
        assert same(got, x * y * np.float32(0.5))


@pytest.mark.parametrize(
    ("mode", "inputs", "outputs"),
    [(0xF0, False, False), (0xC0, True, True), (0xD0, False, True), (0xE0, True, False)],
)
def test_denormal_modes(mode, inputs, outputs):
    m = single(mode=mode)
    tiny, small = np.float32(1e-40), np.float32(1.5e-38)
    put(m, 1, np.full((2, 64), tiny))
    put(m, 2, np.full((2, 64), small))
    execute(m, op("v_add_f32", v(3), v(1), v(2)))
    assert (get(m, 3, np.float32) == (small if inputs else small + tiny)).all()
    execute(m, op("v_mul_f32", v(4), v(2), real(0.5)))
    assert (get(m, 4, np.float32) == (0 if outputs else small * np.float32(0.5))).all()
    execute(m, op("v_mov_b32", v(5), v(1)))
    assert (get(m, 5, np.float32) == tiny).all()


# ---- division as LLVM writes it ------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_division_is_rounded_once(kind):
    dtype, width = WIDTHS[kind], 2 if kind == "f64" else 1
    rng = np.random.default_rng(3)
    span = 120 if kind == "f32" else 1000
    for round_ in range(6):
        n, d = (
            (rng.standard_normal((2, 64)) * 2.0 ** rng.integers(-span, span, (2, 64))).astype(dtype)
            for _ in range(2)
        )
        if round_ == 0:
            n, d = values(kind, 1), values(kind, 2)
        m = single()
        put(m, 2, n)
        put(m, 4, d)

        def r(index):
            return v(index, width)

        fma = f"v_fma_{kind}"
        execute(m, op(f"v_div_scale_{kind}", r(6), s(20, 2), r(4), r(4), r(2)))
        execute(m, op(f"v_div_scale_{kind}", r(8), VCC, r(2), r(4), r(2)))
        execute(m, op(f"v_rcp_{kind}", r(10), r(6)))
        minus = v(6, width, neg=True)
        for _ in range(2):
            execute(m, op(fma, r(12), minus, r(10), real(1.0)))
            execute(m, op(fma, r(10), r(12), r(10), r(10)))
        execute(m, op(f"v_mul_{kind}", r(14), r(8), r(10)))
        execute(m, op(fma, r(12), minus, r(14), r(8)))
        if kind == "f32":
            execute(m, op(fma, r(14), r(12), r(10), r(14)))
            execute(m, op(fma, r(12), minus, r(14), r(8)))
        execute(m, op(f"v_div_fmas_{kind}", r(16), r(12), r(10), r(14)))
        execute(m, op(f"v_div_fixup_{kind}", r(18), r(16), r(4), r(2)))
        with np.errstate(all="ignore"):
            expected = n / d
        got = get(m, 18, dtype)
        normal = ~(
            np.abs(expected) < np.finfo(dtype).smallest_normal
        )  # below, scaling rounds twice
        assert same(got[normal], expected[normal])
        assert (
            np.abs(got[~normal] - expected[~normal]).max(initial=0)
            <= np.finfo(dtype).smallest_subnormal
        )


# ---- conversions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
@pytest.mark.parametrize("kind", ["fp8", "bf8"])
def test_conversions_of_8_bit_floats(target, kind):
    suffix = "fnuz" if target == "gfx942" else "fn" if kind == "fp8" else ""
    dtype = getattr(ml_dtypes, ("float8_e4m3" if kind == "fp8" else "float8_e5m2") + suffix)
    m = single(target)
    x = np.random.default_rng(1).standard_normal((2, 64)).astype(np.float32) * 20
    put(m, 1, x)
    put(m, 2, -x)
    put(m, 3, np.full((2, 64), 0xABCD1234, np.uint32))
    execute(m, op(f"v_cvt_pk_{kind}_f32", v(3), v(1), v(2), op_sel=(0, 0, 1)))
    got = get(m, 3, np.uint32)
    assert ((got & 0xFFFF) == 0x1234).all()
    for k, value in ((16, x), (24, -x)):
        assert ((got >> k & 255).astype(np.uint8) == value.astype(dtype).view(np.uint8)).all()
    execute(m, op(f"v_cvt_f32_{kind}", v(4), v(3), encoding="sdwa", src0_sel="BYTE_2"))
    assert (get(m, 4, np.float32) == x.astype(dtype).astype(np.float32)).all()


# ---- operands ------------------------------------------------------------------------------------


def test_constants_take_the_format_of_the_operation():
    m = single()
    for mnemonic, operand, dtype, value in (
        ("v_add_f32", real(0.5), np.float32, 0.5),
        ("v_add_f16", real(0.5), np.float16, 0.5),
        ("v_add_f16", literal(0x3C00), np.float16, 1.0),
        ("v_add_f64", real(-4.0), np.float64, -4.0),
        ("v_add_f64", literal(0x40080000), np.float64, 3.0),
        ("v_add_f64", real(0.15915494), np.float64, 0.15915494309189532),
        ("v_add_u32", integer(-3), np.uint32, 2**32 - 3),
        ("v_lshl_add_u64", integer(-1), np.uint64, 2**64 - 1),
    ):
        put(m, 2, np.zeros((2, 64), dtype))
        wide = 2 if np.dtype(dtype).itemsize == 8 else 1
        more = [v(2)] if mnemonic == "v_lshl_add_u64" else []
        execute(m, op(mnemonic, v(4, wide), operand, *more, v(2, wide)))
        assert (get(m, 4, dtype) == dtype(value)).all(), operand


def test_signs_act_on_bits():
    m = single()
    put(m, 1, np.full((2, 64), np.nan, np.float32))
    put(m, 2, np.full((2, 64), -2.5, np.float32))
    execute(m, op("v_mul_f32", v(3), v(2, abs=True, neg=True), real(1.0)))
    assert (get(m, 3, np.float32) == -2.5).all()
    execute(m, op("v_cndmask_b32", v(3), v(1, neg=True), v(1, neg=True), s(20, 2)))
    assert (get(m, 3, np.uint32) == 0xFFC00000).all()


def test_halves_of_registers():
    m = single()
    put(m, 1, np.full((2, 64), 0x11112222, np.uint32))
    put(m, 2, np.full((2, 64), 0x33334444, np.uint32))
    for register in (3, 4, 5):
        put(m, register, np.full((2, 64), 0xAAAABBBB, np.uint32))
    execute(m, op("v_add_u16", v(3), v(1), v(2), encoding="vop2"))
    assert (get(m, 3, np.uint32) == 0x6666).all()
    execute(m, op("v_mad_u16", v(4), v(1), integer(1), v(2), op_sel=(1, 0, 1, 1)))
    assert (get(m, 4, np.uint32) == 0x4444BBBB).all()
    execute(m, op("v_pack_b32_f16", v(5), v(1), v(2), op_sel=(1, 0, 0)))
    assert (get(m, 5, np.uint32) == 0x44441111).all()


def test_sdwa_selects_and_extends():
    m = single()
    put(m, 1, np.full((2, 64), 0x80F07F01, np.uint32))
    put(m, 2, np.zeros((2, 64), np.uint32))
    for select, sext, value in (
        ("BYTE_3", False, 0x80),
        ("BYTE_3", True, 0xFFFFFF80),
        ("BYTE_2", True, 0xFFFFFFF0),
        ("WORD_0", False, 0x7F01),
        ("WORD_1", True, 0xFFFF80F0),
    ):
        execute(
            m,
            op(
                "v_add_u32",
                v(3),
                v(1, sext=sext),
                v(2),
                encoding="sdwa",
                src0_sel=select,
                src1_sel="DWORD",
            ),
        )
        assert (get(m, 3, np.uint32) == value).all(), select
    for unused, value in (
        ("UNUSED_PAD", 0x00010000),
        ("UNUSED_PRESERVE", 0xEE01EEEE),
        ("UNUSED_SEXT", 0x00010000),
    ):
        put(m, 4, np.full((2, 64), 0xEEEEEEEE, np.uint32))
        execute(
            m,
            op(
                "v_mov_b32",
                v(4),
                v(1),
                encoding="sdwa",
                src0_sel="BYTE_0",
                dst_sel="BYTE_2",
                dst_unused=unused,
            ),
        )
        assert (get(m, 4, np.uint32) == value).all(), unused


DPP = {
    "quad_perm": ((3, 2, 1, 0), lambda i: (i & ~3) | (3 - (i & 3))),
    "row_shl": (3, lambda i: i + 3 if (i & 15) + 3 < 16 else None),
    "row_shr": (1, lambda i: i - 1 if i & 15 else None),
    "row_ror": (4, lambda i: (i & ~15) | ((i - 4) & 15)),
    "wave_shr": (1, lambda i: i - 1 if i else None),
    "wave_rol": (1, lambda i: (i + 1) & 63),
    "row_mirror": (1, lambda i: (i & ~15) | (15 - (i & 15))),
    "row_half_mirror": (1, lambda i: (i & ~7) | (7 - (i & 7))),
    "row_bcast": (15, lambda i: (i & ~15) - 1 if i > 15 else None),
    "row_newbcast": (5, lambda i: (i & ~15) | 5),
}


@pytest.mark.parametrize("bound", [0, 1])
@pytest.mark.parametrize("control", DPP)
def test_dpp_moves_lanes(control, bound):
    value, source = DPP[control]
    m = single()
    put(m, 1, np.tile(np.arange(64, dtype=np.uint32) + 100, (2, 1)))
    put(m, 2, np.full((2, 64), 7, np.uint32))
    given = {control: value, "row_mask": 0xF, "bank_mask": 0xF, "bound_ctrl": bound}
    execute(m, op("v_mov_b32", v(2), v(1), encoding="dpp", **given))
    want = [
        7 if source(i) is None and not bound else 0 if source(i) is None else source(i) + 100
        for i in range(64)
    ]
    assert get(m, 2, np.uint32)[1].tolist() == want
    given["row_mask"], given["bank_mask"] = 0b0101, 0b0011
    put(m, 2, np.full((2, 64), 7, np.uint32))
    execute(m, op("v_mov_b32", v(2), v(1), encoding="dpp", **given))
    off = [i for i in range(64) if (i >> 4) & 1 or (i >> 2) & 3 > 1]
    assert (get(m, 2, np.uint32)[0, off] == 7).all()
