# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A node and what surrounds it: all that a decision about its code may depend on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import UnionType
from typing import Any, NamedTuple, TypeVar

from ..graph_api.dtypes import DataType
from ..graph_api.frozen import FrozenGraph, FrozenNode
from ..graph_api.ops import FAMILIES
from ..graph_api.ops.base import Op
from ..graph_api.ops.pointwise import Pointwise
from ..graph_api.tensor import TensorSpec
from .target import Target

__all__ = ["GraphContext", "Layout", "NodeContext", "all_pointwise", "is_named"]

Ints = tuple[int, ...]
T = TypeVar("T")


class Layout(NamedTuple):
    """What is known of the memory of a value.

    Attributes
    ----------
    order : tuple of int
        Memory order, outermost dim first; empty where the compiler chooses it.
    broadcast : bool
        Whether some dim has stride 0.
    argument : bool
        Whether it is an argument of the function, so that the order is a fact.
    """

    order: Ints = ()
    broadcast: bool = False
    argument: bool = False

    @property
    def channels_first(self) -> bool:
        """Whether the dims are in their logical order."""
        return bool(self.order) and self.order == tuple(range(len(self.order)))

    @property
    def channels_last(self) -> bool:
        """Whether the second dim is the innermost one."""
        rank = len(self.order)
        return bool(self.order) and self.order == (0, *range(2, rank), 1)


@dataclass(frozen=True, eq=False)
class GraphContext:
    """A graph and a target, and what several rules want to know of them."""

    graph: FrozenGraph
    target: Target
    _known: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def makers(self) -> dict[int, FrozenNode]:
        """The node that computes each tensor."""
        return {out: node for node in self.graph.nodes for out in node.outputs.values()}

    @cached_property
    def readers(self) -> Counter[int]:
        """How many nodes read each tensor."""
        return Counter(uid for node in self.graph.nodes for uid in {*node.inputs.values()})

    @cached_property
    def _ops(self) -> frozenset[type[Op]]:
        return frozenset(type(node.op) for node in self.graph.nodes)

    def once(self, key: Hashable, find: Callable[[], T]) -> T:
        """Return what ``find`` finds in the whole graph: nodes that ask do not look again."""
        if key not in self._known:
            self._known[key] = find()
        found: T = self._known[key]
        return found

    def has(self, ops: type[Op] | UnionType) -> bool:
        """Return whether the graph has such an op."""
        return any(issubclass(op, ops) for op in self._ops)

    def fed_by(self, uids: Iterable[int]) -> set[int]:
        """Return some tensors, and those that pointwise nodes compute from them."""
        found = set(uids)
        for node in self.graph.nodes:
            if isinstance(node.op, Pointwise) and not found.isdisjoint(node.inputs.values()):
                found.update(node.outputs.values())
        return found

    def made_of(self, uid: int, *names: str) -> bool:
        """Return whether pointwise nodes compute a tensor from what such an op results in."""

        def find() -> set[int]:
            nodes = (node for node in self.graph.nodes if is_named(node.op, *names))
            return self.fed_by(out for node in nodes for out in node.outputs.values())

        return uid in self.once(("made of", names), find)


@dataclass(frozen=True, eq=False)
class NodeContext:
    """A node of a graph.

    Attributes
    ----------
    around : GraphContext
    node : FrozenNode
    strategy : str
        The node's strategy, once it is chosen; empty where its op has one only.
    operands : mapping of port to Layout
        How the node's operands are laid out, once that is known.
    """

    around: GraphContext
    node: FrozenNode
    strategy: str = ""
    operands: Mapping[str, Layout] = field(default_factory=dict)

    @property
    def graph(self) -> FrozenGraph:
        """The graph."""
        return self.around.graph

    @property
    def target(self) -> Target:
        """What the code is for."""
        return self.around.target

    @property
    def op(self) -> Op:
        """The node's op."""
        return self.node.op

    @property
    def dynamic(self) -> bool:
        """Whether some extents of the graph are known at run time only."""
        return bool(self.graph.symbols)

    @property
    def compute(self) -> DataType:
        """The node's compute type."""
        return self.node.compute_data_type

    @property
    def pointwise(self) -> bool:
        """Whether the node computes each element from one of each operand."""
        return isinstance(self.op, Pointwise)

    @property
    def moves(self) -> bool:
        """Whether the node only moves elements: reshape, transpose, slice, concatenate, pad."""
        return not self.pointwise and not self.op.computes()

    def named(self, *names: str) -> bool:
        """Whether the op has one of these names, or its family has (`is_named`)."""
        return is_named(self.op, *names)

    def uid(self, port: str) -> int:
        """Return the uid of an input or output."""
        node = self.node
        return node.inputs[port] if port in node.inputs else node.outputs[port]

    def spec(self, port: str) -> TensorSpec:
        """Return the tensor of an input or output."""
        return self.graph.tensors[self.uid(port)]

    def dims(self, port: str) -> Ints:
        """Return the dims of an input or output."""
        return self.spec(port).dims

    def kind(self, port: str) -> DataType:
        """Return the data type of an input or output."""
        return self.spec(port).data_type


def is_named(op: Op, *names: str) -> bool:
    """Whether an op has one of these names, or its family has, as ``conv``.

    Other than `isinstance` it does not want their classes, whose modules a graph without them
    need not import.
    """
    return op.NAME in names or FAMILIES.get(op.NAME) in names


def all_pointwise(graph: FrozenGraph) -> bool:
    """Whether every node computes each element from one of each operand."""
    return all(isinstance(node.op, Pointwise) for node in graph.nodes)
