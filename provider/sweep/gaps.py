# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Graphs whose outputs are parts of larger buffers, and memory that shows what is touched."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np

from ...graph_api.frozen import FrozenGraph
from ...graph_api.layout import byte_runs, layout_of
from ...jit.runtime.arrays import occupied, unpack, view
from ...jit.signature import ArgSpec

__all__ = ["RedZones", "gapped_strides", "outside", "red_zones", "with_gaps"]

_ZONE = 256  # bytes before and behind


def gapped_strides(dims: tuple[int, ...], bits: int, random: Random) -> tuple[int, ...] | None:
    """Return random strides that leave gaps, at any depth; None where the dims have no such."""
    for _ in range(50):
        order = random.sample(range(len(dims)), len(dims))
        wide = [d + random.choice((0, 0, 1, 2, 5)) for d in dims]
        step, strides = random.choice((1, 1, 1, 2, 3)), [0] * len(dims)
        for axis in reversed(order):
            strides[axis] = step
            step = step * wide[axis] + random.choice((0, 0, 0, 1))
        layout = layout_of(dims, tuple(strides))
        if layout.padded and (bits >= 8 or byte_runs(layout, bits) is not None):
            return tuple(strides)
    return None


def with_gaps(graph: FrozenGraph, seed: int) -> FrozenGraph:
    """Return the graph with gaps in its outputs, wherever one can be."""
    random, tensors = Random(seed), dict(graph.tensors)
    for uid in graph.outputs:
        spec = tensors[uid]
        strides = gapped_strides(spec.dims, spec.data_type.bits, random)
        if strides is not None:
            tensors[uid] = replace(spec, strides=strides)
    return replace(graph, tensors=tensors)


def outside(spec: ArgSpec) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which of the ``spec.nbytes`` bytes belong to no element."""
    flags = np.ones(spec.nbytes, np.uint8)
    inside = occupied(flags.data, spec)
    inside[...] = np.zeros(inside.dtype.itemsize, np.uint8).view(inside.dtype)[0]
    return flags.astype(np.bool_)


class RedZones:
    """Memory of an output: noise before, behind and between its elements.

    Attributes
    ----------
    array : ndarray
        The output's memory, as a plan takes it.
    """

    def __init__(self, spec: ArgSpec, seed: int = 0, misaligned: int = 0) -> None:
        nbytes = _ZONE + misaligned + spec.nbytes + _ZONE
        raw = np.empty(nbytes + 64, np.uint8)
        start = -raw.ctypes.data % 64
        self.bytes = raw[start : start + nbytes]
        self.bytes[:] = np.random.default_rng(seed).integers(0, 256, nbytes, np.uint8)
        self._first = _ZONE + misaligned
        self._before = self.bytes.copy()
        self.spec = spec
        self.array = view(self.bytes[self._first :][: spec.nbytes].data, spec)

    @property
    def result(self) -> np.ndarray[Any, np.dtype[Any]]:
        """The elements, as a logical array."""
        return unpack(self.spec, self.array)

    def touched(self) -> Iterator[int]:
        """Yield the bytes outside the elements that have changed, counted from the first one."""
        changed = self.bytes != self._before
        inside = slice(self._first, self._first + self.spec.nbytes)
        changed[inside] &= outside(self.spec)
        yield from (int(at) - self._first for at in np.flatnonzero(changed))


def red_zones(graph: FrozenGraph, seed: int) -> dict[int, RedZones]:
    """Return memory for each output that has gaps, by uid."""
    args = [ArgSpec.of(graph.tensors[uid], output=True) for uid in graph.outputs]
    gapped = (graph.tensors[uid].layout.padded for uid in graph.outputs)
    return {
        uid: RedZones(spec, seed)
        for uid, spec, gap in zip(graph.outputs, args, gapped, strict=True)
        if gap
    }
