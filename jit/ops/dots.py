# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How a matmul on a CPU is computed as dot products of operands that lie along k in memory.

Vectors lie along k in both operands, so neither is packed or transposed: a vector of sums for
each element of the result is added up at the end, or, where whole vectors leave a rest of k, after
every few of them.  What several rows of one operand have in common with several of the other is
read once for all of them.
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
        Steps along k side by side in a vector.
    vectors : int
        How many of these are added up at a time; 0 if they divide k and are added up at the end.
    rows, columns : int
        Of the result, whose sums are kept in registers.
    block_rows, block_columns : int
        Of a workgroup, multiples of the former or all.
    """

    lanes: int
    vectors: int
    rows: int
    columns: int
    block_rows: int
    block_columns: int


# Of each operand, whose rows are read side by side; and of the vector registers, as a divisor.
_ROWS = 8
# Of sums that are added up after some vectors: these, and rows and columns of the result.  2 rows
# of 4006 steps times 1917 columns took 3.0 ms on Zen 3, PyTorch 7.6.
_VECTORS, _FEW, _MANY = 4, 2, 4
# Elements of a workgroup's part of the longer operand and of the other one, which is read again
# for each few rows of the former.
_LONG, _SHORT = 1 << 16, 1 << 18


def fits_dots(target: Target, k: int) -> bool:
    """Return whether vectors fill k, or leave a rest of it that is small."""
    return k % _LEAST_LANES == 0 or _leaves_rest(target, k)


def _leaves_rest(target: Target, k: int) -> bool:
    """Return whether whole vectors, and what they leave, are better than parts of vectors."""
    lanes = cpu_machine(target).lanes
    return gcd(k, lanes) < lanes // 2 and k >= _VECTORS * lanes


def dots(target: Target, m: int, n: int, k: int) -> Dots:
    """Return the tiles for a target's vectors and registers."""
    machine = cpu_machine(target)
    sums = machine.registers * 3 // 4
    vectors = _VECTORS if _leaves_rest(target, k) else 0
    few = min(m, n, _FEW) if vectors else _even(min(m, n), min(_ROWS, sums // 3))
    many = min(max(m, n), _MANY if vectors else min(sums // few, _ROWS))
    blocks = [_multiple(few, _SHORT // k, min(m, n)), _multiple(many, _LONG // k, max(m, n))]
    tiles = [few, many]
    if m > n:
        tiles, blocks = tiles[::-1], blocks[::-1]
    return Dots(machine.lanes if vectors else gcd(k, machine.lanes), vectors, *tiles, *blocks)


def _even(extent: int, most: int) -> int:
    """Return a tile of at most so many rows, of which the last one leaves few unused."""
    return -(-extent // -(-extent // most))


def _multiple(tile: int, held: int, extent: int) -> int:
    return min(max(held // tile, 1) * tile, extent)
