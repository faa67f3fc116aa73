# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The race detector's shadows against a model of single bytes, and the memory that checks take."""

from __future__ import annotations

import random
import re
import tracemalloc

import numpy as np
import pytest
from gfx9_kernels import END, integer, kernel, literal, loads, op, run, s, v, wait
from hipdnn_iree.emulation.errors import EmulationError
from hipdnn_iree.emulation.instruction import Instruction
from hipdnn_iree.emulation.memory import Allocation
from hipdnn_iree.emulation.races import READ, WRITE, GlobalRaces, LdsRaces, accessed
from hipdnn_iree.emulation.waits import LGKM, Waits

WAVES, REGION = 4, 64  # each wave is a workgroup, with a region that is mostly its own
BYTES = WAVES * REGION


class _Bytes:
    """Who has touched and who has written each byte."""

    def __init__(self) -> None:
        self.touched = [set[int]() for _ in range(BYTES)]
        self.written = [set[int]() for _ in range(BYTES)]

    def add(self, kind: int, wave: int, octets: range) -> None:
        for octet in octets:
            self.touched[octet].add(wave)
            if kind == WRITE:
                self.written[octet].add(wave)

    @property
    def races(self) -> set[int]:
        return {
            octet
            for octet in range(BYTES)
            if self.written[octet] and len(self.touched[octet] | self.written[octet]) > 1
        }


def _raced(seed: int) -> bool:
    """Make random accesses of 1 to 16 bytes until a race is found, by both or by none."""
    dice, model = random.Random(seed), _Bytes()
    races = GlobalRaces(Waits(WAVES), np.arange(WAVES))
    place = Allocation(4096, BYTES, "the buffer", False, None, 4096)
    for finest in (4, 4, 3, 2, 1, 0, 0):  # units get smaller, as in a kernel that packs its results
        for _ in range(dice.randrange(1, 4)):
            kind = dice.choice((READ, READ, WRITE))
            unit = 1 << dice.randint(finest, 4)
            size = unit * dice.choice([n for n in (1, 2, 3, 4) if n * unit <= 16])
            lanes = []
            for wave in range(WAVES):
                region = wave if dice.random() < 0.98 else dice.randrange(WAVES)
                at = region * REGION + dice.randrange((REGION - size) // unit + 1) * unit
                lanes.append(at)
                model.add(kind, wave, range(at, at + size))
            waves = np.arange(WAVES, dtype=np.uint8)
            places = np.array(lanes, np.int64)
            races.add_at(place, accessed(kind, places, waves, size, "an access", None))
        try:
            races.flush()
        except EmulationError as error:
            named = re.search(r"race on the buffer byte (0x[0-9a-f]+)", str(error))
            assert named is not None
            assert int(named[1], 16) in model.races
            return True
        assert not model.races
    return False


def test_races_are_those_of_single_bytes() -> None:
    found = [_raced(seed) for seed in range(100)]
    assert 20 < sum(found) < 80  # races and their absence were both tried


def test_an_access_goes_on_for_the_waves_that_have_not_waited_and_is_not_copied() -> None:
    waits, everyone = Waits(WAVES), np.ones(WAVES, bool)
    ticket = waits.issue((LGKM,), True, everyone, frozenset(), "a load")
    races = LdsRaces(waits, np.zeros(WAVES, np.int64), BYTES, BYTES)
    waves = np.arange(WAVES, dtype=np.uint8)
    load = accessed(READ, waves * np.int64(REGION), waves, 4, "a load", ticket)
    races.entries.append(load)
    races.flush()
    assert [entry is load for entry in races.entries] == [True]  # nobody has waited
    waits.wait((-1, 0), everyone & (waves < 2))
    races.flush()
    assert [entry.waves.tolist() for entry in races.entries] == [[2, 3]]
    waits.wait((-1, 0), everyone)
    races.flush()
    assert races.entries == []


# 64 items, each group 1 KiB on: 16 bytes of each item are copied.
_COPY = [
    *loads(2),
    op("v_lshlrev_b32", v(1), integer(4), v(0)),
    op("s_lshl_b32", s(8), s(2), integer(10), encoding="sop2"),
    op("v_add_u32", v(1), s(8), v(1)),
    op("global_load_dwordx4", v(4, 4), v(1), s(4, 2), encoding="global"),
    wait(vmcnt=0),
    op("global_store_dwordx4", v(1), v(4, 4), s(6, 2), encoding="global"),
]


def _one_byte(offset: int) -> list[Instruction]:
    """Each group also writes one byte that lies so far behind the start of its own KiB."""
    return [
        op("v_mov_b32", v(1), literal(offset)),
        op("v_add_u32", v(1), s(8), v(1)),
        op("global_store_byte", v(1), v(0), s(6, 2), encoding="global"),
    ]


def _copy(*more: Instruction, groups: int, **fields: int) -> int:
    """Return the most bytes that a launch of the copy took."""
    x = np.arange(256 * groups, dtype=np.uint32)
    y = np.zeros(256 * (groups + 1), np.uint32)
    tracemalloc.start()
    try:
        run(kernel(*_COPY, *more, END, workitem_ids=0, **fields), [x, y], grid=(groups, 1, 1))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_checks_of_large_buffers_take_less_than_those() -> None:
    groups = 2048
    buffers = 2 * 1024 * groups
    assert _copy(groups=groups) < 2.5 * buffers  # of which the arrays that are copied take twice


def test_workgroups_with_many_registers_run_in_smaller_batches() -> None:
    assert _copy(groups=300, vgprs=512) < 8 << 20


def test_a_byte_within_what_another_workgroup_wrote_is_found() -> None:
    for groups in (2, 300):  # in one batch, and in several
        with pytest.raises(EmulationError, match="race on buffer 1"):
            _copy(*_one_byte(1024 + 7), groups=groups)
