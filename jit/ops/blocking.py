# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How a matmul on a CPU is cut into blocks that its registers and caches hold.

After Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008): the
columns of b are packed into panels as wide as a few vectors, and a kernel keeps the sums of some
rows of a panel in registers.  Otherwise than there a panel is read from the second cache, where it
stays while all rows of a block are multiplied with it: the loads of a step take less time than its
multiply-adds.  So k is cut only where a panel would not stay there, and sums are stored once.  And
a is not packed: a step reads one number of each of its rows.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from typing import NamedTuple

from ..cpu_machine import CpuMachine, cpu_machine
from ..target import Target
from .workgroups import waiting

__all__ = ["BLOCKED", "Blocking", "blocking", "divisors", "passes", "reads_columns"]

BLOCKED = "blocked"
"""The strategy of matmuls and convolutions that are computed in such blocks."""

# What follows reads the result and writes another one; a fused consumer would have had it in
# registers.  With the tiles of `loop_tiles` and two threads an element took 0.3 to 0.5 ns more of a
# core on Zen 3, where writing one takes 0.8 to 1.1, and nothing that could be told on a Xeon.
_FOLLOWED = 0.5


class Blocking(NamedTuple):
    """The blocks of a matmul of m rows, n columns and depth k.

    Attributes
    ----------
    panel : int
        Columns of a panel: whole vectors, of which a few remain unused in the last panel.
    panels : int
        Panels of all n columns.
    rows : int
        Of the sums that are kept in registers.
    block : int
        Rows that are multiplied with a panel before the next one.
    depth : int
        Steps along k before the next panel.
    shared : int
        Panels of one workgroup; they divide all panels.
    overhead : float
        Estimated time of the steps over that of their multiply-adds alone.
    """

    panel: int
    panels: int
    rows: int
    block: int
    depth: int
    shared: int
    overhead: float


# Registers that hold other than sums: what is loaded of a panel, and of a.
_OTHERS = 4
# With fewer rows the sums wait for each other: a step takes as long as one of this many rows.
_LATENCY = 4
# What a step costs beside its multiply-adds, in the time of a row's; what remains of a block after
# whole steps, which has code of its own; and all rows for the loads of a panel: workgroups with
# the same one follow each other.
_STEP, _REST, _LOAD = 0.5, 3, 10
# A last block of fewer rows has code for any number of them, which takes so many times as long
# (two threads of an Intel Xeon, 1013 x 768 x 768: 497 rows 14 ms, the other 516 2 ms), as at least
# so many rows (2 of 197 a fifth of the time of all).
_PARTIAL, _LEAST_LEFT = 6, 8
# Blocks of rows that divide all: at least and at most so many; all rows at once; and about how
# many rows others have, which leave few.
_LEAST_BLOCK, _MOST_BLOCK, _MOST_ROWS = 32, 512, 4096
_SHORT = (24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
# Panels of a workgroup, at most.
_MOST_SHARED = 64


@lru_cache(maxsize=256)
def blocking(target: Target, m: int, n: int, k: int, *, count: int = 1) -> Blocking:
    """Return the blocks for a target's vectors, registers and caches.

    ``count``: how many such matmuls there are.
    """
    machine = cpu_machine(target)
    panel = _panel(machine, n)
    panels = -(-n // panel)
    most = min((machine.registers - _OTHERS) // (panel // machine.lanes), 12)
    found = _blocks(m, most)

    def time(way: tuple[int, int]) -> tuple[float, int, int]:
        block, shared = way
        workgroups = count * (panels // shared) * -(-m // block)
        late = waiting(workgroups, shared * block * panel * k)
        return round(found[block][0] * late, 3), -shared, -block

    block, shared = min(product(found, divisors(panels, _MOST_SHARED)), key=time)
    cost, rows = found[block]
    return Blocking(panel, panels, rows, block, _depth(machine, panel, k), shared, cost)


def _panel(machine: CpuMachine, n: int) -> int:
    """Return two vectors, or one where that leaves clearly less unused."""
    one, two = machine.lanes, 2 * machine.lanes
    return one if 10 * (-(-n // one) * one) < 9 * (-(-n // two) * two) else two


def _depth(machine: CpuMachine, panel: int, k: int) -> int:
    """Return the steps for which a panel stays in a cache, rather such that divide k.

    Sums are zeroed apart, and loaded and stored for each part of k, which shorter ones pay for.
    """
    step = 4 * panel
    if step * k <= machine.l2_bytes // 2:
        return k
    held = max(machine.l2_bytes // 8 // step, 1)
    if k <= 3 * held // 2:
        return k
    return next((d for d in range(4 * held // 3, held // 4, -1) if k % d == 0), held)


def _blocks(m: int, most: int) -> dict[int, tuple[float, int]]:
    """Return extents of blocks, with the time of a row in that of its multiply-adds, and rows.

    These are such that divide m, all of m, or leave a few rows of it, which are slow.
    """
    found = [d for d in divisors(m, _MOST_BLOCK) if d >= _LEAST_BLOCK]
    if m <= _MOST_ROWS:
        found.append(m)
    found += [m // max(m // about, 1) for about in _SHORT if about < m]
    return {
        block: min(
            (_cost(rows, block, m), rows) for rows in range(min(m, _LATENCY), min(most, block) + 1)
        )
        for block in set(found)
    }


def _cost(rows: int, block: int, m: int) -> float:
    """Return the time of a row in a step, in that of the multiply-adds of a row."""
    whole, rest = divmod(block, rows)
    tiles = whole * (max(rows, _LATENCY) + _STEP) + (rest and max(rest, _LATENCY) + _REST)
    blocks, left = divmod(m, block)
    return (blocks * tiles + (left and _PARTIAL * max(left, _LEAST_LEFT)) + _LOAD) / m


def divisors(extent: int, most: int) -> list[int]:
    """Return what divides an extent, from 1 to at most so much."""
    return [d for d in range(1, min(extent, most) + 1) if extent % d == 0]


def reads_columns(target: Target, m: int, k: int) -> bool:
    """Return whether a left operand whose columns are neighbours is read as it lies.

    A larger one is transposed first: each step reads another page of it (12 of 197 x 197 times 64
    columns: 0.77 ms so, 0.51 in place; 3136 x 576 times 64: 1.86 and 2.09).
    """
    return 4 * m * k <= cpu_machine(target).l2_bytes // 2


def passes(*, virtual: bool) -> float:
    """Return how many times as long as writing a result takes, with what follows if anything does.

    Parameters
    ----------
    virtual : bool
        Whether what follows reads the result.  Blocks do not fuse with it.
    """
    return 1 + _FOLLOWED * virtual
