# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The same graph for other dims and strides of its inputs and outputs.

Everything that depends on them (virtual tensors, inferred results, shorthand parameters) is
inferred anew from the ops as they were given, so that every rule is checked for the new dims as
for a graph that was built with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import index

from . import arguments
from .building import GraphBuilder, Node
from .errors import GraphError, Problem
from .frozen import FrozenGraph, FrozenNode, freeze
from .layout import strides_like
from .ops.base import Ports, PortView
from .tensor import Tensor, TensorSpec
from .validate import Resolution, resolve

__all__ = [
    "RULES",
    "Shape",
    "ShapeLike",
    "as_shapes",
    "in_words",
    "packed_outputs",
    "specialise",
    "unnamed",
]

Ints = tuple[int, ...]
Shape = tuple[Ints, Ints | None]
"""Dims, and strides in elements or None for the memory order that the tensor has."""
ShapeLike = Sequence[int] | tuple[Sequence[int], Sequence[int] | None]
"""Dims, or dims with strides."""

RULES: dict[str, str] = {
    "SHAPE-01": "other dims are given for an input or output that has a buffer",
    "SHAPE-02": "other dims and strides have the tensor's rank",
    "SHAPE-03": "other dims of a tensor with gaps come with strides",
    "SHAPE-04": "a shape is dims, or dims with strides, as integers",
    "SHAPE-05": "dims of results that do not follow from the operands are given with them",
    "SHAPE-06": "a buffer of unknown size has the tensor's own shape, or one that the caller named",
}


def as_shapes(graph: FrozenGraph, shapes: Mapping[int, ShapeLike]) -> dict[int, Shape]:
    """Return the shapes by uid in one form; none when they are those of the graph.

    Raises
    ------
    GraphError
        For each that is not dims, or dims with strides (SHAPE-04).
    """
    found: dict[int, Shape] = {}
    problems = []
    same = True
    for uid in sorted(shapes):
        spec = graph.tensors.get(uid)
        try:
            dims, strides = _as_shape(shapes[uid])
        except TypeError:
            port, got = spec.label if spec else f"uid {uid}", arguments.shown(shapes[uid])
            wanted = "dims, or (dims, strides), as integers"
            problems.append(Problem(rule="SHAPE-04", port=port, got=got, wanted=wanted))
            continue
        found[uid] = (dims, strides)
        same &= spec is not None and dims == spec.dims and strides in (None, spec.strides)
    if problems:
        raise GraphError("some shapes cannot be read", problems)
    return {} if same else found


def _as_shape(given: ShapeLike) -> Shape:
    items = tuple(given)
    if len(items) == 2 and not hasattr(items[0], "__index__"):
        dims, strides = items
        return _ints(dims), None if strides is None else _ints(strides)
    return _ints(items), None


def _ints(values: object) -> Ints:
    if not isinstance(values, Sequence) or isinstance(values, str | bytes):
        raise TypeError
    return tuple(index(value) for value in values)


def specialise(graph: FrozenGraph, shapes: Mapping[int, Shape]) -> FrozenGraph:
    """Return the graph with other dims and strides of some tensors.

    Parameters
    ----------
    graph : FrozenGraph
        The graph as it was built.
    shapes : mapping of uid to Shape
        Inputs keep the dims that are not named here.  Outputs take those that follow from the
        inputs, in the memory order that they had; those named here are checked.

    Raises
    ------
    GraphError
        If the shapes fit no tensor, or the graph breaks a rule with them; with all problems.
    """
    problems = list(_misfits(graph, shapes))
    if problems:
        raise _refusal(graph, problems)
    other = GraphBuilder(
        graph.name,
        io_data_type=graph.io_data_type,
        intermediate_data_type=graph.intermediate_data_type,
        compute_data_type=graph.compute_data_type,
    )
    other.preferred_engine_id = graph.preferred_engine_id
    other.is_override_shape_enabled = graph.is_override_shape_enabled
    written = {uid for node in graph.nodes for uid in node.outputs.values()}
    tensors = {
        uid: _tensor(other, spec, shapes.get(uid), written=uid in written)
        for uid, spec in graph.tensors.items()
    }
    nodes = [_node(node, tensors) for node in graph.nodes]
    other.nodes += nodes
    other._makers.update((id(t), node) for node in nodes for t in node.outputs.values())
    frozen = {id(node): old for node, old in zip(nodes, graph.nodes, strict=True)}

    def prepare(node: Node, found: Resolution) -> None:
        """Give the node the dims that it cannot infer from its operands."""
        old = frozen[id(node)]
        views = {port: found.views.get(id(t)) for port, t in node.inputs.items()}
        after = {p: v.dims for p, v in views.items() if v is not None and v.dims is not None}
        if len(after) < len(views):
            return  # a problem upstream, which is reported there
        before = {
            port: graph.tensors[uid].dims
            for port, uid in (*old.inputs.items(), *old.outputs.items())
        }
        dims: Mapping[str, Ints]
        if all(before[port] == extents for port, extents in after.items()):
            dims = {port: before[port] for port in node.outputs}
        else:
            node.op, dims = node.op.at(before, after)
            if not dims:
                unknown.extend(_not_inferred(graph, old, node))
        for port, extents in dims.items():
            if node.outputs[port].given_dims is None:
                node.outputs[port].dims = tuple(extents)

    unknown: list[Problem] = []
    found = resolve(other, prepare)
    problems = [*(unknown or found.problems)]
    for uid in () if problems else graph.outputs:
        dims = found.views[id(tensors[uid])].dims
        if dims is not None and tensors[uid].given_strides is None:
            problems += _gaps_elsewhere(graph.tensors[uid], dims)
    if problems:
        raise _refusal(graph, problems)
    as_found = True
    for uid, tensor in tensors.items():
        view, spec = found.views.get(id(tensor)), graph.tensors[uid]
        if view is None or view.dims is None:
            continue  # ragged offsets, which no node takes
        tensor.dims = view.dims
        if tensor.given_strides is None and not spec.virtual:
            tensor.strides = _strides(spec, view.dims)
            as_found &= tensor.given_strides == view.strides
    return freeze(other, found if as_found else None)


def packed_outputs(graph: FrozenGraph) -> FrozenGraph:
    """Return the graph without gaps in its outputs."""
    specs = ((uid, graph.tensors[uid]) for uid in graph.outputs)
    dense = {
        uid: replace(spec, strides=strides_like(spec.dims, spec.dims, spec.strides))
        for uid, spec in specs
        if spec.layout.padded
    }
    return replace(graph, tensors={**graph.tensors, **dense}) if dense else graph


def unnamed(
    graph: FrozenGraph, other: FrozenGraph, shapes: Mapping[int, Shape]
) -> dict[int, Problem]:
    """Return the inputs and outputs that `specialise` gave another shape, but ``shapes`` did not.

    A caller that passes only addresses has memory of the old shape for them (SHAPE-06).
    """
    found = {}
    pairs = {u: (graph.tensors[u], other.tensors[u]) for u in (*graph.inputs, *graph.outputs)}
    changed = {u: p for u, p in pairs.items() if len({(s.dims, s.strides) for s in p}) > 1}
    given = "; ".join(
        f"{new.label} {in_words(new)}" for u, (_, new) in changed.items() if u in shapes
    )
    for uid, (old, new) in changed.items():
        if uid not in shapes:
            found[uid] = Problem(
                rule="SHAPE-06",
                port=old.label,
                got=f"no shape, but given {given} it has {in_words(new)}",
                wanted=f"{in_words(old)}, or a shape of its own",
                hint="name every tensor whose shape changes",
            )
    return found


def in_words(spec: TensorSpec, *, open: bool = False) -> str:
    """Return the shape of a tensor for people; ``open`` with the names of dynamic dims."""
    names = spec.dynamic if open and spec.dynamic else ("",) * len(spec.dims)
    dims = ", ".join(name or str(extent) for extent, name in zip(spec.dims, names, strict=True))
    return f"dims [{dims}] with strides {list(spec.strides)}"


def _misfits(graph: FrozenGraph, shapes: Mapping[int, Shape]) -> Iterator[Problem]:
    bound = dict.fromkeys((*graph.inputs, *graph.outputs))
    for uid, (dims, strides) in shapes.items():
        if uid not in bound:
            wanted = f"one of {', '.join(map(str, bound))}"
            yield Problem(rule="SHAPE-01", port=f"uid {uid}", got="dims", wanted=wanted)
            continue
        spec = graph.tensors[uid]
        rank = len(spec.dims)
        for what, given in (("dims", dims), ("strides", strides)):
            if given is not None and len(given) != rank:
                got, wanted = f"{what} {list(given)}", f"{rank} of them, as {list(spec.dims)}"
                yield Problem(rule="SHAPE-02", port=spec.label, got=got, wanted=wanted)
        if strides is None:
            yield from _gaps_elsewhere(spec, dims)


def _gaps_elsewhere(spec: TensorSpec, dims: Ints) -> Iterator[Problem]:
    if spec.layout.padded and dims != spec.dims:
        got = f"dims {list(dims)} without strides"
        wanted = f"strides, as the tensor's {list(spec.strides)} leave gaps"
        yield Problem(rule="SHAPE-03", port=spec.label, got=got, wanted=wanted)


def _refusal(graph: FrozenGraph, problems: Sequence[Problem]) -> GraphError:
    count = len(problems)
    return GraphError(f"graph {graph.name!r} breaks {count} rule(s) with these dims", problems)


def _tensor(graph: GraphBuilder, spec: TensorSpec, shape: Shape | None, *, written: bool) -> Tensor:
    dims, strides = shape or (None, None)
    if not written:
        dims = dims or spec.dims
        strides = strides or (spec.strides if dims == spec.dims else _strides(spec, dims))
    tensor = graph.tensor(
        dims=dims,
        strides=strides,
        data_type=spec.data_type,
        name=spec.name,
        uid=spec.uid,
        virtual=spec.virtual,
    )
    tensor.value, tensor.alignment = spec.value, spec.alignment
    tensor.runtime_scalar = spec.runtime_scalar
    tensor.ragged_offset_uid = spec.ragged_offset_uid
    return tensor


def _not_inferred(graph: FrozenGraph, old: FrozenNode, node: Node) -> Iterator[Problem]:
    """Yield the results whose dims do not follow from the operands, and are not given.

    Those are the ones for which inference does not give the dims that they have.
    """
    views = {port: _view(graph.tensors[uid]) for port, uid in old.inputs.items()}
    open_views = {p: replace(_view(graph.tensors[u]), dims=None) for p, u in old.outputs.items()}
    ports = Ports(old.label, {**views, **open_views}, old.compute_data_type)
    op = old.source.resolve(ports)
    inferred = {} if any(op.check(ports)) else op.infer(ports)
    for port, uid in old.outputs.items():
        spec = graph.tensors[uid]
        follows = port in inferred and inferred[port].dims == spec.dims
        if not follows and node.outputs[port].given_dims is None:
            wanted = "its dims: they do not follow from the operands"
            yield Problem(
                rule="SHAPE-05", node=old.label, port=port, got="other operands", wanted=wanted
            )


def _view(spec: TensorSpec) -> PortView:
    return PortView(
        data_type=spec.data_type,
        dims=spec.dims,
        strides=spec.strides,
        value=spec.value,
        virtual=spec.virtual,
    )


def _strides(spec: TensorSpec, dims: Ints) -> Ints:
    """Return packed strides in the tensor's memory order; broadcast dims stay so."""
    if dims == spec.dims:
        return spec.strides
    repeated = spec.layout.broadcast
    if not repeated:
        return strides_like(dims, spec.dims, spec.strides)
    kept = [1 if axis in repeated else extent for axis, extent in enumerate(dims)]
    like = [1 if axis in repeated else extent for axis, extent in enumerate(spec.dims)]
    packed = strides_like(kept, like, spec.strides)
    return tuple(0 if axis in repeated else s for axis, s in enumerate(packed))


def _node(node: FrozenNode, tensors: Mapping[int, Tensor]) -> Node:
    return Node(
        node.source,
        {port: tensors[uid] for port, uid in node.inputs.items()},
        {port: tensors[uid] for port, uid in node.outputs.items()},
        node.compute_data_type,
        node.name,
        node.at,
    )
