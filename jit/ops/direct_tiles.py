# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tiles of convolutions that read a channels-last image as it lies, for the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import prod
from typing import NamedTuple

from ..cpu_machine import cpu_machine
from ..target import Target
from .blocking import divisors
from .workgroups import shared

__all__ = ["DIRECT_NHWC", "DirectTiles", "direct_tiles"]

DIRECT_NHWC = "direct_nhwc"
"""The strategy of convolutions in these tiles."""

Ints = tuple[int, ...]

# Sums that are computed at a time, so that none waits for the one before: with half of them a step
# takes as long (Zen 3).
_IN_FLIGHT = 8
# What a step costs beside multiply-adds and loads, in the time of one.
_STEP = 0.5
# Columns of a tile and channels of a step, at most: with 32 of these there are too few registers.
_MOST_COLUMNS, _MOST_CHANNELS = 12, 16


class DirectTiles(NamedTuple):
    """The tiles of a convolution.

    Attributes
    ----------
    tile : tuple of int
        Columns and filters of which sums are in registers.
    depth : int
        Channels of a step; they divide all.
    cuts, rows : int
        Each image is cut into so many along its height, of so many rows of the result.  The
        compiler drops a dim of one image, and the tiles with it, so a single one is two.
    columns, filters : int
        Of the result, filled up to whole tiles.
    panel : int
        Filters that are computed at a time; they divide all.
    shared : int
        Rows of a workgroup.
    overhead : float
        Estimated time of the steps over that of their multiply-adds alone.
    """

    tile: tuple[int, int]
    depth: int
    cuts: int
    rows: int
    columns: int
    filters: int
    panel: int
    shared: int
    overhead: float

    @property
    def levels(self) -> Mapping[str, Mapping[str, int]]:
        """Return the tiles of the loops of `tiled_convolution`, for each level of the compiler."""
        columns, filters = self.tile
        return {
            "distribution": {"n": 1, "h": self.shared, "w": self.columns, "f": self.panel},
            "vector_common_parallel": {"n": 1, "h": 1, "w": columns, "f": filters},
            "vector_reduction": {"i": 1, "j": 1, "c": self.depth},
        }


@lru_cache(maxsize=256)
def direct_tiles(
    target: Target, samples: int, channels: int, filters: int, size: Ints, extents: Ints
) -> DirectTiles:
    """Return the tiles of least estimated time for a target's vectors, registers and caches.

    Parameters
    ----------
    target : Target
        A CPU.
    samples, channels, filters : int
    size, extents : tuple of int
        Height and width of the filter and of the result.
    """
    machine = cpu_machine(target)
    found = []
    for vectors in (1, 2):
        for columns in range(2, _MOST_COLUMNS + 1):
            sums, loads = columns * vectors, columns + vectors
            if sums + vectors < machine.registers:
                wide = vectors * machine.lanes
                whole = -(-extents[1] // columns) * columns, -(-filters // wide) * wide
                overhead = (max(sums, _IN_FLIGHT, loads) + _STEP) / sums
                found.append((overhead * prod(whole), -sums, (columns, wide), whole, overhead))
    *_, tile, (columns, all_filters), overhead = min(found)
    work = channels * prod(size)
    # Filters that take half of the second cache: another panel begins far away, and those of a
    # longer row would all be in the same few lines.
    held, count = max(machine.l2_bytes // 2 // (4 * work * tile[1]), 1), all_filters // tile[1]
    panel = tile[1] * divisors(count, held)[-1]
    cuts = 2 if samples == 1 else 1
    rows = max(-(-extents[0] // cuts), 2)
    return DirectTiles(
        tile=tile,
        depth=divisors(channels, _MOST_CHANNELS)[-1],
        cuts=cuts,
        rows=rows,
        columns=columns,
        filters=all_filters,
        panel=panel,
        shared=shared(rows, samples * cuts, work * columns * panel)[0],
        overhead=overhead,
    )
