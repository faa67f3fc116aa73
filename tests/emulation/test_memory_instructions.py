# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Instructions of the LDS and of device memory."""

from __future__ import annotations

import numpy as np
import pytest
from gfx9_kernels import (
    END,
    OFF,
    execute,
    get,
    integer,
    kernel,
    literal,
    loads,
    op,
    put,
    random_bits,
    run,
    s,
    single,
    twos,
    v,
    wait,
)
from hipdnn_iree.emulation.errors import EmulationError

F32, U32, U16, F16 = np.float32, np.uint32, np.uint16, np.float16


# ---- LDS -----------------------------------------------------------------------------------------


def _lds(target="gfx942"):
    m = single(target, waves=1, lds=8192)
    content = random_bits(9, 8192, bits=8)
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
    fresh = random_bits(11, words, 1, 64)
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
    x = random_bits(1, 1, 64)
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
    "ds_max_rtn_i32": lambda x, y: max(twos(x, 32), twos(y, 32)),
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
    data = random_bits(4, 1, 64)
    data[0, ::5] = 3
    put(m, 1, address)
    put(m, 2, data)
    execute(m, op(name, v(3), v(1), v(2), encoding="ds"))
    cells = {k: int(content.view(U32)[k]) for k in range(9)}
    old = []
    for at, value in zip(address[0] // 4, data[0], strict=True):
        old.append(cells[int(at)])
        cells[int(at)] = LDS_ATOMICS[name](cells[int(at)], int(value)) % 2**32
    assert get(m, 3, U32)[0].tolist() == old
    assert m.lds.u32[:9].tolist() == list(cells.values())


# ---- device memory -------------------------------------------------------------------------------


def test_narrow_loads_and_stores():
    x = random_bits(1, 256, bits=8)
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
    assert (y[:256].view(U32) == (want % 2**32).astype(U32)).all()
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
    x = random_bits(2, 40)
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
