# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matrix and packed instructions, element by element."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
from gfx9_kernels import (
    a,
    execute,
    get,
    integer,
    op,
    put,
    random_bits,
    real,
    single,
    v,
)
from hipdnn_iree.emulation.errors import UnsupportedError
from hipdnn_iree.emulation.mfma import SHAPES, SPARSE_SHAPES

F32, U32, U16, F16 = np.float32, np.uint32, np.uint16, np.float16


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


def _put_rows(m, first, rows, kind):
    """Lay out ``(waves, size, depth)`` in registers: lanes count rows within groups of k."""
    waves, size, _ = rows.shape
    lanes = rows.reshape(waves, size, 64 // size, -1).swapaxes(1, 2).reshape(waves, 64, -1)
    packed = lanes.astype(kind).view(np.uint8).view(U32)
    for k in range(packed.shape[-1]):
        put(m, first + k, np.ascontiguousarray(packed[..., k]))
    return packed.shape[-1]


@pytest.mark.parametrize("shape", SPARSE_SHAPES)
def test_sparse_matrix_products(shape):
    """Two of four elements of A along k: each takes the row of B that its two bits say."""
    out, kinds = _names(shape)
    size, depth = (int(x) for x in re.match(r"\w+?_(\d+)x\d+x(\d+)", shape).groups())
    large = size * depth * 8 * np.dtype(_type(kinds[0], "gfx950")).itemsize > 64 * 128
    target = "gfx950" if large else "gfx942"
    types = [_type(kind, target) for kind in kinds]
    rng = np.random.default_rng(6)
    a = rng.integers(-3, 4, (2, size, depth // 2))
    b = rng.integers(-3, 4, (2, size, depth))
    at = rng.integers(0, 4, a.shape)
    m = single(target)
    counts = [_put_rows(m, 0, a, types[0]), _put_rows(m, 16, b, types[1])]
    bits = depth * size // 64  # of indices in a lane
    abid = 0 if bits == 32 else 32 // bits - 1
    words = np.zeros((2, 64 // size, size), U32)
    of_lane = at.reshape(2, size, 64 // size, -1)
    for e in range(of_lane.shape[-1]):
        words |= of_lane[..., e].swapaxes(1, 2).astype(U32) << U32(bits * abid + 2 * e)
    put(m, 32, words.reshape(2, 64))
    accumulator = {"f32": F32, "i32": np.int32}[out]
    count = size * size // 64
    c = rng.integers(-9, 10, (2, 64, count)).astype(accumulator)
    for k in range(count):
        put(m, 40 + k, np.ascontiguousarray(c[..., k]))
    given = {"abid": abid} if abid else {}
    name, result = "v_smfmac_" + shape, v(40, count)
    operands = (result, v(0, counts[0]), v(16, counts[1]), v(32))
    execute(m, op(name, *operands, encoding="mfma", **given))
    rows = 4 * (np.arange(depth // 2) // 2) + at
    for k in range(count):
        got = get(m, 40 + k, accumulator)
        for lane in (0, 1, 5, 17, 31, 32, 47, 63):
            _, i = _place(out, size, 1, k, lane)
            for wave in range(2):
                want = (a[wave, i] * b[wave, lane % size, rows[wave, i]]).sum() + c[wave, lane, k]
                assert got[wave, lane] == want, (k, lane)


def test_indices_that_are_not_there_are_no_numbers():
    operands = (v(40, 4), v(0, 2), v(16, 4), v(32))
    for given in ({"cbsz": 1}, {"abid": 4}):
        name = "v_smfmac_f32_16x16x32_f16"
        with pytest.raises(UnsupportedError):
            execute(single("gfx942"), op(name, *operands, encoding="mfma", **given))


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
    x, y = random_bits(1, 2, 64), random_bits(2, 2, 64)
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
