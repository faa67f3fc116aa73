# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rules of tensors and of the graph as a whole; inference through all nodes, in order.

``resolve`` never raises for a bad graph: it collects every problem, and goes on with what is
still known, so that one mistake does not hide the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING

from .dtypes import DataType
from .errors import Problem
from .layout import contiguous_strides, strides_like
from .ops.base import Inferred, Op, Port, Ports, PortView
from .order import topological
from .size_limits import too_large
from .tensor import Tensor
from .tensor_rules import EXTENTS, MAX_RANK, check_tensor, default_type, fits, label_of, misplaced

if TYPE_CHECKING:
    from .building import GraphBuilder, Node

__all__ = [
    "RULES",
    "Resolution",
    "compute_type",
    "foreign",
    "located",
    "output_views",
    "resolve",
    "resolve_node",
    "source_view",
]

_SHOWN = 8  # nodes of a cycle

COMPUTE_TYPES = (
    DataType.FLOAT,
    DataType.DOUBLE,
    DataType.HALF,
    DataType.BFLOAT16,
    DataType.INT32,
    DataType.INT64,
)

RULES: dict[str, str] = {
    "GRAPH-01": "a graph has at least one node",
    "GRAPH-02": "a graph has at least one output (a written tensor that is not virtual)",
    "GRAPH-03": "no node depends on its own result",
    "GRAPH-04": "every tensor of a node belongs to the node's graph",
    "GRAPH-05": "no tensor is written twice",
    "GRAPH-07": "a frozen graph does not change",
    "GRAPH-08": "a graph has at most 10000 nodes and 40000 tensors",
    "NODE-01": "every port that is not optional is connected, and only ports of the op",
    "NODE-02": "the dims given for a result are those that follow from the op",
    "NODE-03": "the compute type is FLOAT, DOUBLE, HALF, BFLOAT16, INT32 or INT64 "
    "(or BOOLEAN, where nothing is computed)",
    "PARAM-01": "integer parameters are integers of 64 bits",
    "PARAM-02": "a data type is one that hipDNN knows",
    "PARAM-03": "an operand is a tensor or a number",
    "PARAM-04": "a mode or another choice by name is one of those known",
    "PARAM-05": "numbers, flags and names are numbers, bools and Unicode text",
}


@dataclass(slots=True)
class Resolution:
    """The result of resolving a graph.

    ``nodes`` have producers first, and otherwise the order of adding; ``views`` holds what is
    known of each tensor; ``ops`` and ``compute`` hold each node's resolved op and compute type.
    """

    problems: list[Problem] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    views: dict[int, PortView] = field(default_factory=dict)
    ops: dict[int, Op] = field(default_factory=dict)
    compute: dict[int, DataType] = field(default_factory=dict)
    labels: dict[int, str] = field(default_factory=dict)


def resolve(
    graph: GraphBuilder, prepare: Callable[[Node, Resolution], None] | None = None
) -> Resolution:
    """Check every rule and infer what is missing; the problems are in node order.

    ``prepare`` is called for each node, when what it reads is resolved and it itself is not.
    """
    result = Resolution(problems=too_large(len(graph.nodes), len(graph.tensors)))
    if result.problems:
        return result
    result.labels = {
        id(node): node.name or f"{node.op.NAME}_{i}" for i, node in enumerate(graph.nodes)
    }
    result.problems += _check_graph(graph, result.labels)
    result.nodes, cycle = topological(graph.nodes)
    if cycle:
        names = [result.labels[id(node)] for node in cycle]
        result.problems.append(
            Problem(
                rule="GRAPH-03",
                node=names[0],
                at=cycle[0].at,
                got=f"a cycle among {', '.join(names[:_SHOWN])}"
                + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""),
                wanted="no node that depends on its own result",
            )
        )
    uids = {tensor.given_uid for tensor in graph.tensors}
    of_tensors: list[tuple[Tensor, Problem]] = []
    for tensor in graph.tensors:
        of_tensors += ((tensor, problem) for problem in check_tensor(graph, tensor, uids))
        if not graph.is_produced(tensor):
            result.views[id(tensor)] = source_view(graph, tensor)
    if of_tensors:
        result.problems += _located(graph, of_tensors, result.labels)
    for node in result.nodes:
        if prepare is not None:
            prepare(node, result)
        before = len(result.problems)
        resolve_node(graph, node, result)
        if node.at and len(result.problems) > before:
            found = result.problems[before:]
            result.problems[before:] = [replace(problem, at=node.at) for problem in found]
    return result


def _located(
    graph: GraphBuilder, found: Sequence[tuple[Tensor, Problem]], labels: Mapping[int, str]
) -> Iterator[Problem]:
    """Yield problems of tensors as `located` by the first node of each."""
    ports = {
        id(tensor): (labels[id(node)], port)
        for node in reversed(graph.nodes)
        for port, tensor in (*node.inputs.items(), *node.outputs.items())
    }
    for tensor, problem in found:
        yield located(problem, tensor, *ports.get(id(tensor), ("", problem.port)))


def located(problem: Problem, tensor: Tensor, node: str, port: str) -> Problem:
    """Return a problem of a tensor with its line; one without a label is told by a node's port."""
    if tensor.name or tensor.given_uid is not None:
        return replace(problem, at=tensor.at)
    return replace(problem, node=node, port=port, at=tensor.at)


def _check_graph(graph: GraphBuilder, labels: Mapping[int, str]) -> Iterator[Problem]:
    if not graph.nodes:
        yield Problem(
            rule="GRAPH-01", got="no nodes", wanted="at least one op", hint="add an op, e.g. relu"
        )
    elif not any(not t.virtual for node in graph.nodes for t in node.outputs.values()):
        yield Problem(
            rule="GRAPH-02",
            got="only virtual results",
            wanted="at least one output",
            at=graph.nodes[-1].at,
            hint="call .set_output() on the results to keep",
        )
    writers: dict[int, str] = {}
    for node in graph.nodes:
        label = labels[id(node)]
        yield from foreign(graph, node, label)
        for port, tensor in node.outputs.items():
            if id(tensor) in writers:
                yield Problem(
                    rule="GRAPH-05",
                    node=label,
                    at=node.at,
                    port=port,
                    got=f"{label_of(tensor)!r}, which {writers[id(tensor)]} writes",
                    wanted="a tensor of its own",
                )
            writers[id(tensor)] = label
    seen: dict[int, Tensor] = {}
    for tensor in graph.tensors:
        uid = tensor.given_uid
        if uid is None:
            continue
        if uid in seen:
            yield Problem(
                rule="TENSOR-01",
                at=tensor.at,
                port=label_of(tensor),
                got=f"uid {uid}, which {label_of(seen[uid])!r} has",
                wanted="unique uids",
            )
        seen[uid] = tensor


def foreign(graph: GraphBuilder, node: Node, label: str) -> Iterator[Problem]:
    """Yield a problem for each tensor of a node that another graph has made."""
    for port, tensor in (*node.inputs.items(), *node.outputs.items()):
        if tensor.graph is not graph:
            yield Problem(
                rule="GRAPH-04",
                node=label,
                at=node.at,
                port=port,
                got=f"{label_of(tensor)!r} of another graph",
                wanted="a tensor of this graph",
                hint="make it with this graph's tensor()",
            )


def source_view(graph: GraphBuilder, tensor: Tensor) -> PortView:
    """Return what is known of a tensor that no node writes."""
    dims, strides = tensor.given_dims, tensor.given_strides
    if dims is not None and strides is None and len(dims) <= MAX_RANK:
        strides = contiguous_strides(dims)
    return PortView(
        data_type=default_type(graph, tensor),
        dims=dims,
        strides=strides,
        value=tensor.value,
        virtual=tensor.virtual,
    )


def accumulation_type(types: list[DataType]) -> DataType:
    """Return the compute type of a node when neither it nor the graph has one."""
    floats = [t for t in types if t.is_float or t is DataType.UNSET]
    if floats or not types:
        return DataType.DOUBLE if DataType.DOUBLE in floats else DataType.FLOAT
    return DataType.INT64 if DataType.INT64 in types else DataType.INT32


def compute_type(graph: GraphBuilder, node: Node, inputs: Mapping[str, PortView]) -> DataType:
    """Return the type that a node computes in: its own, the graph's, or by its inputs."""
    for given in (node.compute_data_type, graph.compute_data_type):
        if given is not DataType.UNSET:
            return given
    # Numbers written in an expression follow the tensors, they do not decide for them.
    tensors = [v.data_type for v in inputs.values() if v.value is None]
    return accumulation_type(tensors or [v.data_type for v in inputs.values()])


def output_views(graph: GraphBuilder, node: Node) -> dict[str, PortView]:
    """Return what a script has set of a node's outputs."""
    return {
        p: PortView(
            data_type=default_type(graph, t),
            dims=t.given_dims,
            strides=t.given_strides,
            virtual=t.virtual,
        )
        for p, t in node.outputs.items()
    }


def resolve_node(graph: GraphBuilder, node: Node, result: Resolution) -> None:
    """Add the problems of a node, its op and the views of its outputs to a resolution.

    The views of its inputs are there already.
    """
    label = result.labels[id(node)]
    found: list[Problem] = list(_check_ports(node, label))
    inputs = {p: result.views.get(id(t)) for p, t in node.inputs.items()}
    known = {p: v for p, v in inputs.items() if v is not None and v.dims is not None}
    compute = compute_type(graph, node, known)
    result.compute[id(node)] = compute
    if compute not in COMPUTE_TYPES and (compute is not DataType.BOOLEAN or node.op.computes()):
        allowed = ", ".join(t.json for t in COMPUTE_TYPES)
        found.append(
            Problem(
                rule="NODE-03",
                node=label,
                port="compute_data_type",
                got=compute.json,
                wanted=f"one of {allowed}",
            )
        )
    outputs = output_views(graph, node)
    inferred: Mapping[str, Inferred] = {}
    broken = (
        bool(found)
        or len(known) != len(inputs)
        or any(not _usable(v) for v in (*known.values(), *(o for o in outputs.values() if o.dims)))
    )
    op = node.op
    if not broken:
        ports = Ports(label, {**known, **outputs}, compute)
        op = op.resolve(ports)
        found += op.check(ports)
        if not found:
            inferred = op.infer(ports)
    result.ops[id(node)] = op
    for port, view in outputs.items():
        settled = view
        if port in inferred:
            kind = inferred[port].data_type
            if kind is not None and node.outputs[port].given_type is DataType.UNSET:
                settled = replace(view, data_type=kind)
            settled, more = _settle(label, port, settled, inferred[port], known, op)
            found += more
        result.views[id(node.outputs[port])] = settled
        if settled.data_type is DataType.UNSET:
            found.append(_untyped(label, port))
    if inferred and not found:
        views = {p: result.views[id(t)] for p, t in node.outputs.items()}
        ports = Ports(label, {**known, **views}, compute)
        found += op.check_outputs(ports)
        result.ops[id(node)] = op.settle(ports)
    untyped = [
        port
        for port, view in known.items()
        if view.data_type is DataType.UNSET and not graph.is_produced(node.inputs[port])
    ]
    result.problems += [*(_untyped(label, port) for port in untyped), *found]


def _untyped(label: str, port: str) -> Problem:
    return Problem(
        rule="TENSOR-03",
        node=label,
        port=port,
        got="no data type",
        wanted="a data type",
        hint="set the graph's io_data_type, or the tensor's data_type",
    )


def _usable(view: PortView) -> bool:
    """Whether rules may calculate with the dims (tensors with bad dims are reported already)."""
    dims = view.dims
    if not dims or len(dims) > MAX_RANK or not fits(dims):
        return False
    return view.strides is None or len(view.strides) == len(dims)


@cache
def _plain_names(ports: tuple[Port, ...]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of ports that are not variadic, and those of them that must be connected."""
    plain = [port for port in ports if not port.variadic]
    return frozenset(p.name for p in plain), frozenset(p.name for p in plain if not p.optional)


def _check_ports(node: Node, label: str) -> Iterator[Problem]:
    for connected, ports in ((node.inputs, node.op.INPUTS), (node.outputs, node.op.OUTPUTS)):
        known, needed = _plain_names(ports)
        if needed <= connected.keys() <= known:
            continue  # nearly always; a graph may have 10,000 nodes
        names = {name for p in ports for name in p.connected(connected)}
        for port in ports:
            if not (port.connected(connected) or port.optional or port.variadic):
                yield Problem(
                    rule="NODE-01", node=label, port=port.name, got="nothing", wanted="a tensor"
                )
        for name in connected:
            if name not in names:
                yield Problem(
                    rule="NODE-01",
                    node=label,
                    port=name,
                    got="a tensor",
                    wanted=f"only {', '.join(p.name + '[i]' * p.variadic for p in ports)}",
                )


def _settle(
    label: str,
    port: str,
    given: PortView,
    inferred: Inferred,
    inputs: Mapping[str, PortView],
    op: Op,
) -> tuple[PortView, list[Problem]]:
    """Merge what the user gave for an output with what follows from the op."""
    dims = inferred.dims
    if given.dims is not None and given.dims != dims:
        problem = Problem(
            rule="NODE-02",
            node=label,
            port=port,
            got=f"dims {list(given.dims)}",
            wanted=f"dims {list(dims)}",
            hint="leave them out, or correct the op's parameters",
        )
        return given, [problem]
    if not fits(dims):
        problem = Problem(
            rule="TENSOR-05",
            node=label,
            port=port,
            got=f"dims {list(dims)}, as they follow from the inputs",
            wanted=EXTENTS,
        )
        return given, [problem]
    strides = inferred.strides if given.strides is None else given.strides
    if strides is None:
        like = inputs.get(op.LIKE.get(port, ""))
        strides = contiguous_strides(dims)
        if like is not None and like.dims is not None and like.strides is not None:
            strides = strides_like(dims, like.dims, like.strides)
    if len(strides) != len(dims):
        problem = Problem(
            rule="TENSOR-04",
            node=label,
            port=port,
            got=f"{len(strides)} strides",
            wanted=f"{len(dims)} strides for dims {list(dims)}",
        )
        return replace(given, dims=dims, strides=contiguous_strides(dims)), [problem]
    if given.strides is None:
        return replace(given, dims=dims, strides=strides), []
    bits = 8 if given.virtual else given.data_type.bits or 8
    problems = [
        Problem(rule=rule, node=label, port=port, got=got, wanted=wanted, hint=hint)
        for rule, got, wanted, hint in misplaced(dims, strides, written=True, bits=bits)
        # With dims given, `check_tensor` has looked at the rest already.
        if given.dims is None or rule == "TENSOR-12"
    ]
    return replace(given, dims=dims, strides=strides), problems
