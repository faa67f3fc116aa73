# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From a region to a hipDNN graph, by the table of aten ops."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from ...graph_api.building import Node
from ...graph_api.constants import hold
from ...graph_api.dtypes import DataType
from ...graph_api.errors import GraphError, Problem
from ...graph_api.frozen import FrozenGraph
from ...graph_api.graph import Graph
from ...graph_api.layout import contiguous_strides, same_strides
from ...graph_api.tensor import Tensor
from .aten import ATEN
from .aten.call import Built, Call, Quantised, Result, Several, Unsupported
from .program import Function, Op, TensorType

__all__ = ["BuiltRegion", "CannotBuild", "build_region"]


class CannotBuild(Exception):  # noqa: N818 - an answer, not a defect
    """A region is no hipDNN graph: the op at fault (None for the whole region) and the rule."""

    def __init__(self, op: Op | None, problem: Problem) -> None:
        self.op, self.problem = op, problem
        super().__init__(str(problem))


@dataclass(frozen=True, slots=True)
class BuiltRegion:
    """A region as a hipDNN graph.

    Attributes
    ----------
    graph : FrozenGraph
    inputs : tuple of int or None
        The graph's tensor for each argument; None for one that the graph does not read.
    outputs : tuple of int
        The graph's tensor for each result.
    """

    graph: FrozenGraph
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]

    def holding(self, arguments: Collection[int]) -> BuiltRegion:
        """Return the region with some arguments, by number, as constants of the graph."""
        uids = (self.inputs[k] for k in arguments)
        graph = hold(self.graph, (uid for uid in uids if uid is not None))
        return self if graph is self.graph else replace(self, graph=graph)


def build_region(function: Function, name: str = "") -> BuiltRegion:
    """Return the hipDNN graph of a region: contiguous tensors, of at least one dim.

    Raises
    ------
    CannotBuild
        With the op and the rule.
    """
    graph = Graph(name)
    known: dict[int, Result] = {}
    arguments = []
    for i, value in enumerate(function.arguments):
        kind = function.values[value].type
        if kind is not None and 0 not in kind.dims:
            known[value] = _tensor(graph, kind, f"in{i}")
        arguments.append(known.get(value))
    for op in function.ops:
        _add(graph, function, op, known)
    results = [_returned(graph, function, value, known, arguments) for value in function.returned]
    for value in function.arguments:
        _must_be_tensor(function, value, None)
    if not results:
        problem = Problem(rule="ATEN-04", got="no results", wanted="at least one tensor")
        raise CannotBuild(None, problem)
    for i, result in enumerate(results):
        result.set_name(f"out{i}").set_output()
    _number(graph, arguments)
    try:
        frozen = graph.freeze()
    except GraphError as error:
        raise _broken(function, error) from None
    _check(function, frozen, known)
    for result in results:
        spec = frozen.tensors[result.uid]
        if not same_strides(spec.dims, spec.strides, contiguous_strides(spec.dims)):
            got = f"strides {list(spec.strides)}"
            wanted = f"a contiguous tensor of {list(spec.dims)}"
            raise CannotBuild(None, Problem(rule="ATEN-05", port="result", got=got, wanted=wanted))
    taken = set(frozen.inputs)
    return BuiltRegion(
        frozen,
        tuple(t.uid if isinstance(t, Tensor) and t.uid in taken else None for t in arguments),
        tuple(t.uid for t in results),
    )


def _number(graph: Graph, arguments: Sequence[object]) -> None:
    """Number tensors as they were added: freezing would by an order that depends on dims."""
    added = [t for n in graph.nodes for t in (*n.inputs.values(), *n.outputs.values())]
    tensors = [t for t in (*arguments, *added) if isinstance(t, Tensor)]
    for uid, tensor in enumerate({id(t): t for t in tensors}.values(), 1):
        tensor.set_uid(uid)


def _add(graph: Graph, function: Function, op: Op, known: dict[int, Result]) -> None:
    entry = ATEN.get(op.name)
    if entry is None:
        problem = Problem(
            rule="ATEN-01", got=op.name, wanted="an op that has a form as a hipDNN graph"
        )
        raise CannotBuild(op, problem)
    before = len(graph.nodes)
    try:
        call = Call(graph, function, op, entry.operands, known)
        made = _as_list(entry.build(call))
    except Unsupported as error:
        raise CannotBuild(op, error.problem) from None
    except GraphError as error:
        problem = error.problems[0] if error.problems else Problem(rule="ATEN-04", got=str(error))
        raise CannotBuild(op, problem) from None
    for node in graph.nodes[before:]:
        node.name = node.name or _label(op)
        _settle_types(node)
    own = {id(t) for node in graph.nodes[before:] for t in node.outputs.values()}
    for value, result in zip(op.results, made, strict=True):
        if isinstance(result, Tensor):
            kind = _must_be_tensor(function, value, op)
            if id(result) in own:
                result.set_data_type(kind.data_type)
        known[value] = result


def _settle_types(node: Node) -> None:
    """Keep what a form of several nodes passes on in the type that it is computed in."""
    truth = getattr(getattr(node.op, "mode", None), "result", "") == "bool"
    for tensor in node.outputs.values():
        if tensor.data_type is DataType.UNSET:
            tensor.data_type = DataType.BOOLEAN if truth else node.compute_data_type


def _label(op: Op) -> str:
    return f"{op.name.removeprefix('aten.')} {op.location}".strip()


def _as_list(made: Built) -> Sequence[Result]:
    if isinstance(made, Tensor | Quantised | Several) or made is None:
        return (made,)
    return made


def _must_be_tensor(function: Function, value: int, op: Op | None) -> TensorType:
    found = function.values[value]
    if found.type is None or 0 in found.type.dims:
        wanted = "a tensor of static dims, none of them 0, of a type that hipDNN has"
        port = "result" if op else "operand"
        raise CannotBuild(op, Problem(rule="ATEN-02", port=port, got=found.text, wanted=wanted))
    return found.type


def _tensor(graph: Graph, kind: TensorType, name: str) -> Tensor:
    return graph.tensor(dims=kind.graph_dims, data_type=kind.data_type, name=name)


def _returned(
    graph: Graph,
    function: Function,
    value: int,
    known: dict[int, Result],
    arguments: Sequence[object],
) -> Tensor:
    """Return the tensor of a result, contiguous and written by a node for it alone."""
    found = known.get(value)
    kind = _must_be_tensor(function, value, None)
    number = function.values[value].number
    if found is None and number is not None:
        found = graph.scalar(number, data_type=kind.data_type)
    if not isinstance(found, Tensor):
        wanted = "a tensor"
        problem = Problem(rule="ATEN-02", port="result", got="another value", wanted=wanted)
        raise CannotBuild(None, problem)
    if any(found is one for one in arguments) or found.value is not None or not found.virtual:
        found = graph.pointwise(found, mode="identity")
        found.set_data_type(kind.data_type)
    return found.set_output()


def _broken(function: Function, error: GraphError) -> CannotBuild:
    problem = _first(error)
    op = next((op for op in function.ops if _label(op) == problem.node), None)
    return CannotBuild(op, problem)


def _first(error: GraphError) -> Problem:
    return next(iter(error.problems), Problem(rule="ATEN-04", got=str(error)))


def _check(function: Function, frozen: FrozenGraph, known: dict[int, Result]) -> None:
    """Refuse a graph whose tensors have other dims or types than the function says."""
    for op in function.ops:
        for value in op.results:
            tensor, kind = known.get(value), function.values[value].type
            if not isinstance(tensor, Tensor) or kind is None:
                continue
            spec = frozen.tensors.get(tensor.uid)
            if spec is None:
                continue  # nothing reads it
            got, wanted = (spec.dims, spec.data_type), (kind.graph_dims, kind.data_type)
            if got != wanted and spec.data_type is not DataType.UNSET:
                problem = Problem(
                    rule="ATEN-05",
                    port="result",
                    got=f"{kind.data_type.json} {list(kind.dims)}",
                    wanted=f"{spec.data_type.json} {list(spec.dims)}, as the operands give",
                )
                raise CannotBuild(op, problem)
