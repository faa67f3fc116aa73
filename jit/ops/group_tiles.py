# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tiles of convolutions of several groups that read a channels-last image as it lies."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import prod
from typing import NamedTuple

from ..cpu_machine import cpu_machine
from ..target import Target
from .workgroups import shared

__all__ = ["MOST_OFFSETS", "GroupTiles", "group_tiles", "spatial_loops"]

MOST_OFFSETS = 28
"""Numbers that a kernel takes as arguments, at most: IREE's limit is 64 of 32 bits."""

Ints = tuple[int, ...]

# Columns of a tile, at most.
_MOST_COLUMNS = 12
# What a tile takes beside its loads: loops, addresses, and a vector of another width.
_TILE = 30


class GroupTiles(NamedTuple):
    """The tiles of a convolution of several groups.

    Attributes
    ----------
    filters, columns : int
        Of which sums are in registers; columns are those along the last spatial dim that is not 1.
    rows, groups : int
        Of a workgroup; along an image's only spatial dim rows are tiles of columns.
    levels : mapping
        The tiles of the loops of `grouped_convolution`, for each level of the compiler.
    loads : int
        Estimated time of all, in that of a load.
    """

    filters: int
    columns: int
    rows: int
    groups: int
    levels: Mapping[str, Mapping[str, int]]
    loads: int


def spatial_loops(rank: int) -> str:
    """Return the letters of the loops over an image's spatial dims, up to three."""
    return "dhw"[-rank:]


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
    spatial = {d: n for d, n in zip(spatial_loops(len(extents)), extents, strict=True) if n > 1}
    *above, along = spatial.values() or [1]
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
    work = met * filters * (along if above else columns)
    rows, together = shared(lines, samples * prod(above[:-1]), work, groups)
    vector, wide = dict.fromkeys(["n", *spatial, "g"], 1), min(filters, machine.lanes)
    workgroup = {**vector, "g": together, "f": filters}
    if spatial:
        *outer, last = spatial
        vector[last] = columns
        workgroup |= {last: along, outer[-1]: rows} if outer else {last: rows * columns}
    return GroupTiles(
        filters=wide,
        columns=columns,
        rows=rows,
        groups=together,
        levels={
            "distribution": workgroup,
            "vector_common_parallel": {**vector, "f": wide},
            "vector_reduction": {"c": 1},
        },
        loads=samples * groups * prod(above) * loads(columns),
    )


def _vectors(filters: int, lanes: int) -> int:
    """Return the vectors of so many filters; one of another width is stored in parts."""
    whole, rest = divmod(filters, lanes)
    return whole + (0 if not rest else 1 if rest & (rest - 1) == 0 else 2)
