# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How a matmul of few rows on a CPU reads its right operand by rows, as it lies, once.

The sums of some rows of the result stay in the first cache, while a few rows of the right operand
at a time are multiplied with a number each and added to them: memory is read in long runs.
"""

from __future__ import annotations

from typing import NamedTuple

from ..cpu_machine import cpu_machine
from ..target import Target

__all__ = ["ROWS", "Rows", "rows"]

ROWS = "rows"
"""The strategy of matmuls that are computed so."""


class Rows(NamedTuple):
    """The tiles of a matmul of m rows and n columns.

    Attributes
    ----------
    rows, columns : int
        Of the result, whose sums are in registers for `steps` steps.
    steps : int
        Rows of the right operand that are read side by side.
    block : int
        Columns of a workgroup.
    """

    rows: int
    columns: int
    steps: int
    block: int


# Rows of the result, and of the right operand, at a time.
_ROWS, _STEPS = 8, 8
# Vectors of sums side by side, of one row.
_VECTORS = 8
# Bytes of a row in a block: those of a page, within which memory is read ahead (1 x 4096 x 4096:
# 2.96 ms with half of it, 2.57, 2.47 with twice as much).
_RUN = 4 << 10
# Elements of the right operand that are worth a workgroup.
_WORKGROUP = 1 << 19


def rows(target: Target, m: int, n: int, k: int) -> Rows:
    """Return the tiles for a target's vectors and registers."""
    machine = cpu_machine(target)
    several = min(m, _ROWS)
    wide = max(min(machine.registers // 2 // several, _VECTORS), 1)
    columns = machine.lanes * max(min(wide, n // machine.lanes), 1)
    # A block's sums are zeroed as one value.
    most = min(_RUN // 4, (machine.refused_bytes // 4 - 1) // several)
    blocks = max(-(-n // most), min(n * k // _WORKGROUP, 2))
    block = -(-n // (blocks * columns)) * columns
    while block > most:
        block -= columns
    return Rows(several, columns, min(_STEPS, k), min(block, n))
