# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels written by hand: launch geometry, divergence, memory, limits, races and missing waits."""

from __future__ import annotations

import numpy as np
import pytest
from gfx9_kernels import (
    BARRIER,
    END,
    EXEC,
    M0,
    OFF,
    VCC,
    integer,
    kernel,
    literal,
    loads,
    op,
    run,
    s,
    v,
    wait,
)
from hipdnn_iree.emulation.errors import EmulationError, UnsupportedError
from hipdnn_iree.emulation.instruction import Instruction
from hipdnn_iree.emulation.memory import Memory
from hipdnn_iree.emulation.program import Limits


def _sop(name, *operands, **modifiers):
    return op(name, *operands, encoding="sop2", **modifiers)


# v1 = byte offset of the work item in the grid, of 64 items per group, 4 bytes each
_INDEX = [
    op("v_lshlrev_b32", v(1), integer(2), v(0)),
    _sop("s_lshl_b32", s(8), s(2), integer(8)),
    op("v_add_u32", v(1), s(8), v(1)),
]
_SCALE = [
    *loads(2),
    *_INDEX,
    op("global_load_dword", v(2), v(1), s(4, 2), encoding="global"),
    wait(vmcnt=0),
    op("v_add_u32", v(2), v(2), v(2)),
    op("global_store_dword", v(1), v(2), s(6, 2), encoding="global"),
    END,
]


def _numbers(count: int) -> np.ndarray:
    return np.random.default_rng(count).integers(0, 2**31, count, dtype=np.uint32)


@pytest.mark.parametrize("groups", [1, 3, 300])
def test_every_workgroup_runs(groups):
    x = _numbers(64 * groups)
    (_, y), done = run(kernel(*_SCALE, workitem_ids=0), [x, np.zeros_like(x)], grid=(groups, 1, 1))
    assert (y == x + x).all()
    assert done.waves == groups
    assert len(done.executed) == len(_SCALE)


def test_lanes_beyond_the_block_are_off():
    x = _numbers(64)
    (_, y), _ = run(kernel(*_SCALE, workitem_ids=0), [x, np.zeros_like(x)], block=(37, 1, 1))
    assert (y[:37] == x[:37] + x[:37]).all()
    assert (y[37:] == 0).all()


def test_divergent_branches_meet_again():
    # Lanes below 20 of odd groups add 1000, by a branch around.
    program = [
        *loads(2),
        *_INDEX,
        op("global_load_dword", v(2), v(1), s(4, 2), encoding="global"),
        op("s_bitcmp1_b32", s(2), integer(0), encoding="sopc"),
        op("s_cbranch_scc0", encoding="sopp", target=15),
        op("v_cmp_gt_u32", VCC, integer(20), v(0)),
        _sop("s_and_saveexec_b64", s(10, 2), VCC),
        op("s_cbranch_execz", encoding="sopp", target=14),
        wait(vmcnt=0),
        op("v_add_u32", v(2), literal(1000), v(2)),
        _sop("s_mov_b64", EXEC, s(10, 2)),
        wait(vmcnt=0),
        op("global_store_dword", v(1), v(2), s(6, 2), encoding="global"),
        END,
    ]
    x = _numbers(64 * 5)
    (_, y), _ = run(kernel(*program, workitem_ids=0), [x, np.zeros_like(x)], grid=(5, 1, 1))
    expected = x.reshape(5, 64).copy()
    expected[1::2, :20] += 1000
    assert (y.reshape(5, 64) == expected).all()


def test_the_dispatch_packet_can_be_read():
    program = [
        op("s_load_dword", s(10), s(0, 2), integer(4), encoding="smem"),
        op("s_load_dwordx2", s(4, 2), s(2, 2), integer(0), encoding="smem"),
        wait(lgkmcnt=0),
        op("v_mov_b32", v(1), s(10)),
        op("v_mov_b32", v(2), integer(0)),
        op("global_store_dword", v(2), v(1), s(4, 2), encoding="global"),
        END,
    ]
    given = kernel(*program, user_sgprs=("dispatch_ptr", "kernarg_segment_ptr"), user_sgpr_count=4)
    (y,), _ = run(given, [np.zeros(1, np.uint32)], block=(8, 4, 2))
    assert y[0] == 8 | 4 << 16


def test_a_loop_ends_at_the_limit():
    program = kernel(
        op("s_nop", integer(0), encoding="sopp"), op("s_branch", encoding="sopp", target=0)
    )
    with pytest.raises(EmulationError, match=r"hand at 0x4, s_branch: more than 1000 instructions"):
        run(program, [], limits=Limits(instructions=1000))


def test_memory_limits_name_themselves():
    with pytest.raises(EmulationError, match="LDS per workgroup, the limit is 65536"):
        run(kernel(END, lds_size=70000), [])
    with pytest.raises(EmulationError, match="the limit is 1000"):
        run(kernel(END), [], limits=Limits(bytes=1000))
    with pytest.raises(EmulationError, match="100 bytes wanted"):
        Memory(limit=64).allocate(100)


def test_what_is_not_emulated_is_named():
    with pytest.raises(UnsupportedError, match=r"hand at 0x0, v_no_such: this instruction"):
        run(kernel(op("v_no_such", v(0))), [])
    with pytest.raises(UnsupportedError, match=r"hand at 0x0, v_add_u32: modifier strange"):
        run(kernel(op("v_add_u32", v(0), v(0), v(0), strange=1)), [])
    with pytest.raises(EmulationError, match=r"register v32 is beyond the 32"):
        run(kernel(op("v_add_u32", v(32), v(0), v(0))), [])


@pytest.mark.parametrize("offset", [-4, 256, 4096])
def test_accesses_are_bounded_by_allocation(offset):
    changed = list(_SCALE)
    place = next(k for k, i in enumerate(changed) if i.mnemonic == "global_load_dword")
    old = changed[place]
    changed[place] = Instruction(0, 4, old.mnemonic, old.encoding, old.operands, {"offset": offset})
    with pytest.raises(
        EmulationError, match=r"global_load_dword: load of 4 bytes .* outside every .* buffer [01]"
    ):
        run(kernel(*changed, workitem_ids=0), [_numbers(64), _numbers(64)])


def test_arguments_are_read_only():
    program = [
        op("v_mov_b32", v(1), integer(0)),
        op("global_store_dword", v(1), v(1), s(0, 2), encoding="global"),
        END,
    ]
    with pytest.raises(EmulationError, match="kernel arguments"):
        run(kernel(*program), [_numbers(1)])


# ---- races ---------------------------------------------------------------------------------------

# Two waves: each writes its items' values to LDS and reads those of the other.
_EXCHANGE = [
    *loads(2),
    op("v_lshlrev_b32", v(1), integer(2), v(0)),
    op("global_load_dword", v(2), v(1), s(4, 2), encoding="global"),
    wait(vmcnt=0),
    op("ds_write_b32", v(1), v(2), encoding="ds"),
    wait(lgkmcnt=0),
    BARRIER,
    op("v_xor_b32", v(3), literal(256), v(1)),
    op("ds_read_b32", v(4), v(3), encoding="ds"),
    wait(lgkmcnt=0),
    op("global_store_dword", v(1), v(4), s(6, 2), encoding="global"),
    END,
]


def _exchange(*left_out: int, **fields):
    program = kernel(
        *[i for k, i in enumerate(_EXCHANGE) if k not in left_out],
        lds_size=512,
        workitem_ids=0,
        **fields,
    )
    x = _numbers(128)
    (_, y), _ = run(program, [x, np.zeros_like(x)], block=(128, 1, 1))
    assert (y.reshape(2, 64) == x.reshape(2, 64)[::-1]).all()


def _place(mnemonic: str, number: int = 0) -> int:
    return [k for k, i in enumerate(_EXCHANGE) if i.mnemonic == mnemonic][number]


def test_waves_exchange_through_lds():
    _exchange()


def test_a_missing_barrier_is_found():
    with pytest.raises(EmulationError, match="race on LDS"):
        _exchange(_place("s_barrier"))


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "s5? is read before lgkmcnt|s4 is read before lgkmcnt"),
        (1, "v2 is read before vmcnt"),
        (2, "race on LDS"),  # the write may not have arrived when the barrier is passed
        (3, "v4 is read before lgkmcnt"),
    ],
)
def test_a_missing_wait_is_found(number, text):
    with pytest.raises(EmulationError, match=text):
        _exchange(_place("s_waitcnt", number))


def test_a_wait_for_too_few_is_found():
    program = [
        *loads(2),
        op("v_lshlrev_b32", v(1), integer(2), v(0)),
        op("global_load_dword", v(2), v(1), s(4, 2), encoding="global"),
        op("global_load_dword", v(3), v(1), s(4, 2), encoding="global"),
        wait(vmcnt=1),
        op("v_mov_b32", v(4), v(2)),
        op("v_mov_b32", v(5), v(3)),
        END,
    ]
    with pytest.raises(EmulationError, match="v3 is read before vmcnt"):
        run(kernel(*program), [_numbers(64), _numbers(64)])
    run(kernel(*program[:-2], END), [_numbers(64), _numbers(64)])


def test_scalar_loads_return_in_any_order():
    program = [
        op("s_load_dword", s(4), s(0, 2), integer(0), encoding="smem"),
        op("s_load_dword", s(5), s(0, 2), integer(4), encoding="smem"),
        wait(lgkmcnt=1),
        op("s_mov_b32", s(6), s(4), encoding="sop1"),
        END,
    ]
    with pytest.raises(EmulationError, match="s4 is read before lgkmcnt"):
        run(kernel(*program), [_numbers(1)])


def _all_write(offset_bits: int) -> list[Instruction]:
    """Every workgroup writes its number from v0 << 2 | group << bits on."""
    return [
        *loads(1),
        op("v_lshlrev_b32", v(1), integer(2), v(0)),
        _sop("s_lshl_b32", s(8), s(2), integer(offset_bits)),
        op("v_add_u32", v(1), s(8), v(1)),
        op("v_mov_b32", v(2), s(2)),
        op("global_store_dword", v(1), v(2), s(4, 2), encoding="global"),
        END,
    ]


@pytest.mark.parametrize("groups", [2, 200, 500])
def test_workgroups_that_write_one_place_race(groups):
    y = np.zeros(64 * groups + 64, np.uint32)
    run(kernel(*_all_write(8), workitem_ids=0), [y], grid=(groups, 1, 1))
    with pytest.raises(EmulationError, match="race on buffer 0 byte"):
        run(kernel(*_all_write(7), workitem_ids=0), [y], grid=(groups, 1, 1))


@pytest.mark.parametrize("shift", [0, 2])
def test_reading_what_another_workgroup_writes_is_a_race(shift):
    # Every group reads its own 64 numbers, or those `shift` bytes on, and writes its own.
    program = [
        *loads(1),
        *_INDEX,
        op("global_load_dword", v(2), v(1), s(4, 2), encoding="global", offset=shift),
        wait(vmcnt=0),
        op("global_store_dword", v(1), v(2), s(4, 2), encoding="global"),
        END,
    ]
    x = _numbers(64 * 3 + 1)
    if not shift:
        run(kernel(*program, workitem_ids=0), [x], grid=(3, 1, 1))
        return
    with pytest.raises(EmulationError, match="race on buffer 0 byte"):
        run(kernel(*program, workitem_ids=0), [x], grid=(3, 1, 1))


def test_a_barrier_orders_global_accesses_of_a_workgroup():
    def program(*between: Instruction) -> list[Instruction]:
        return [
            *loads(1),
            op("v_lshlrev_b32", v(1), integer(2), v(0)),
            op("global_store_dword", v(1), v(1), s(4, 2), encoding="global"),
            *between,
            op("v_xor_b32", v(3), literal(256), v(1)),
            op("global_load_dword", v(2), v(3), s(4, 2), encoding="global"),
            END,
        ]

    y = _numbers(128)
    run(kernel(*program(wait(vmcnt=0), BARRIER), workitem_ids=0), [y], block=(128, 1, 1))
    for between in ((), (wait(vmcnt=0),), (BARRIER,)):
        with pytest.raises(EmulationError, match="race on buffer 0"):
            run(kernel(*program(*between), workitem_ids=0), [y], block=(128, 1, 1))


def test_atomics_of_several_workgroups_do_not_race():
    program = [
        *loads(1),
        op("v_mov_b32", v(1), integer(0)),
        op("v_mov_b32", v(2), integer(3)),
        op("global_atomic_add", v(1), v(2), s(4, 2), encoding="global"),
        END,
    ]
    (y,), _ = run(kernel(*program), [np.array([5], np.uint32)], grid=(200, 1, 1))
    assert y[0] == 5 + 3 * 64 * 200


def test_loads_into_lds_are_waited_for():
    def program(*between: Instruction) -> list[Instruction]:
        return [
            *loads(2),
            op("v_lshlrev_b32", v(1), integer(2), v(0)),
            op("s_mov_b32", M0, integer(64), encoding="sop1"),
            op("global_load_lds_dword", v(1), s(4, 2), encoding="global"),
            *between,
            op("ds_read_b32", v(2), v(1), encoding="ds", offset=64),
            wait(lgkmcnt=0),
            op("global_store_dword", v(1), v(2), s(6, 2), encoding="global"),
            END,
        ]

    x = _numbers(64)
    given = {"lds_size": 512, "target": "gfx950", "workitem_ids": 0}
    (_, y), _ = run(kernel(*program(wait(vmcnt=0)), **given), [x, np.zeros_like(x)])
    assert (y == x).all()
    with pytest.raises(EmulationError, match="missing s_waitcnt: LDS"):
        run(kernel(*program(), **given), [x, np.zeros_like(x)])


def test_lds_and_scratch_are_bounded():
    lds = [op("v_mov_b32", v(1), literal(1024)), op("ds_write_b32", v(1), v(1), encoding="ds"), END]
    with pytest.raises(EmulationError, match=r"ds_write_b32: LDS access of 4 bytes at 0x400"):
        run(kernel(*lds, lds_size=1024), [])
    for size, offset, inside in ((1018, 1016, True), (1018, 1024, False), (1024, 1020, False)):
        at = literal(offset)
        read = [op("v_mov_b32", v(1), at), op("ds_read_b64", v(2, 2), v(1), encoding="ds"), END]
        if inside:  # a load of 3 halves, widened to 8 bytes
            run(kernel(*read, lds_size=size), [])
        else:
            with pytest.raises(EmulationError, match="ds_read_b64: LDS access of 8 bytes"):
                run(kernel(*read, lds_size=size), [])
    scratch = [op("scratch_store_dword", OFF, v(0), OFF, encoding="scratch", offset=16), END]
    with pytest.raises(EmulationError, match="scratch access"):
        run(kernel(*scratch, scratch_size=16), [])


@pytest.mark.parametrize(("value", "races"), [(3, False), (0, True)])
def test_equal_values_that_several_waves_write_are_no_race(value, races):
    # Both waves write one place: always 3, or the number of their first item.
    program = [
        *loads(1),
        op("v_mov_b32", v(1), integer(0)),
        op("v_mov_b32", v(2), integer(value) if value else v(0)),
        op("v_readfirstlane_b32", s(9), v(2)),
        op("v_mov_b32", v(2), s(9)),
        op("ds_write_b32", v(1), v(2), encoding="ds"),
        op("global_store_dword", v(1), v(2), s(4, 2), encoding="global"),
        wait(vmcnt=0, lgkmcnt=0),
        op("global_load_dword", v(3), v(1), s(4, 2), encoding="global"),
        END,
    ]
    given = kernel(*program, workitem_ids=0, lds_size=16)
    if not races:
        run(given, [np.zeros(1, np.uint32)], block=(128, 1, 1))
        return
    with pytest.raises(EmulationError, match=r"race on .* writes it in .* writes it in"):
        run(given, [np.zeros(1, np.uint32)], block=(128, 1, 1))
