# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Vector registers by an index in M0, another one in each wave."""

from __future__ import annotations

import numpy as np
import pytest
from gfx9_kernels import END, M0, integer, kernel, loads, op, run, s, v
from hipdnn_iree.emulation import indexing
from hipdnn_iree.emulation.errors import EmulationError
from hipdnn_iree.emulation.instruction import Instruction, Operand

LANES = np.arange(64)
OFF = op("s_set_gpr_idx_off", encoding="sopp")
SRC0, SRC1, SRC2, DST = 1, 2, 4, 8


def on(ports: int, index: Operand) -> Instruction:
    return op("s_set_gpr_idx_on", index, integer(ports), encoding="sopc")


def stored(*body: Instruction, result: int) -> np.ndarray:
    """Return v[result] of three waves; v[8+k] hold 100 k + lane, s10 the wave's number."""
    program = [
        *loads(1),
        op("v_lshrrev_b32", v(1), integer(6), v(0)),
        op("v_readfirstlane_b32", s(10), v(1), encoding="vop1"),
        op("v_and_b32", v(2), integer(63), v(0)),
        *(
            op("v_add_u32", v(8 + k), Operand("const", bits=100 * k, kind="literal"), v(2))
            for k in range(8)
        ),
        *body,
        op("v_lshlrev_b32", v(3), integer(2), v(0)),
        op("global_store_dword", v(3), v(result), s(4, 2), encoding="global"),
        END,
    ]
    (found,), _ = run(kernel(*program), [np.zeros((3, 64), np.uint32)], block=(192, 1, 1))
    return found


def test_a_source_is_indexed() -> None:
    found = stored(on(SRC0, s(10)), op("v_mov_b32", v(20), v(9)), OFF, result=20)
    np.testing.assert_array_equal(found, [100 * (1 + wave) + LANES for wave in range(3)])


def test_a_destination_is_indexed() -> None:
    """Wave w replaces v[8+w], and no other."""
    body = on(DST, s(10)), op("v_mov_b32", v(8), integer(7)), OFF
    for k in range(3):
        found = stored(*body, result=8 + k)
        expected = [np.full(64, 7) if wave == k else 100 * k + LANES for wave in range(3)]
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("ports", range(8))
def test_each_source_has_a_bit(ports: int) -> None:
    """Of a sum with other weights; the index is 2."""
    add = op("v_mad_u32_u24", v(20), v(9), v(10), v(11))
    found = stored(on(ports, integer(2)), add, OFF, result=20)
    a, b, c = (100 * (1 + k + (2 if ports >> k & 1 else 0)) + LANES for k in range(3))
    np.testing.assert_array_equal(found, np.broadcast_to(a * b + c, (3, 64)))


def test_index_and_bits_change_while_it_is_on() -> None:
    """From v[8+3] to v[8+1], then of the second source only; behind it, of none."""
    found = stored(
        on(SRC0, integer(3)),
        op("v_mov_b32", v(20), v(8)),
        op("s_set_gpr_idx_idx", integer(1), encoding="sop1"),
        op("v_add_u32", v(20), v(8), v(20)),
        op("s_set_gpr_idx_mode", integer(SRC1), encoding="sopp"),
        op("v_add_u32", v(20), v(20), v(8)),
        OFF,
        op("v_add_u32", v(20), v(20), v(9)),
        result=20,
    )
    np.testing.assert_array_equal(found, np.broadcast_to(600 + 4 * LANES, (3, 64)))


def test_m0_holds_index_and_bits() -> None:
    """Its other bits stay; the index has eight."""
    found = stored(
        op("s_mov_b32", M0, Operand("const", bits=0xABCD_0F00, kind="literal"), encoding="sop1"),
        op("s_movk_i32", s(11), integer(0x105), encoding="sopk"),
        on(SRC1 | DST, s(11)),
        OFF,
        op("v_mov_b32", v(20), M0),
        result=20,
    )
    assert set(found.ravel().tolist()) == {0xABCD_AF05}


@pytest.mark.parametrize(
    ("instruction", "why"),
    [
        (op("v_mov_b32", v(20), v(60)), "register v65 is beyond"),
        (op("v_cmp_eq_u32", s(12, 2), v(8), v(9)), "v_cmp_eq_u32: indexed vector registers"),
        (op("ds_read_b32", v(20), v(8), encoding="ds"), "ds_read_b32: indexed vector registers"),
        (op("s_mov_b32", M0, integer(0), encoding="sop1"), "M0 is written while"),
    ],
)
def test_what_is_not_executed_is_told(instruction: Instruction, why: str) -> None:
    with pytest.raises(EmulationError, match=why):
        stored(on(SRC0, integer(5)), instruction, OFF, result=20)


def test_every_instruction_of_the_mode_is_tried() -> None:
    assert {*indexing.BUILDERS} == {f"s_set_gpr_idx_{x}" for x in ("on", "off", "mode", "idx")}
