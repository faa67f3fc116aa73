# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tiles of convolutions of several groups that read a channels-last image as it lies."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import prod
from typing import NamedTuple

from ..cpu_machine import cpu_machine
from ..target import Target
from .workgroups import waiting

__all__ = ["MOST_OFFSETS", "GroupTiles", "group_tiles"]

MOST_OFFSETS = 28
"""Numbers that a kernel takes as arguments, at most: IREE's limit is 64 of 32 bits."""

Ints = tuple[int, ...]

# Columns of a tile, at most.
_MOST_COLUMNS = 12
# What a tile takes beside its loads: loops, addresses, and a vector of another width.
_TILE = 30
# Multiply-adds of a workgroup, at most, where it has several rows.
_WORKGROUP = 1 << 24
# Numbers of rows that are tried, at most: an image may have 2^40, and is planned in no time.
_MOST_TRIED = 256


class GroupTiles(NamedTuple):
    """The tiles of a convolution of several groups.

    Attributes
    ----------
    filters, columns : int
        Of which sums are in registers; columns are those along the last spatial dim that is not 1.
    rows, groups : int
        Of a workgroup; along an image's only spatial dim rows are tiles of columns.
    loads : int
        Estimated time of all, in that of a load.
    """

    filters: int
    columns: int
    rows: int
    groups: int
    loads: int

    def levels(self, extents: Mapping[str, int]) -> Mapping[str, Mapping[str, int]]:
        """Return the tiles of each level of the compiler.

        Parameters
        ----------
        extents : mapping
            Of the result's dims by letter: n, the spatial ones, g (groups) and f (their filters).
        """
        spatial = [d for d in extents if d not in "ngf" and extents[d] > 1]
        shared, tile = dict.fromkeys("ngf", 1) | dict.fromkeys(spatial, 1), {}
        shared |= {"g": self.groups, "f": extents["f"]}
        if spatial:
            *above, along = spatial
            tile = {along: self.columns}
            shared[along] = extents[along] if above else self.rows * self.columns
            shared |= dict.fromkeys(above[-1:], self.rows)
        common = dict.fromkeys("ng", 1) | dict.fromkeys(spatial, 1) | tile | {"f": self.filters}
        return {
            "distribution": shared,
            "vector_common_parallel": common,
            "vector_reduction": {"c": 1},
        }


@lru_cache(maxsize=256)
def group_tiles(
    target: Target,
    samples: int,
    groups: int,
    channels: int,
    filters: int,
    size: Ints,
    extents: Ints,
) -> GroupTiles:
    """Return the tiles of least estimated time for a target's vectors and registers.

    Each number of the image that is in a vector's sums is loaded and repeated for it, so loads are
    what counts, as many as multiply-adds.

    Parameters
    ----------
    target : Target
        A CPU.
    samples, groups : int
    channels, filters : int
        Of each group.
    size, extents : tuple of int
        Spatial dims of the filter and of the result.
    """
    machine = cpu_machine(target)
    *above, along = [e for e in extents if e > 1] or [1]
    # Beside the sums are those of the positions of one channel, and a vector of the filter.
    most = min(_MOST_COLUMNS, (machine.registers - 2) // 2, along)

    vectors, met = _vectors(filters, machine.lanes), prod(size) * channels

    def loads(columns: int) -> int:
        whole, rest = divmod(along, columns)

        def tile(count: int) -> int:
            return vectors * (met * (count + 1) + 2 * count) + _TILE

        return whole * tile(columns) + (tile(rest) if rest else 0)

    columns = min(range(1, most + 1), key=lambda n: (loads(n), n))
    lines = above[-1] if above else -(-along // columns)
    images = samples * prod(above[:-1])
    work = met * filters * (along if above else columns)
    rows, together = _shared(lines, groups, images, work)
    return GroupTiles(
        filters=min(filters, machine.lanes),
        columns=columns,
        rows=rows,
        groups=together,
        loads=samples * groups * prod(above) * loads(columns),
    )


def _vectors(filters: int, lanes: int) -> int:
    """Return the vectors of so many filters; one of another width is stored in parts."""
    whole, rest = divmod(filters, lanes)
    return whole + (0 if not rest else 1 if rest & (rest - 1) == 0 else 2)


def _shared(lines: int, groups: int, images: int, work: int) -> tuple[int, int]:
    """Return the rows and groups of a workgroup; ``work``: multiply-adds of one of each."""

    def time(shared: tuple[int, int]) -> tuple[float, int, int]:
        rows, together = shared
        along, apart = -(-lines // rows), -(-groups // together)
        late = waiting(images * along * apart, rows * together * work)
        return round(late * along * rows * apart * together / (lines * groups), 3), apart, -rows

    parts = {-(-groups // (1 << i)) for i in range(groups.bit_length())}
    found = []
    for together in parts:
        most = max(min(lines, _WORKGROUP // (work * together)), 1)
        found += [(rows, together) for rows in range(1, most + 1, -(-most // _MOST_TRIED))]
    return min(found, key=time)
