# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How a matmul on a CPU is computed as dot products of operands that lie along k in memory.

Vectors lie along k in both operands, so neither is packed or transposed: a vector of sums for
each element of the result is added up at the end.  What several rows of one operand have in
common with several of the other is read once for all of them.
"""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

from ..cpu_machine import cpu_machine
from ..target import Target

__all__ = ["DOTS", "Dots", "dots", "fits_dots"]

DOTS = "dots"
"""The strategy of matmuls that are computed so."""

# Shorter vectors cost more than they save.
_LEAST_LANES = 4


class Dots(NamedTuple):
    """The tiles of a matmul of m rows and n columns.

    Attributes
    ----------
    lanes : int
        Steps along k side by side in a vector; they divide k.
    rows, columns : int
        Of the result, whose sums are kept in registers.
    block_rows, block_columns : int
        Of a workgroup, multiples of the former or all.
    """

    lanes: int
    rows: int
    columns: int
    block_rows: int
    block_columns: int


# Of each operand, whose rows are read side by side; and of the vector registers, as a divisor.
_ROWS = 8
# Elements of a workgroup's part of the longer operand and of the other one, which is read again
# for each few rows of the former.
_LONG, _SHORT = 1 << 16, 1 << 18


def fits_dots(k: int) -> bool:
    """Return whether vectors fill k."""
    return k % _LEAST_LANES == 0


def dots(target: Target, m: int, n: int, k: int) -> Dots:
    """Return the tiles for a target's vectors and registers."""
    machine = cpu_machine(target)
    sums = machine.registers * 3 // 4
    few = _even(min(m, n), min(_ROWS, sums // 3))
    many = min(sums // few, _ROWS, max(m, n))
    blocks = [_multiple(few, _SHORT // k, min(m, n)), _multiple(many, _LONG // k, max(m, n))]
    tiles = [few, many]
    if m > n:
        tiles, blocks = tiles[::-1], blocks[::-1]
    return Dots(gcd(k, machine.lanes), *tiles, *blocks)


def _even(extent: int, most: int) -> int:
    """Return a tile of at most so many rows, of which the last one leaves few unused."""
    return -(-extent // -(-extent // most))


def _multiple(tile: int, held: int, extent: int) -> int:
    return min(max(held // tile, 1) * tile, extent)
