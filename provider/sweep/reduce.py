# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A small graph that fails as a large one does: fewer nodes, smaller dims, plain parameters.

Every step is a graph file with a part changed, read and checked again: what breaks a rule is no
candidate.  The failure decides on the others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, fields, replace
from typing import Any

from ...graph_api.dtypes import DataType
from ...graph_api.errors import HipdnnIreeError
from ...graph_api.formats.json.json_form import dumps
from ...graph_api.frozen import FrozenGraph, FrozenNode
from ...graph_api.graph import Graph

__all__ = ["reduced", "smaller_graphs"]

_SMALL = (1, 2, 3)  # extents that are tried before the half


def reduced(
    graph: FrozenGraph,
    fails: Callable[[FrozenGraph], bool],
    *,
    told: Callable[[FrozenGraph], None] = lambda graph: None,
) -> FrozenGraph:
    """Return a graph that fails as well and of which no smaller one of `smaller_graphs` does.

    Parameters
    ----------
    graph : FrozenGraph
        One that fails.
    fails : callable
        Whether a graph fails in the same way; never asked twice about one graph.
    told : callable
        Called with each smaller graph that fails.
    """
    asked = {graph.digest}
    kinds = list(_KINDS)
    while kinds:  # until no kind of step has one that fails
        kind = kinds.pop(0)
        found = next(_failing(kind(graph), fails, asked), None)
        if found is not None:
            graph = found
            told(graph)
            kinds = [kind, *(other for other in _KINDS if other is not kind)]
    return graph


def smaller_graphs(graph: FrozenGraph) -> Iterator[FrozenGraph]:
    """Yield graphs with one part of a graph left out or made plainer, large parts first."""
    for kind in _KINDS:
        for make in kind(graph):
            try:
                yield make()
            except HipdnnIreeError:
                continue


_Step = Callable[[], FrozenGraph]


def _failing(
    steps: Iterator[_Step], fails: Callable[[FrozenGraph], bool], asked: set[str]
) -> Iterator[FrozenGraph]:
    for make in steps:
        try:
            graph = make()
            if graph.digest in asked:
                continue
            asked.add(graph.digest)
            if fails(graph):
                yield graph
        except HipdnnIreeError:  # it breaks a rule
            continue


# ---------------------------------------------------------------------------- nodes


def _fewer_nodes(graph: FrozenGraph) -> Iterator[_Step]:
    """Yield the graph without a run of nodes: halves first, then smaller parts."""
    count = len(graph.nodes)
    size = count // 2
    while size:
        for end in range(count, 0, -size):
            dropped = range(max(0, end - size), end)
            if len(dropped) < count:
                yield lambda dropped=dropped: _without(graph, dropped)  # type: ignore[misc]
        size //= 2


def _without(graph: FrozenGraph, dropped: range) -> FrozenGraph:
    """Return a graph without some nodes.

    What they made becomes an input, and a result that nobody reads any more an output.
    """
    nodes = tuple(node for i, node in enumerate(graph.nodes) if i not in dropped)
    made = {uid for node in nodes for uid in node.outputs.values()}
    read = {uid for node in nodes for uid in node.inputs.values()}
    specs = {}
    for uid, spec in graph.tensors.items():
        if uid in made | read:
            # An input has a buffer, and so has a result that is the end of its chain.
            end = uid not in read or uid not in made
            specs[uid] = replace(spec, virtual=spec.virtual and not end)
    return _frozen(
        replace(
            graph,
            nodes=nodes,
            tensors=specs,
            inputs=tuple(u for u, s in specs.items() if u not in made and s.value is None),
            outputs=tuple(u for u, s in specs.items() if u in made and not s.virtual),
            unused=(),
        )
    )


# ---------------------------------------------------------------------------- dims


def _smaller_dims(graph: FrozenGraph) -> Iterator[_Step]:
    """Yield the graph with an extent made smaller, in all tensors or in one dim of an input."""
    extents = sorted({d for s in graph.tensors.values() for d in s.dims if d > 1}, reverse=True)
    inferred = _inferred(graph)
    for extent in extents:
        for size in _sizes(extent):
            for left_open in (inferred, frozenset[int]()):

                def everywhere(
                    extent: int = extent, size: int = size, left_open: frozenset[int] = left_open
                ) -> FrozenGraph:
                    return _resized(graph, {extent: size}, left_open)

                yield everywhere
    for uid in graph.inputs:
        for axis, extent in enumerate(graph.tensors[uid].dims):
            for size in _sizes(extent):

                def one(uid: int = uid, axis: int = axis, size: int = size) -> FrozenGraph:
                    return _resized(graph, {(uid, axis): size}, inferred)

                yield one


def _sizes(extent: int) -> list[int]:
    return sorted({size for size in (*_SMALL, extent // 2) if 0 < size < extent})


def _inferred(graph: FrozenGraph) -> frozenset[int]:
    """Return the tensors whose dims follow from others: not those of a reduction, say."""
    found = set()
    for node in graph.nodes:
        for uid in node.outputs.values():
            with suppress(HipdnnIreeError):
                _resized(graph, {}, frozenset({uid}))
                found.add(uid)
    return frozenset(found)


def _resized(graph: FrozenGraph, sizes: Mapping[Any, int], inferred: frozenset[int]) -> FrozenGraph:
    """Return a graph with other extents, by extent or by uid and axis; some dims are inferred."""

    def change(tensor: dict[str, Any]) -> None:
        uid, dims = tensor["uid"], tensor["dims"]
        if tensor.get("value") is not None:
            return
        if uid in inferred:
            tensor |= {"dims": [], "strides": []}
            return
        new = [sizes.get((uid, axis), sizes.get(d, d)) for axis, d in enumerate(dims)]
        dense = _dense(new, tensor["strides"]) if uid in graph.inputs else []
        tensor |= {"dims": new, "strides": dense}

    return _edited(graph, change)


def _dense(dims: list[int], strides: list[int]) -> list[int]:
    """Return strides without gaps in the order of others; broadcast dims stay broadcast."""
    found, step = [0] * len(dims), 1
    for axis in sorted(range(len(dims)), key=lambda axis: (strides[axis], -axis)):
        if strides[axis]:
            found[axis] = step
            step *= dims[axis]
    return found


# ---------------------------------------------------------------------------- the rest


def _plainer_parameters(graph: FrozenGraph) -> Iterator[_Step]:
    """Yield the graph with a parameter at its default, or with ones or zeros in it."""
    for index, node in enumerate(graph.nodes):
        for field in fields(node.op):
            value = getattr(node.op, field.name)
            tries = [] if field.default is MISSING else [field.default]
            if isinstance(value, tuple) and value and all(type(v) is int for v in value):
                tries += [(0,) * len(value), (1,) * len(value)]
            # Only to one that is plainer, or there would be no end.
            for other in tries[: tries.index(value) if value in tries else None]:

                def changed(
                    index: int = index, name: str = field.name, other: Any = other
                ) -> FrozenGraph:
                    return _with_parameter(graph, index, name, other)

                yield changed


def _with_parameter(graph: FrozenGraph, index: int, name: str, value: Any) -> FrozenGraph:
    nodes: list[FrozenNode] = list(graph.nodes)
    nodes[index] = replace(nodes[index], op=replace(nodes[index].op, **{name: value}))
    changed = replace(graph, nodes=tuple(nodes))
    return _resized(changed, {}, _inferred(graph))


def _plainer_layouts(graph: FrozenGraph) -> Iterator[_Step]:
    """Yield the graph with row-major tensors: all of them, or one input."""

    def rows(uids: tuple[int, ...]) -> FrozenGraph:
        def change(tensor: dict[str, Any]) -> None:
            if tensor["uid"] in uids:
                axes = range(len(tensor["dims"]))
                tensor["strides"] = _dense(tensor["dims"], [len(axes) - axis for axis in axes])
            elif tensor["uid"] not in graph.inputs:
                tensor["strides"] = []

        return _edited(graph, change)

    yield lambda: rows(graph.inputs)
    for uid in graph.inputs:
        yield lambda uid=uid: rows((uid,))  # type: ignore[misc]


def _plainer_types(graph: FrozenGraph) -> Iterator[_Step]:
    """Yield the graph with float instead of another floating type."""
    types = {spec.data_type for spec in graph.tensors.values()}
    for data_type in sorted(types, key=lambda one: one.json):
        if data_type.is_float and data_type is not DataType.FLOAT:

            def change(tensor: dict[str, Any], old: str = data_type.json) -> None:
                if tensor["data_type"] == old and tensor.get("value") is None:
                    tensor["data_type"] = DataType.FLOAT.json

            yield lambda change=change: _edited(graph, change)  # type: ignore[misc]


_KINDS = (_fewer_nodes, _smaller_dims, _plainer_parameters, _plainer_layouts, _plainer_types)


def _edited(graph: FrozenGraph, change: Callable[[dict[str, Any]], None]) -> FrozenGraph:
    """Return a graph with its tensors changed; raises `HipdnnIreeError` if it breaks a rule."""
    data = json.loads(dumps(graph))
    for tensor in data["tensors"]:
        change(tensor)
    return Graph.from_json(json.dumps(data)).freeze()


def _frozen(graph: FrozenGraph) -> FrozenGraph:
    return Graph.from_json(dumps(graph)).freeze()
