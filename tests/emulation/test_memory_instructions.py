# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Instructions of device memory, and the mode register."""

from __future__ import annotations

import numpy as np
import pytest
from gfx9_kernels import (
    END,
    OFF,
    integer,
    kernel,
    literal,
    loads,
    op,
    random_bits,
    run,
    s,
    v,
    wait,
)
from hipdnn_iree.emulation.errors import EmulationError

F32, U32, U16, F16 = np.float32, np.uint32, np.uint16, np.float16


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
