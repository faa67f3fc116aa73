# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Graphs as diagrams: nodes with what they compute, buffers with their dims and bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ...graph_api.building import GraphBuilder
from ...graph_api.draw import layout_name
from ...graph_api.dtypes import DataType
from ...graph_api.errors import Problem
from ...graph_api.frozen import FrozenGraph
from ...graph_api.layout import layout_of
from ...graph_api.ops.base import Op
from ...graph_api.validate import resolve
from ...graph_api.values import Scalar
from ..units import bytes_text
from .diagram import MOST_BOXES, Arrow, Box, Diagram

__all__ = ["Drawn", "Served", "draw_frozen", "draw_unfrozen"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Served:
    """Who computes the nodes of a graph, each by its place.

    Attributes
    ----------
    engines : mapping of int to str
    dispatches : mapping of int to tuple of int
        The numbers of the dispatches that compute a node, or a part of it.
    """

    engines: Mapping[int, str] = field(default_factory=dict)
    dispatches: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawn:
    """A graph as a diagram, and what is wrong with it.

    Attributes
    ----------
    diagram : Diagram or None
        None of a graph with too many nodes.
    nodes : int
    problems : tuple of Problem
        The rules that it breaks.
    """

    diagram: Diagram | None
    nodes: int
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Value:
    """A tensor, as far as it is known."""

    name: str
    data_type: DataType
    dims: tuple[int, ...] | None
    strides: tuple[int, ...] | None
    dynamic: tuple[str, ...]
    value: Scalar | None
    buffer: bool
    remarks: str = ""

    @property
    def text(self) -> str:
        """Its type and dims, those that vary by their names: ``half 16×64×n``."""
        kind = "" if self.data_type is DataType.UNSET else self.data_type.json
        if self.value is not None:
            return f"{kind} {self.value!r}"
        if self.dims is None:
            return f"{kind} ?".strip()
        names = self.dynamic or ("",) * len(self.dims)
        extents = (
            name if name not in ("", "*") else f"{extent}{name}"
            for name, extent in zip(names, self.dims, strict=True)
        )
        return f"{kind} {'×'.join(extents)}".strip()

    @property
    def nbytes(self) -> str:
        """The bytes that it takes in memory, gaps among them; empty where that is not known."""
        known = self.dims is not None and self.strides is not None
        if not known or any(self.dynamic) or self.data_type is DataType.UNSET:
            return ""
        assert self.dims is not None
        assert self.strides is not None
        try:
            return bytes_text(self.data_type.nbytes(layout_of(self.dims, self.strides).span))
        except ValueError:  # dims and strides that do not fit, which is among the problems
            return ""

    @property
    def size(self) -> str:
        """Type, dims and bytes in one line."""
        return " · ".join(filter(None, (self.text, self.nbytes)))

    @property
    def lines(self) -> tuple[str, ...]:
        """What stands in a box."""
        return (self.text, self.nbytes) if self.nbytes else (self.text,)

    @property
    def about(self) -> str:
        """All in lines."""
        found = [self.name, self.size]
        if self.dims is not None and self.strides is not None and len(self.dims) > 1:
            found.append(layout_name(self.dims, self.strides))
        return "\n".join(filter(None, [*found, self.remarks]))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Node:
    label: str
    op: Op
    compute: DataType
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
    at: str = ""


def draw_frozen(graph: FrozenGraph, served: Served | None = None) -> Drawn:
    """Return the diagram of a frozen graph."""
    written = {uid for node in graph.nodes for uid in node.outputs.values()}
    values = {
        uid: _Value(
            name=spec.name or f"uid {uid}",
            data_type=spec.data_type,
            dims=spec.dims,
            strides=spec.strides,
            dynamic=spec.dynamic,
            value=spec.value,
            buffer=spec.value is None and not (spec.virtual and uid in written),
            remarks=_remarks(uid, spec.runtime_scalar, spec.constant),
        )
        for uid, spec in graph.tensors.items()
    }
    nodes = [
        _Node(
            label=node.label,
            op=node.op,
            compute=node.compute_data_type,
            inputs=node.inputs,
            outputs=node.outputs,
            at=node.at,
        )
        for node in graph.nodes
    ]
    return _drawn(graph.name, nodes, values, served or Served(), ())


def draw_unfrozen(graph: GraphBuilder) -> Drawn:
    """Return the diagram of a graph as it is now, finished or not, right or wrong."""
    if len(graph.nodes) > MOST_BOXES:
        return Drawn(diagram=None, nodes=len(graph.nodes))
    found = resolve(graph)
    values = {}
    for tensor in graph.tensors:
        view = found.views.get(id(tensor))
        produced = graph.is_produced(tensor)
        uid = tensor.given_uid
        values[id(tensor)] = _Value(
            name=tensor.name or (f"uid {uid}" if uid is not None else ""),
            data_type=view.data_type if view else tensor.given_type,
            dims=view.dims if view else tensor.given_dims,
            strides=view.strides if view else tensor.given_strides,
            dynamic=tensor.dynamic if tensor.given_dims else (),
            value=tensor.value,
            buffer=tensor.value is None and not (tensor.virtual and produced),
            remarks=_remarks(uid, tensor.runtime_scalar, False),
        )
    nodes = [
        _Node(
            label=found.labels.get(id(node)) or node.name or f"{node.op.NAME}_{i}",
            op=found.ops.get(id(node), node.op),
            compute=found.compute.get(id(node), node.compute_data_type),
            inputs={port: id(tensor) for port, tensor in node.inputs.items()},
            outputs={port: id(tensor) for port, tensor in node.outputs.items()},
            at=node.at,
        )
        for i, node in enumerate(graph.nodes)
    ]
    for node in graph.nodes:  # tensors of other graphs, which is a problem
        for tensor in (*node.inputs.values(), *node.outputs.values()):
            values.setdefault(id(tensor), _foreign(tensor.name))
    return _drawn(graph.name, nodes, values, Served(), tuple(found.problems))


def _foreign(name: str) -> _Value:
    return _Value(
        name=name or "(of another graph)",
        data_type=DataType.UNSET,
        dims=None,
        strides=None,
        dynamic=(),
        value=None,
        buffer=True,
    )


def _remarks(uid: int | None, runtime_scalar: bool, constant: bool) -> str:
    found = [] if uid is None else [f"uid {uid}"]
    found += ["given at each execution"] if runtime_scalar else []
    found += ["constant"] if constant else []
    return ", ".join(found)


def _drawn(
    name: str,
    nodes: Sequence[_Node],
    values: Mapping[int, _Value],
    served: Served,
    problems: tuple[Problem, ...],
) -> Drawn:
    if len(nodes) > MOST_BOXES:
        return Drawn(diagram=None, nodes=len(nodes), problems=problems)
    keys = list(dict.fromkeys(served.engines.values()))
    main = _main_dispatches(nodes, served)
    numbers = {number: tint for tint, number in enumerate(dict.fromkeys(main.values()))}
    tints = {node: numbers[number] for node, number in main.items()}
    wrong = {problem.node for problem in problems}
    boxes = [
        _node_box(i, node, values, served, keys, tints, bad=node.label in wrong)
        for i, node in enumerate(nodes)
    ]
    arrows: list[Arrow] = []
    makers = {key: i for i, node in enumerate(nodes) for key in node.outputs.values()}
    buffers: dict[int, int] = {}

    def buffer(key: int) -> int:
        if key not in buffers:
            buffers[key] = len(boxes)
            value = values[key]
            boxes.append(
                Box(title=value.name or "?", lines=value.lines, about=value.about, round=True)
            )
        return buffers[key]

    for i, node in enumerate(nodes):
        several = len(_connected(node, values)) > 1
        for port, key in _connected(node, values):
            start = makers[key] if key in makers else buffer(key)
            about = f"{port}: {values[key].about}"
            arrows.append(Arrow(start=start, end=i, port=port if several else "", about=about))
        for port, key in node.outputs.items():
            if values[key].buffer:
                about = f"{port}: {values[key].about}"
                arrows.append(Arrow(start=i, end=buffer(key), about=about))
    diagram = Diagram(title=f"graph {name or '(no name)'}", boxes=boxes, arrows=arrows, keys=keys)
    return Drawn(diagram=diagram, nodes=len(nodes), problems=problems)


def _main_dispatches(nodes: Sequence[_Node], served: Served) -> dict[int, int]:
    """Return of each node the dispatch that its result leaves, or stays in.

    That is the first one that it shares with a node that takes the result, else the last one:
    those before prepare its operands, and later ones may only read what it has read.
    """
    takers: dict[int, set[int]] = {}
    for i, node in enumerate(nodes):
        for key in node.inputs.values():
            takers.setdefault(key, set()).update(served.dispatches.get(i, ()))
    found = {}
    for i, mine in served.dispatches.items():
        after = {n for key in nodes[i].outputs.values() for n in takers.get(key, ())}
        found[i] = next((number for number in mine if number in after), mine[-1])
    return found


def _connected(node: _Node, values: Mapping[int, _Value]) -> list[tuple[str, int]]:
    """Return the inputs that are drawn: scalars stand in the node's box."""
    return [(port, key) for port, key in node.inputs.items() if values[key].value is None]


def _node_box(
    i: int,
    node: _Node,
    values: Mapping[int, _Value],
    served: Served,
    keys: Sequence[str],
    tints: Mapping[int, int],
    *,
    bad: bool,
) -> Box:
    engine, dispatches = served.engines.get(i), served.dispatches.get(i, ())
    lines = [node.op.title()] if node.op.title() != node.label else []
    lines += [
        f"{p} = {values[k].text}" for p, k in node.inputs.items() if values[k].value is not None
    ]
    lines += [values[key].size for key in node.outputs.values()][:3]
    return Box(
        title=node.label,
        lines=tuple(lines),
        about="\n".join(_about(node, values, engine, dispatches)),
        colour=None if engine is None else keys.index(engine),
        tint=tints.get(i),
        badge=_badge(dispatches),
        bad=bad,
    )


def _badge(dispatches: Sequence[int]) -> str:
    if len(dispatches) < 3:
        return " ".join(f"#{number}" for number in dispatches)
    return f"#{dispatches[0]} … #{dispatches[-1]}"


def _about(
    node: _Node, values: Mapping[int, _Value], engine: str | None, dispatches: Sequence[int]
) -> Iterator[str]:
    yield node.label
    yield node.op.title()
    if node.compute is not DataType.UNSET:
        yield f"computes in {node.compute.json}"
    for port, key in (*node.inputs.items(), *node.outputs.items()):
        yield " ".join(filter(None, (f"{port}:", values[key].name, values[key].size)))
    if engine is not None:
        yield f"engine: {engine}"
    if dispatches:
        yield f"dispatches: {', '.join(f'#{number}' for number in dispatches)}"
    if node.at:
        yield f"added at {node.at}"
