"""Rules of tensors and of the graph as a whole; inference through all nodes, in order.

``resolve`` never raises for a bad graph: it collects every problem, and goes on with what is
still known, so that one mistake does not hide the next.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from math import prod
from typing import TYPE_CHECKING

from .dtypes import DataType
from .errors import Problem
from .layout import LayoutError, analyse, contiguous_strides, strides_like
from .ops.base import Inferred, Op, Ports, PortView
from .tensor import Tensor

if TYPE_CHECKING:
    from .graph import Graph, Node

__all__ = ["RULES", "Resolution", "resolve"]

MAX_RANK = 8
COMPUTE_TYPES = (
    DataType.FLOAT,
    DataType.DOUBLE,
    DataType.HALF,
    DataType.BFLOAT16,
    DataType.INT32,
    DataType.INT64,
)
_INT64_MAX = 2**63 - 1

RULES: dict[str, str] = {
    "GRAPH-01": "a graph has at least one node",
    "GRAPH-02": "a graph has at least one output (a written tensor that is not virtual)",
    "GRAPH-03": "no node depends on its own result",
    "GRAPH-04": "every tensor of a node belongs to the node's graph",
    "GRAPH-05": "no tensor is written twice",
    "GRAPH-07": "a frozen graph does not change",
    "TENSOR-01": "uids are unique in the graph and fit into 64 bits",
    "TENSOR-02": "a tensor that no node writes has dims",
    "TENSOR-03": "every tensor has a data type, its own or the graph's default",
    "TENSOR-04": "there is one stride per dim, and at most 8 dims",
    "TENSOR-05": "every extent is at least 1, and the tensor has less than 2^63 bytes",
    "TENSOR-06": "strides are not negative, elements do not overlap, gaps are whole inner rows",
    "TENSOR-07": "a tensor that a node writes is a dense permutation (no gaps, no broadcast)",
    "TENSOR-08": "a compile-time scalar has dims (1,), a value its type can hold, and no producer",
    "TENSOR-09": "a virtual tensor is written by a node",
    "NODE-01": "every port that is not optional is connected, and only ports of the op",
    "NODE-02": "the dims given for a result are those that follow from the op",
    "NODE-03": "the compute type is FLOAT, DOUBLE, HALF, BFLOAT16, INT32 or INT64 "
    "(or BOOLEAN, where nothing is computed)",
    "PARAM-01": "integer parameters are integers",
    "PARAM-02": "a data type is one that hipDNN knows",
    "PARAM-03": "an operand is a tensor of the graph or a number",
}


@dataclass(slots=True)
class Resolution:
    """What was found out about a graph.

    ``nodes`` are in canonical topological order; ``views`` holds what is known of each tensor;
    ``ops`` and ``compute`` hold each node's resolved op and compute type.
    """

    problems: list[Problem] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    views: dict[int, PortView] = field(default_factory=dict)
    ops: dict[int, Op] = field(default_factory=dict)
    compute: dict[int, DataType] = field(default_factory=dict)
    labels: dict[int, str] = field(default_factory=dict)


def resolve(graph: Graph) -> Resolution:
    """Check every rule and infer what is missing; the problems are in node order."""
    result = Resolution()
    result.labels = {
        id(node): node.name or f"{node.op.NAME}_{i}" for i, node in enumerate(graph.nodes)
    }
    result.problems += _check_graph(graph, result.labels)
    result.nodes = _topological(graph, result.problems, result.labels)
    for tensor in graph.tensors:
        result.problems += _check_tensor(graph, tensor)
        if not graph.is_produced(tensor):
            result.views[id(tensor)] = _source_view(graph, tensor)
    for node in result.nodes:
        _resolve_node(graph, node, result)
    return result


def _label(tensor: Tensor) -> str:
    if tensor.name:
        return tensor.name
    return f"tensor {tensor.given_uid}" if tensor.given_uid is not None else "unnamed tensor"


def _check_graph(graph: Graph, labels: Mapping[int, str]) -> Iterator[Problem]:
    if not graph.nodes:
        yield Problem(
            rule="GRAPH-01", got="no nodes", wanted="at least one op", hint="add an op, e.g. relu"
        )
    elif not any(not t.virtual for node in graph.nodes for t in node.outputs.values()):
        yield Problem(
            rule="GRAPH-02",
            got="only virtual results",
            wanted="at least one output",
            hint="call .set_output() on the results to keep",
        )
    own = set(map(id, graph.tensors))
    writers: dict[int, str] = {}
    for node in graph.nodes:
        label = labels[id(node)]
        for port, tensor in (*node.inputs.items(), *node.outputs.items()):
            if id(tensor) not in own:
                yield Problem(
                    rule="GRAPH-04",
                    node=label,
                    port=port,
                    got=f"{_label(tensor)!r} of another graph",
                    wanted="a tensor of this graph",
                    hint="make it with this graph's tensor()",
                )
        for port, tensor in node.outputs.items():
            if id(tensor) in writers:
                yield Problem(
                    rule="GRAPH-05",
                    node=label,
                    port=port,
                    got=f"{_label(tensor)!r}, which {writers[id(tensor)]} writes",
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
                port=_label(tensor),
                got=f"uid {uid}, which {_label(seen[uid])!r} has",
                wanted="unique uids",
            )
        elif not -_INT64_MAX - 1 <= uid <= _INT64_MAX:
            yield Problem(
                rule="TENSOR-01", port=_label(tensor), got=f"uid {uid}", wanted="a 64-bit integer"
            )
        seen[uid] = tensor


def _check_tensor(graph: Graph, tensor: Tensor) -> Iterator[Problem]:
    def problem(rule: str, got: object, wanted: str, hint: str = "") -> Problem:
        return Problem(rule=rule, port=_label(tensor), got=str(got), wanted=wanted, hint=hint)

    produced = graph.is_produced(tensor)
    if tensor.value is not None:
        yield from _check_scalar(tensor, produced, problem)
    if tensor.virtual and not produced:
        yield problem("TENSOR-09", "virtual, and no node writes it", "a writer, or a buffer")
    if tensor.dims is None:
        if not produced:
            yield problem("TENSOR-02", "no dims", "dims", "pass dims=(...) to tensor()")
        return
    if len(tensor.dims) > MAX_RANK or not tensor.dims:
        yield problem("TENSOR-04", f"rank {len(tensor.dims)}", f"rank 1 to {MAX_RANK}")
        return
    if any(d < 1 for d in tensor.dims) or prod(tensor.dims) * 8 > _INT64_MAX:
        yield problem(
            "TENSOR-05", f"dims {list(tensor.dims)}", "extents of at least 1, below 2^63 bytes"
        )
        return
    if tensor.strides is None:
        return
    if len(tensor.strides) != len(tensor.dims):
        yield problem(
            "TENSOR-04",
            f"{len(tensor.strides)} strides for {len(tensor.dims)} dims",
            "one stride per dim",
        )
        return
    if any(abs(s) * 8 > _INT64_MAX for s in tensor.strides):
        yield problem("TENSOR-05", f"strides {list(tensor.strides)}", "less than 2^63 bytes")
        return
    try:
        layout = analyse(tensor.dims, tensor.strides)
    except LayoutError as error:
        yield problem("TENSOR-06", error, "dense, padded or broadcast strides", "copy it to one")
        return
    if layout.span * 8 > _INT64_MAX:
        yield problem("TENSOR-05", f"a span of {layout.span} elements", "less than 2^63 bytes")
    if produced and not layout.dense:
        kind = "gaps" if layout.padded else "broadcast dims"
        yield problem(
            "TENSOR-07",
            f"strides {list(tensor.strides)} with {kind} for dims {list(tensor.dims)}",
            "any permutation without gaps",
            f"for example {list(contiguous_strides(tensor.dims))}",
        )


def _check_scalar(tensor: Tensor, produced: bool, problem: object) -> Iterator[Problem]:
    assert callable(problem)
    if tensor.dims is None or prod(tensor.dims) != 1:
        yield problem("TENSOR-08", f"dims {tensor.dims}", "dims (1,) for a compile-time scalar")
    if produced or tensor.virtual:
        yield problem("TENSOR-08", "a value and a writer", "a scalar that no node writes")
    dtype, value = tensor.data_type, tensor.value
    if dtype.is_integer:
        bits, signed = dtype.bits, dtype.value.kind == "int"
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
        whole = isinstance(value, int) or (math.isfinite(value or 0.0) and value == int(value or 0))
        if not whole or not low <= int(value or 0) <= high:
            yield problem("TENSOR-08", repr(value), f"an integer from {low} to {high}")
    elif dtype.is_bool and value not in (0, 1):
        yield problem("TENSOR-08", repr(value), "True or False")


def _default_type(graph: Graph, tensor: Tensor) -> DataType:
    if tensor.data_type is not DataType.UNSET:
        return tensor.data_type
    if not tensor.virtual:
        return graph.io_data_type
    candidates = (graph.intermediate_data_type, graph.compute_data_type, graph.io_data_type)
    return next((t for t in candidates if t is not DataType.UNSET), DataType.UNSET)


def _source_view(graph: Graph, tensor: Tensor) -> PortView:
    strides = tensor.strides
    if tensor.dims is not None and strides is None:
        strides = contiguous_strides(tensor.dims)
    return PortView(
        data_type=_default_type(graph, tensor),
        dims=tensor.dims,
        strides=strides,
        value=tensor.value,
        virtual=tensor.virtual,
    )


def accumulation_type(types: list[DataType]) -> DataType:
    """Return the compute type of a node when neither it nor the graph says one."""
    floats = [t for t in types if t.is_float]
    if floats or not types:
        return DataType.DOUBLE if DataType.DOUBLE in floats else DataType.FLOAT
    return DataType.INT64 if DataType.INT64 in types else DataType.INT32


def _resolve_node(graph: Graph, node: Node, result: Resolution) -> None:
    label = result.labels[id(node)]
    found: list[Problem] = list(_check_ports(node, label))
    inputs = {p: result.views.get(id(t)) for p, t in node.inputs.items()}
    known = {p: v for p, v in inputs.items() if v is not None and v.dims is not None}
    compute = node.compute_data_type
    if compute is DataType.UNSET:
        compute = graph.compute_data_type
    if compute is DataType.UNSET:
        # Numbers written in an expression follow the tensors, they do not decide for them.
        tensors = [v.data_type for v in known.values() if v.value is None]
        compute = accumulation_type(tensors or [v.data_type for v in known.values()])
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
    outputs = {
        p: PortView(
            data_type=_default_type(graph, t),
            dims=t.dims,
            strides=t.strides,
            virtual=t.virtual,
        )
        for p, t in node.outputs.items()
    }
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
            settled, more = _settle(label, port, view, inferred[port], known, op)
            found += more
        result.views[id(node.outputs[port])] = settled
        if settled.data_type is DataType.UNSET:
            found.append(
                Problem(
                    rule="TENSOR-03",
                    node=label,
                    port=port,
                    got="no data type",
                    wanted="a data type",
                    hint="set the graph's io_data_type, or the tensor's data_type",
                )
            )
    if inferred and not found:
        views = {p: result.views[id(t)] for p, t in node.outputs.items()}
        ports = Ports(label, {**known, **views}, compute)
        found += op.check_outputs(ports)
        result.ops[id(node)] = op.settle(ports)
    found += [
        Problem(
            rule="TENSOR-03",
            node=label,
            port=port,
            got="no data type",
            wanted="a data type",
            hint="set the graph's io_data_type, or the tensor's data_type",
        )
        for port, view in known.items()
        if view.data_type is DataType.UNSET and not graph.is_produced(node.inputs[port])
    ]
    result.problems += found


def _usable(view: PortView) -> bool:
    """Whether rules may calculate with the dims (tensors with bad dims are reported already)."""
    dims = view.dims
    if dims is None or not dims or len(dims) > MAX_RANK or any(d < 1 for d in dims):
        return False
    return view.strides is None or len(view.strides) == len(dims)


def _check_ports(node: Node, label: str) -> Iterator[Problem]:
    for connected, ports in ((node.inputs, node.op.INPUTS), (node.outputs, node.op.OUTPUTS)):
        names = [p.name for p in ports]
        for port in ports:
            if port.name not in connected and not port.optional:
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
                    wanted=f"only {', '.join(names)}",
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
    strides = given.strides or inferred.strides
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
    problems = []
    if given.dims is None and given.strides is not None:
        # With dims given, `_check_tensor` has looked already.
        probe = Problem(
            rule="TENSOR-07",
            node=label,
            port=port,
            got=f"strides {list(strides)} for dims {list(dims)}",
            wanted="any permutation without gaps",
        )
        try:
            if not analyse(dims, strides).dense:
                problems.append(probe)
        except LayoutError as error:
            problems.append(replace(probe, rule="TENSOR-06", got=str(error)))
    data_type = given.data_type if inferred.data_type is None else inferred.data_type
    return replace(given, dims=dims, strides=strides, data_type=data_type), problems


def _topological(graph: Graph, problems: list[Problem], labels: Mapping[int, str]) -> list[Node]:
    """Order the nodes so that producers come first; ties go by structure, then by insertion.

    The structural key makes the order (and so the digest) independent of the order in which
    independent nodes were added, as far as they differ at all.
    """
    producer = {id(t): n for n in graph.nodes for t in n.outputs.values()}
    waiting: dict[int, int] = {}
    consumers: dict[int, list[Node]] = {}
    for node in graph.nodes:
        sources = {id(p) for t in node.inputs.values() if (p := producer.get(id(t))) is not None}
        waiting[id(node)] = len(sources)
        for source in sources:
            consumers.setdefault(source, []).append(node)
    index = {id(n): i for i, n in enumerate(graph.nodes)}
    keys: dict[int, str] = {}

    def key(node: Node) -> str:
        from hashlib import sha256

        parts = [repr(node.op), node.compute_data_type.name]
        for port, tensor in (*node.inputs.items(), *node.outputs.items()):
            source = producer.get(id(tensor))
            upstream = keys.get(id(source), "") if source is not node else ""
            parts.append(
                f"{port}:{upstream}:{tensor.dims}:{tensor.strides}:{tensor.data_type.name}"
                f":{tensor.virtual}:{tensor.value!r}"
            )
        return sha256("|".join(parts).encode()).hexdigest()

    ready: list[tuple[str, int]] = []
    for node in graph.nodes:
        if not waiting[id(node)]:
            keys[id(node)] = key(node)
            ready.append((keys[id(node)], index[id(node)]))
    heapify(ready)
    order: list[Node] = []
    while ready:
        _, i = heappop(ready)
        node = graph.nodes[i]
        order.append(node)
        for consumer in consumers.get(id(node), ()):
            waiting[id(consumer)] -= 1
            if not waiting[id(consumer)]:
                keys[id(consumer)] = key(consumer)
                heappush(ready, (keys[id(consumer)], index[id(consumer)]))
    if len(order) != len(graph.nodes):
        placed = set(map(id, order))
        stuck = [labels[id(n)] for n in graph.nodes if id(n) not in placed]
        problems.append(
            Problem(
                rule="GRAPH-03",
                node=stuck[0],
                got=f"a cycle among {', '.join(stuck)}",
                wanted="no node that depends on its own result",
            )
        )
    return order
