"""Instructions that are not plain lane arithmetic: matrices, packed, lanes, scalars, memory."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
from gfx9_kernels import (
    END,
    EXEC,
    OFF,
    VCC,
    a,
    execute,
    get,
    integer,
    kernel,
    literal,
    loads,
    op,
    put,
    real,
    run,
    s,
    single,
    v,
    wait,
)
from hipdnn_iree.emulation.errors import EmulationError
from hipdnn_iree.emulation.mfma import SHAPES

F32, U32, U16, F16 = np.float32, np.uint32, np.uint16, np.float16


def _random(seed, *shape, bits=32):
    dtype = np.dtype(f"u{bits // 8}")
    return np.random.default_rng(seed).integers(0, 2**bits - 1, shape, dtype=dtype, endpoint=True)


# ---- matrices: D = A B + C, element by element as AMD's tables place them ------------------------


def _names(shape):
    out, tail = shape.split("_")[0], re.sub(r"^\w+?_(\d+)x\1x\d+_?", "", shape)
    tail = re.sub(r"^\d+b_", "", tail).removesuffix("_1k")
    kinds = ["fp8", "fp8"] if tail == "f8f6f4" else [tail.split("_")[0], tail.split("_")[-1]]
    return out, kinds


def _target(shape):
    if shape.endswith("f8f6f4") or re.search(
        r"16x16x32_b?f16|32x32x16_b?f16|x64_i8|32x32x32_i8", shape
    ):
        return "gfx950"
    return "gfx942" if "_" in shape.split("x")[-1] and not shape.endswith("_1k") else "gfx908"


def _type(kind, target):
    fp8 = {"fp8": "float8_e4m3fn", "bf8": "float8_e5m2"}
    if kind in fp8:
        return getattr(
            ml_dtypes, fp8[kind] + ("" if target == "gfx950" else "fnuz" if kind == "bf8" else "uz")
        )
    return {"f16": F16, "bf16": ml_dtypes.bfloat16, "f32": F32, "f64": np.float64, "i8": np.int8}[
        kind
    ]


@pytest.mark.parametrize("shape", SHAPES)
def test_matrix_products(shape):
    out, kinds = _names(shape)
    target = _target(shape)
    size, depth = (int(x) for x in re.match(r"\w+?_(\d+)x\d+x(\d+)", shape).groups())
    types = [_type(kind, target) for kind in kinds]
    itemsize = np.dtype(types[0]).itemsize
    rng = np.random.default_rng(5)
    blocks = {4: 16, 16: 4, 32: 2}[size] if depth in (1, 2, 4) and _blocked(shape) else 1
    if shape.startswith("f64_4"):
        blocks = 4
    per_lane = size * depth * blocks // 64
    matrices = [
        rng.integers(-3, 4, (2, blocks, size, depth)).astype(F32).astype(kind) for kind in types
    ]
    m = single(target)
    words = per_lane * itemsize // 4
    for first, matrix in zip((0, 16), matrices, strict=True):
        lanes = np.zeros((2, 64, per_lane), types[0])
        for lane in range(64):
            row, rest = lane % size, lane // size
            block, group = (rest, 0) if blocks > 1 else (0, rest)
            if shape.startswith("f64_4"):
                block, group = lane // 4 % 4, lane // 16
            chunk = matrix[:, block, row, group * per_lane : (group + 1) * per_lane]
            lanes[:, lane] = chunk.astype(types[0]) if chunk.dtype != types[0] else chunk
        packed = lanes.reshape(2, 64, -1).view(np.uint8).view(U32)
        for k in range(words):
            put(m, first + k, packed[..., k])
    if kinds[0] != kinds[1]:  # the second matrix has a type of its own
        lanes = np.zeros((2, 64, per_lane), types[1])
        for lane in range(64):
            group = lane // size
            lanes[:, lane] = matrices[1][
                :, 0, lane % size, group * per_lane : (group + 1) * per_lane
            ]
        packed = lanes.view(np.uint8).view(U32)
        for k in range(words):
            put(m, 16 + k, packed[..., k])
    accumulator = {"f32": F32, "i32": np.int32, "f64": np.float64}[out]
    count = size * size * blocks // 64
    wide = 2 if out == "f64" else 1
    c = rng.integers(-9, 10, (2, 64, count)).astype(accumulator)
    for k in range(count):
        put(m, wide * k, np.ascontiguousarray(c[..., k]), file="a")
    names = [v(0, words), v(16, words)]
    execute(
        m, op("v_mfma_" + shape, v(40, count * wide), *names, a(0, count * wide), encoding="mfma")
    )
    product = np.einsum(
        "wbik,wbjk->wbij", matrices[0].astype(np.float64), matrices[1].astype(np.float64)
    )
    for k in range(count):
        got = get(m, 40 + wide * k, accumulator)
        for lane in (0, 1, 5, 17, 31, 32, 47, 63):
            block, row = _place(out, size, blocks, k, lane)
            want = product[:, block, row, lane % size] + c[:, lane, k]
            assert (got[:, lane] == want).all(), (k, lane)


def _blocked(shape):
    _, kinds = _names(shape)
    depth = int(re.match(r"\w+?_\d+x\d+x(\d+)", shape)[1])
    wide = {
        "f32": 1,
        "f16": 4,
        "bf16": 4 if "1k" in shape or "_2b" in shape or "_4b" in shape or "_16b" in shape else 2,
        "i8": 4,
    }
    return depth == wide.get(kinds[0])


def _place(out, size, blocks, k, lane):
    if out == "f64":
        return (lane // 4 % 4, lane // 16) if size == 4 else (0, 4 * k + lane // 16)
    if size == 4:
        return lane // 4, k
    if size == 16:
        return k // 4, 4 * (lane // 16) + k % 4
    return k // 16, 8 * (k % 16 // 4) + 4 * (lane // 32) + k % 4


def test_matrix_products_ignore_exec_and_take_constants():
    m = single()
    put(m, 0, np.full((2, 64), 1, F32))
    put(m, 1, np.full((2, 64), 2, F32))
    m.s[126:128] = 1
    m.refresh()
    execute(m, op("v_mfma_f32_16x16x4_f32", a(0, 4), v(0), v(1), real(0.5), encoding="mfma"))
    assert (get(m, 3, F32, file="a") == 8.5).all()


def test_mi200_takes_denormal_halves_for_zero():
    for target, factor in (("gfx90a", 0), ("gfx908", 1)):
        m = single(target)
        put(m, 0, np.full((2, 64), 0x00010001, U32))
        put(m, 1, np.full((2, 64), 0x00010001, U32))
        put(m, 2, np.full((2, 64), 0x3C003C00, U32))
        put(m, 3, np.full((2, 64), 0x3C003C00, U32))
        execute(
            m, op("v_mfma_f32_16x16x16f16", v(4, 4), v(0, 2), v(2, 2), integer(0), encoding="mfma")
        )
        assert (get(m, 4, F32) == factor * 16 * 2.0**-24).all()


# ---- packed and mixed ----------------------------------------------------------------------------


@pytest.mark.parametrize(("select", "high"), [((0, 0), (1, 1)), ((1, 0), (0, 1)), ((1, 1), (1, 1))])
def test_packed_halves_choose_their_sources(select, high):
    m = single()
    x, y = _random(1, 2, 64), _random(2, 2, 64)
    put(m, 1, x)
    put(m, 2, y)
    given = {"op_sel": select, "op_sel_hi": high, "neg_lo": (0, 0), "neg_hi": (0, 0)}
    execute(m, op("v_pk_sub_u16", v(3), v(1), v(2), encoding="vop3p", **given))
    got = get(m, 3, U32)
    for half, (p, q) in enumerate((select, high)):
        want = ((x >> (16 * p)) - (y >> (16 * q))) & 0xFFFF
        assert ((got >> (16 * half)) & 0xFFFF == want).all()


def test_packed_floats():
    m = single()
    rng = np.random.default_rng(4)
    x, y, z = (rng.standard_normal((3, 2, 64, 2))).astype(F16)
    for register, value in ((1, x), (2, y), (3, z)):
        put(m, register, np.ascontiguousarray(value).view(U32)[..., 0])
    given = {"op_sel": (0, 0, 0), "op_sel_hi": (1, 1, 1), "neg_lo": (1, 0, 0), "neg_hi": (0, 0, 1)}
    execute(m, op("v_pk_fma_f16", v(4), v(1), v(2), v(3), encoding="vop3p", **given))
    got = get(m, 4, U32)[..., None].view(F16)
    wide = [value.astype(np.float64) for value in (x, y, z)]
    want = np.stack(
        [
            -wide[0][..., 0] * wide[1][..., 0] + wide[2][..., 0],
            wide[0][..., 1] * wide[1][..., 1] - wide[2][..., 1],
        ],
        -1,
    )
    assert (got == want.astype(F16)).all()
    p = rng.standard_normal((2, 2, 64)).astype(F32)
    put(m, 10, p[0])
    put(m, 11, p[1])
    given = {"op_sel": (1, 0), "op_sel_hi": (0, 1), "neg_lo": (0, 0), "neg_hi": (0, 1)}
    execute(m, op("v_pk_mul_f32", v(12, 2), v(10, 2), v(10, 2), encoding="vop3p", **given))
    assert (get(m, 12, F32) == p[1] * p[0]).all()
    assert (get(m, 13, F32) == p[0] * -p[1]).all()
    execute(
        m,
        op(
            "v_pk_mov_b32",
            v(10, 2),
            v(10, 2),
            v(10, 2),
            encoding="vop3p",
            op_sel=(1, 0),
            op_sel_hi=(0, 1),
        ),
    )
    assert (get(m, 10, F32) == p[1]).all()
    assert (get(m, 11, F32) == p[0]).all()


def test_packed_products_add_up_in_place():
    m = single()
    rng = np.random.default_rng(9)
    edges = np.array([0.0, -0.0, 6e-8, 6.1e-5, 65504, -65504, np.inf, np.nan, 1, 0.1], F16)
    x, y, z = (rng.choice(edges, (2, 64, 2)) for _ in range(3))
    for register, value in ((1, x), (2, y), (3, z)):
        put(m, register, np.ascontiguousarray(value).view(U32)[..., 0])
    execute(m, op("v_pk_fmac_f16", v(3), v(1), v(2), encoding="vop2"))
    with np.errstate(all="ignore"):
        want = (x.astype(np.float64) * y + z).astype(F16)  # exact before it is rounded
    got = get(m, 3, U32)[..., None].view(F16)
    assert (np.isnan(got) & np.isnan(want) | (got == want)).all()
    put(m, 4, np.full((2, 64), 0x40004000, U32))  # 2, 2
    execute(m, op("v_pk_fmac_f16", v(4), real(1.0), v(4), encoding="vop2"))
    assert (get(m, 4, U32) == 0x40004400).all()  # a float constant is in the lower half alone


def test_mixed_precision():
    m = single()
    x = np.random.default_rng(6).standard_normal((2, 64)).astype(F32)
    half = np.full((2, 64, 2), [1.5, -3.0], F16)
    put(m, 1, x)
    put(m, 2, half.view(U32)[..., 0])
    given = {"op_sel": (0, 1, 0), "op_sel_hi": (0, 1, 0), "neg_lo": (0, 0, 0), "neg_hi": (0, 0, 0)}
    execute(m, op("v_fma_mix_f32", v(3), v(1), v(2), v(1), encoding="vop3p", **given))
    assert (get(m, 3, F32) == (x.astype(np.float64) * -3 + x).astype(F32)).all()
    put(m, 4, np.full((2, 64), 0xAAAABBBB, U32))
    execute(m, op("v_fma_mixhi_f16", v(4), v(1), v(2), v(1), encoding="vop3p", **given))
    got = get(m, 4, U32)
    assert ((got & 0xFFFF) == 0xBBBB).all()
    assert ((got >> 16).astype(U16).view(F16) == (x.astype(np.float64) * -3 + x).astype(F16)).all()


def test_float_dot_products():
    m = single()
    rng = np.random.default_rng(8)
    x, y = rng.integers(-9, 9, (2, 2, 64, 2)).astype(F16)
    put(m, 1, np.ascontiguousarray(x).view(U32)[..., 0])
    put(m, 2, np.ascontiguousarray(y).view(U32)[..., 0])
    put(m, 3, np.full((2, 64), 0.5, F32))
    execute(m, op("v_dot2c_f32_f16", v(3), v(1), v(2), encoding="vop2"))
    assert (get(m, 3, F32) == (x.astype(F32) * y.astype(F32)).sum(-1) + 0.5).all()


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
    x, y = _random(1, 2, 64, bits=64), _random(2, 2, 64, bits=64)
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
    x = _random(3, 2, 64)
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
        x, y = _random(1, 2, 64), _random(2, 2, 64)
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
    values = [_random(k, 2, 64) for k in (1, 2, 3)]
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


def _twos(x, bits):
    return x - (1 << bits) if x >> (bits - 1) else x


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
        p, q = (_twos(x, 32), _twos(y, 32)) if width < 0 else (x, y)
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


# ---- LDS -----------------------------------------------------------------------------------------


def _lds(target="gfx942"):
    m = single(target, waves=1, lds=8192)
    content = _random(9, 8192, bits=8)
    m.lds.u8[:8192] = content
    return m, content


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [("u8", np.uint8), ("i8", np.int8), ("u16", np.uint16), ("i16", np.int16), ("b32", np.uint32)],
)
def test_lds_loads_extend(kind, dtype):
    m, content = _lds()
    size = np.dtype(dtype).itemsize
    address = np.random.default_rng(1).permutation(64).astype(U32)[None] * size
    put(m, 1, address)
    execute(m, op(f"ds_read_{kind}", v(2), v(1), encoding="ds", offset=24))
    want = content.view(dtype)[24 // size + address[0] // size]
    assert (
        get(m, 2, U32)[0].view(np.int32) == want.astype(np.int64).astype(np.int32)
    ).all() or size == 4
    assert (get(m, 2, U32)[0] == want.astype(U32)).all()


@pytest.mark.parametrize("words", [1, 2, 3, 4])
@pytest.mark.parametrize("shift", [0, 4, 1])
def test_lds_moves_several_words_at_any_alignment(words, shift):
    m, content = _lds()
    address = (np.arange(64, dtype=U32) * 20 + shift)[None]
    put(m, 1, address)
    execute(m, op(f"ds_read_b{32 * words}", v(4, words), v(1), encoding="ds"))
    for k in range(words):
        want = [
            int.from_bytes(content[x + 4 * k : x + 4 * k + 4].tobytes(), "little")
            for x in address[0]
        ]
        assert get(m, 4 + k, U32)[0].tolist() == want
    fresh = _random(11, words, 1, 64)
    for k in range(words):
        put(m, 10 + k, fresh[k])
    execute(m, op(f"ds_write_b{32 * words}", v(1), v(10, words), encoding="ds", offset=4))
    for lane in (0, 13, 63):
        at = int(address[0, lane]) + 4
        assert m.lds.u8[at : at + 4 * words].tobytes() == fresh[:, 0, lane].tobytes()


def test_lds_pairs_and_halves():
    m, content = _lds()
    put(m, 1, (np.arange(64, dtype=U32) * 8)[None])
    execute(m, op("ds_read2_b32", v(2, 2), v(1), encoding="ds", offset0=1, offset1=3))
    words = content.view(U32)
    assert (get(m, 2, U32)[0] == words[1 + 2 * np.arange(64)]).all()
    assert (get(m, 3, U32)[0] == words[3 + 2 * np.arange(64)]).all()
    execute(m, op("ds_read2st64_b32", v(2, 2), v(1), encoding="ds", offset0=0, offset1=2))
    assert (get(m, 3, U32)[0] == words[128 + 2 * np.arange(64)]).all()
    put(m, 5, np.full((1, 64), 0xAAAABBBB, U32))
    execute(m, op("ds_read_u16_d16_hi", v(5), v(1), encoding="ds"))
    low = content.view(U16)[4 * np.arange(64)].astype(U32)
    assert (get(m, 5, U32)[0] == (low << 16 | 0xBBBB)).all()
    execute(m, op("ds_write_b16_d16_hi", v(1), v(5), encoding="ds", offset=2))
    assert (m.lds.u8[:512].view(U16)[1::4] == low).all()


def test_exchanges_between_lanes():
    m = single(waves=1)
    x = _random(1, 1, 64)
    put(m, 1, x)
    execute(m, op("ds_swizzle_b32", v(2), v(1), encoding="ds", offset=0x041F))
    assert (get(m, 2, U32)[0] == x[0][np.arange(64) ^ 1]).all()
    execute(m, op("ds_swizzle_b32", v(2), v(1), encoding="ds", offset=0x8000 | 0b00011011))
    assert (get(m, 2, U32)[0] == x[0][np.arange(64) ^ 3]).all()
    lanes = np.random.default_rng(2).permutation(64)
    put(m, 3, (lanes * 4).astype(U32)[None])
    execute(m, op("ds_bpermute_b32", v(2), v(3), v(1), encoding="ds"))
    assert (get(m, 2, U32)[0] == x[0][lanes]).all()
    execute(m, op("ds_permute_b32", v(2), v(3), v(1), encoding="ds"))
    assert (get(m, 2, U32)[0][lanes] == x[0]).all()


def test_transposing_loads():
    m, content = _lds("gfx950")
    put(m, 1, (np.arange(64, dtype=U32) * 8)[None])
    execute(m, op("ds_read_b64_tr_b16", v(2, 2), v(1), encoding="ds"))
    halves = content.view(U16)[:256].reshape(4, 16, 4)  # groups of lanes, lanes, values
    got = np.stack([get(m, 2, U32)[0], get(m, 3, U32)[0]], -1).view(U16).reshape(4, 16, 4)
    for lane in range(16):
        for k in range(4):
            source = halves[:, 4 * k + lane // 4, lane % 4]
            assert (got[:, lane, k] == source).all()


LDS_ATOMICS = {
    "ds_add_rtn_u32": lambda x, y: x + y,
    "ds_sub_rtn_u32": lambda x, y: x - y,
    "ds_max_rtn_i32": lambda x, y: max(_twos(x, 32), _twos(y, 32)),
    "ds_min_rtn_u32": min,
    "ds_or_rtn_b32": lambda x, y: x | y,
    "ds_wrxchg_rtn_b32": lambda x, y: y,
    "ds_inc_rtn_u32": lambda x, y: 0 if x >= y else x + 1,
    "ds_dec_rtn_u32": lambda x, y: y if x == 0 or x > y else x - 1,
}


@pytest.mark.parametrize("name", LDS_ATOMICS)
def test_lds_atomics_update_lane_after_lane(name):
    m, content = _lds()
    address = np.random.default_rng(3).integers(0, 9, 64).astype(U32)[None] * 4
    data = _random(4, 1, 64)
    data[0, ::5] = 3
    put(m, 1, address)
    put(m, 2, data)
    execute(m, op(name, v(3), v(1), v(2), encoding="ds"))
    cells = {k: int(content.view(U32)[k]) for k in range(9)}
    old = []
    for at, value in zip(address[0] // 4, data[0], strict=True):
        old.append(cells[int(at)])
        cells[int(at)] = LDS_ATOMICS[name](cells[int(at)], int(value)) % B32
    assert get(m, 3, U32)[0].tolist() == old
    assert m.lds.u32[:9].tolist() == list(cells.values())


# ---- device memory -------------------------------------------------------------------------------


def test_narrow_loads_and_stores():
    x = _random(1, 256, bits=8)
    program = [
        *loads(2),
        op("v_lshlrev_b32", v(1), integer(2), v(0)),
        op("v_mov_b32", v(6), literal(0xAAAABBBB)),
        op("global_load_sbyte", v(2), v(1), s(4, 2), encoding="global"),
        op("global_load_ushort", v(3), v(1), s(4, 2), encoding="global", offset=2),
        op("global_load_short_d16", v(6), v(1), s(4, 2), encoding="global", offset=0),
        wait(vmcnt=0),
        op("v_add_u32", v(4), v(2), v(3)),
        op("v_add_u32", v(4), v(4), v(6)),
        op("global_store_dword", v(1), v(4), s(6, 2), encoding="global"),
        op("global_store_byte", v(1), v(3), s(6, 2), encoding="global", offset=256),
        END,
    ]
    (_, y), _ = run(kernel(*program, workitem_ids=0), [x, np.zeros(512, np.uint8)])
    signed, high, low = x.view(np.int8)[::4].astype(np.int64), x.view(U16)[1::2], x.view(U16)[::2]
    want = signed + high + low + 0xAAAA0000
    assert (y[:256].view(U32) == (want % B32).astype(U32)).all()
    assert (y[256::4] == high.astype(np.uint8)).all()
    assert (y[257::4] == 0).all()


def test_buffers_are_bounded_by_their_descriptor():
    # 40 numbers: lanes beyond read 0 and do not write; a wide load is checked word by word.
    program = [
        *loads(2),
        op("s_mov_b32", s(10), literal(160), encoding="sop1"),
        op("s_mov_b32", s(11), literal(0x27000), encoding="sop1"),
        op("s_mov_b64", s(8, 2), s(4, 2), encoding="sop1"),
        op("s_mov_b64", s(12, 2), s(6, 2), encoding="sop1"),
        op("s_mov_b64", s(14, 2), s(10, 2), encoding="sop1"),
        op("v_lshlrev_b32", v(1), integer(2), v(0)),
        op("buffer_load_dwordx2", v(2, 2), v(1), s(8, 4), integer(0), encoding="mubuf", offen=1),
        wait(vmcnt=0),
        op("v_add_u32", v(4), v(2), v(3)),
        op("buffer_store_dword", v(4), v(1), s(12, 4), integer(0), encoding="mubuf", offen=1),
        END,
    ]
    x = _random(2, 40)
    (_, y), _ = run(kernel(*program, workitem_ids=0), [x, np.zeros(64, U32)])
    assert (y[:40] == x + np.append(x[1:], 0).astype(U32)).all()
    assert (y[40:] == 0).all()


def test_scratch_is_private():
    program = [
        *loads(1),
        op("v_lshlrev_b32", v(1), integer(2), v(0)),
        op("scratch_store_dwordx2", OFF, v(0, 2), OFF, encoding="scratch", offset=8),
        wait(vmcnt=0),
        op("scratch_load_dword", v(2), OFF, OFF, encoding="scratch", offset=8),
        wait(vmcnt=0),
        op("global_store_dword", v(1), v(2), s(4, 2), encoding="global"),
        END,
    ]
    (y,), _ = run(kernel(*program, workitem_ids=0, scratch_size=16), [np.zeros(64, U32)])
    assert y.tolist() == list(range(64))


@pytest.mark.parametrize(
    ("name", "dtype", "fn"),
    [
        ("add_f32", F32, lambda x, y: x + y),
        ("smin", np.int32, min),
        ("swap_x2", np.uint64, lambda x, y: y),
        ("add_x2", np.uint64, lambda x, y: x + y),
        ("add_f64", np.float64, lambda x, y: x + y),
    ],
)
def test_global_atomics(name, dtype, fn):
    wide = np.dtype(dtype).itemsize // 4
    program = [
        *loads(3),
        op("v_lshlrev_b32", v(1), integer(1 + wide), v(0)),
        op(
            f"global_load_dword{'x2' if wide == 2 else ''}",
            v(2, wide),
            v(1),
            s(6, 2),
            encoding="global",
        ),
        op("v_and_b32", v(4), literal(4 * wide * 3), v(1)),
        wait(vmcnt=0),
        op(
            f"global_atomic_{name}", v(6, wide), v(4), v(2, wide), s(4, 2), encoding="global", sc0=1
        ),
        wait(vmcnt=0),
        op(
            f"global_store_dword{'x2' if wide == 2 else ''}",
            v(1),
            v(6, wide),
            s(8, 2),
            encoding="global",
        ),
        END,
    ]
    cells, data = (np.random.default_rng(5).integers(0, 99, n).astype(dtype) for n in (4, 64))
    (got, _, old), _ = run(kernel(*program, workitem_ids=0), [cells, data, np.zeros(64, dtype)])
    state = list(cells)
    before = []
    for lane in range(64):
        before.append(state[lane % 4])
        state[lane % 4] = fn(state[lane % 4], data[lane])
    assert got.tolist() == [x.item() for x in state]
    assert old.tolist() == [x.item() for x in before]


def test_the_mode_register_turns_denormals_off():
    program = [
        *loads(1),
        op("v_mov_b32", v(1), literal(0x00400000)),
        op("s_setreg_imm32_b32", OFF, literal(0), encoding="sopk", hwreg=(1, 4, 2)),
        op("v_add_f32", v(2), v(1), v(1)),
        op("s_setreg_imm32_b32", OFF, literal(3), encoding="sopk", hwreg=(1, 4, 2)),
        op("v_add_f32", v(3), v(1), v(1)),
        op("v_mov_b32", v(4), integer(0)),
        op("global_store_dwordx2", v(4), v(2, 2), s(4, 2), encoding="global"),
        END,
    ]
    (y,), _ = run(kernel(*program), [np.zeros(2, U32)])
    assert y.tolist() == [0, 0x00800000]
    with pytest.raises(EmulationError, match="rounding mode"):
        run(
            kernel(
                op("s_setreg_imm32_b32", OFF, literal(1), encoding="sopk", hwreg=(1, 0, 2)), END
            ),
            [],
        )
