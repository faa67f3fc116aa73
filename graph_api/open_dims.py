# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which extents of a graph with fixed dims may vary, and which of them only together.

hipDNN's override shapes give other sizes to a graph that was built without saying which of its
dims they are for.  An op has no code for this question either: it is answered by specialising the
graph for other sizes and looking whether it is still valid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from .dynamic import mark_dynamic
from .dynamic_dim import LARGEST, DynamicDim
from .errors import GraphError
from .frozen import FrozenGraph
from .specialise import Shape, specialise

__all__ = ["MOST_WORK", "Group", "open_dims", "with_open_dims"]

Dim = tuple[int, int]
"""The uid of an input, and an axis."""
Group = tuple[Dim, ...]
"""Dims of one extent that only vary together."""

MOST_WORK = 4_000
"""Nodes that are inferred anew to find the dims of one graph, all specialisations together."""


def open_dims(graph: FrozenGraph) -> list[Group]:
    """Return the dims of inputs that may have other sizes; those of a group only together.

    Extents of 1 are left out, as they stand for broadcasting.  In a graph of many nodes, and where
    dims with the same extent depend on each other in more ways than one, some may be missing.
    """
    by_extent: dict[int, list[Dim]] = {}
    for uid in graph.inputs:
        spec = graph.tensors[uid]
        fixed = spec.runtime_scalar or spec.value is not None or spec.ragged_offset_uid is not None
        if not fixed and spec.layout.dense:
            for axis, extent in enumerate(spec.dims):
                if extent > 1:
                    by_extent.setdefault(extent, []).append((uid, axis))
    left = MOST_WORK

    def valid(group: Sequence[Dim]) -> bool:
        nonlocal left
        left -= len(graph.nodes)
        return left >= 0 and _valid(graph, group)

    return [group for dims in by_extent.values() for group in _groups(graph, dims, valid)]


def _groups(
    graph: FrozenGraph, dims: list[Dim], valid: Callable[[Sequence[Dim]], bool]
) -> Iterator[Group]:
    """Yield the groups among dims of one extent."""
    alone = [dim for dim in dims if valid([dim])]
    yield from ((dim,) for dim in alone)
    left = [dim for dim in dims if dim not in alone]
    while left:
        first = left.pop(0)
        found = next((some for some in _guesses(graph, first, left) if valid([first, *some])), None)
        if found is None:
            continue
        for dim in found if len(found) > 1 else ():
            fewer = [other for other in found if other != dim]
            if valid([first, *fewer]):
                found = fewer
        yield (first, *found)
        left = [dim for dim in left if dim not in found]


def _guesses(graph: FrozenGraph, first: Dim, others: list[Dim]) -> Iterator[list[Dim]]:
    """Yield what may have to vary with a dim, the smallest sets first."""
    yield from ([dim] for dim in others)

    def behind(dim: Dim) -> int:
        return len(graph.tensors[dim[0]].dims) - dim[1]

    if len(others) > 1:
        yield [dim for dim in others if dim[1] == first[1]]
        yield [dim for dim in others if behind(dim) == behind(first)]
        yield others


def _valid(graph: FrozenGraph, group: Sequence[Dim]) -> bool:
    shapes: dict[int, Shape] = {}
    for uid, axis in group:
        dims = list(shapes[uid][0] if uid in shapes else graph.tensors[uid].dims)
        dims[axis] += -1 if dims[axis] > 2 else 1  # not 1, which every rule of broadcasting takes
        shapes[uid] = tuple(dims), None
    try:
        specialise(graph, shapes)
    except GraphError:
        return False
    return True


def with_open_dims(
    graph: FrozenGraph, groups: Sequence[Group], serves: Callable[[FrozenGraph], bool]
) -> FrozenGraph | None:
    """Return the graph with as many dynamic dims as an engine serves; None if it serves none.

    Parameters
    ----------
    graph : FrozenGraph
    groups : sequence of Group
        From `open_dims`.
    serves : callable
        Whether a graph with dynamic dims is served.
    """
    kept: list[tuple[Group, DynamicDim]] = []
    for number, group in enumerate(groups):
        extent = graph.tensors[group[0][0]].dims[group[0][1]]
        for high in (LARGEST, max(extent, 2)):
            dim = DynamicDim(f"d{number}", 1, high, extent)
            marked = _marked(graph, [(group, dim)])
            if marked is not None:
                if serves(marked):
                    kept.append((group, dim))
                break
    while kept:
        marked = _marked(graph, kept)
        if marked is not None and serves(marked):
            return marked
        kept.pop()
    return None


def _marked(graph: FrozenGraph, dims: Sequence[tuple[Group, DynamicDim]]) -> FrozenGraph | None:
    """Return the graph with dynamic dims, or None if it is not valid at all of their sizes."""
    names: dict[int, list[str]] = {}
    for group, dim in dims:
        for uid, axis in group:
            names.setdefault(uid, [""] * len(graph.tensors[uid].dims))[axis] = dim.name
    try:
        return mark_dynamic(
            graph, {dim.name: dim for _, dim in dims}, {uid: tuple(n) for uid, n in names.items()}
        )
    except GraphError:
        return None
