# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How a matmul on a CPU is cut into blocks that its registers and caches hold.

After Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008): the
columns of b are packed into panels as wide as a few vectors; a kernel keeps ``rows`` x ``panel``
sums in registers; the panel's part for ``depth`` steps stays in the first cache while
``block`` rows of a, which stay in the second one, are multiplied with it.  Other than there a is
not packed: a step reads one number of each of its rows.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ..cpu_machine import CpuMachine, cpu_machine
from ..target import Target

__all__ = ["BLOCKED", "Blocking", "blocking", "passes"]

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
        Steps along k before the next row.
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
# whole steps, which has code of its own; and a block for the loads of a panel.
_STEP, _REST, _LOAD = 0.5, 3, 10
# How many times as long all takes where the last block has fewer rows, and where both rows and
# steps leave a rest (1184 x 80 x 1411: 3.3 ms, 1.9 where the rows leave none).
_PARTIAL, _UNEVEN = 1.15, 2.0
# Largest number of rows in a block, of the kernel's rows.
_BLOCK = 16
# Multiply-adds that are worth a workgroup, and workgroups beyond which no more are needed.
_WORKGROUP, _WORKGROUPS = 1 << 21, 64
# Panels of a workgroup, at most: a graph may have 2^40 columns, and is planned in no time.
_MOST_SHARED = 4096


@lru_cache(maxsize=256)
def blocking(target: Target, m: int, n: int, k: int) -> Blocking:
    """Return the blocks for a target's vectors, registers and caches."""
    machine = cpu_machine(target)
    panel = _panel(machine, n)
    panels = -(-n // panel)
    wide = panel // machine.lanes
    most = min((machine.registers - _OTHERS) // wide, 12)
    depth = _depth(machine, panel, k)
    rows, block, overhead = min(
        (
            (rows, block, _cost(rows, block, m, uneven=k % depth > 0))
            for rows in range(min(m, _LATENCY), min(m, most) + 1)
            for block in _blocks(m, rows, machine, k)
            # Where k is cut, a block's sums are zeroed as one value.
            if depth == k or 4 * block * panel < machine.refused_bytes
        ),
        key=lambda found: (found[2], -found[0], -found[1]),
    )
    work = block * panel * k
    shared = next(
        d
        for d in range(min(panels, _MOST_SHARED), 0, -1)
        if panels % d == 0
        and (d == 1 or d * work <= _WORKGROUP or -(-m // block) * (panels // d) >= _WORKGROUPS)
    )
    return Blocking(panel, panels, rows, block, depth, shared, overhead)


def _panel(machine: CpuMachine, n: int) -> int:
    """Return two vectors, or one where that leaves clearly less unused."""
    one, two = machine.lanes, 2 * machine.lanes
    return one if 10 * (-(-n // one) * one) < 9 * (-(-n // two) * two) else two


def _depth(machine: CpuMachine, panel: int, k: int) -> int:
    """Return the steps for which a panel takes half of the first cache, rather such that divide k.

    Sums are loaded and stored once more for each further part of k, which shorter ones pay for.
    """
    held = max(machine.l1_bytes // 2 // (4 * panel), 1)
    if k <= 3 * held // 2:
        return k
    whole = (d for d in range(4 * held // 3, held // 4, -1) if k % d == 0)
    return next(whole, k if k <= 4 * held else held)


def _blocks(m: int, rows: int, machine: CpuMachine, k: int) -> list[int]:
    """Return the extents of blocks: such that divide m, all of m, or a multiple of the rows.

    What remains of m after whole blocks is compiled for any number of rows, and is slower.
    """
    held = max(machine.l2_bytes // 2 // (4 * k), rows)
    most = max(min(_BLOCK * rows, held), rows)
    found = [d for d in range(rows, min(m, 2 * most) + 1) if m % d == 0 and d <= most]
    return [*found, m if m <= 2 * most else most // rows * rows]


def _cost(rows: int, block: int, m: int, *, uneven: bool) -> float:
    """Return the time of a row in a step, in that of the multiply-adds of a row.

    ``uneven``: a part of k is shorter than the others.
    """
    whole, rest = divmod(block, rows)
    tiles = whole * (max(rows, _LATENCY) + _STEP) + (rest and max(rest, _LATENCY) + _REST)
    slower = (_PARTIAL if m % block else 1.0) * (_UNEVEN if rest and uneven else 1.0)
    return slower * (tiles + _LOAD) / block


def passes(*, virtual: bool) -> float:
    """Return how many times as long as writing a result takes, with what follows if anything does.

    Parameters
    ----------
    virtual : bool
        Whether what follows reads the result.  Blocks do not fuse with it.
    """
    return 1 + _FOLLOWED * virtual
