# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Dims and strides that a call gives in place of those of the graph (hipDNN's overrides)."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, NamedTuple

from ..provider.plugin_abi import Status
from .abi import MOST_ITEMS, PluginError

if TYPE_CHECKING:
    from ..graph_api.specialise import ShapeLike

__all__ = ["Shapes", "read_shapes"]

_MAX_RANK = 64
Ints = tuple[int, ...]


class Shapes(NamedTuple):
    """Dims and strides of some tensors, in the order of the call."""

    uids: Ints
    dims: tuple[Ints, ...]
    strides: tuple[Ints, ...]

    def by_uid(self) -> dict[int, ShapeLike]:
        """Return dims and strides by uid."""
        return dict(zip(self.uids, zip(self.dims, self.strides, strict=True), strict=True))


def read_shapes(
    count: int, uids: int | None, lengths: int | None, dims: int | None, strides: int | None
) -> Shapes:
    """Read the override arrays of a call; they are valid only while it runs.

    Raises
    ------
    PluginError
        If a pointer is null, a count or a rank is too large, or a tensor is named twice.
    """
    if count > MOST_ITEMS:
        raise PluginError(Status.BAD_PARAM, f"{count} overrides; allowed: up to {MOST_ITEMS}")
    if not (uids and lengths and dims and strides):
        raise PluginError(Status.BAD_PARAM, f"null pointer for {count} overrides")
    ranks = (ctypes.c_uint32 * count).from_address(lengths)[:]
    if any(rank > _MAX_RANK for rank in ranks):
        raise PluginError(Status.BAD_PARAM, f"overrides of rank {max(ranks)}")
    found = []
    for rows in (dims, strides):
        pointers = (ctypes.c_void_p * count).from_address(rows)[:]
        if any(rank and not pointer for rank, pointer in zip(ranks, pointers, strict=True)):
            raise PluginError(Status.BAD_PARAM, "null pointer for the shape of an override")
        found.append(
            tuple(
                tuple((ctypes.c_int64 * rank).from_address(pointer or 0)[:]) if rank else ()
                for rank, pointer in zip(ranks, pointers, strict=True)
            )
        )
    named = tuple((ctypes.c_int64 * count).from_address(uids)[:])
    if len(set(named)) < count:
        twice = next(uid for uid in named if named.count(uid) > 1)
        raise PluginError(Status.BAD_PARAM, f"uid {twice} has two overrides")
    return Shapes(named, found[0], found[1])
