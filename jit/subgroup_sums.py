# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How IREE shares rows of a gfx9 reduction among subgroups, and which sums it loses (W-128)."""

from __future__ import annotations

from math import gcd

__all__ = ["loses_sums"]

_WAVE, _WORKGROUP = 64, 1024


def loses_sums(row: int, last: int, loads: int) -> bool:
    """Return whether sums of subgroups are lost.

    The last of the dims is shared among lanes, by the largest power of two, and among subgroups,
    by what is left.  Their sums meet in LDS, where each lane reads one: with fewer lanes than
    subgroups one sum is read, and the others are lost.

    Parameters
    ----------
    row : int
        Elements that are added up for one result, over several dims.
    last : int
        Extent of the last of these dims.
    loads : int
        Elements that a lane loads at a time.
    """
    if row % (loads * _WAVE):
        return False
    threads = row // loads
    if threads > _WORKGROUP:
        threads = gcd(threads, _WORKGROUP)
    loads = gcd(loads, last)
    shared = gcd(threads * loads, last) // loads
    lanes = gcd(shared, _WAVE)
    return shared // lanes > lanes
