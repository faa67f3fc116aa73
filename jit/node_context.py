"""A node and what surrounds it: all that a decision about its code may depend on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import UnionType
from typing import NamedTuple

from ..graph_api.dtypes import DataType
from ..graph_api.frozen import FrozenGraph, FrozenNode
from ..graph_api.ops.base import Op
from ..graph_api.ops.pointwise import Pointwise
from ..graph_api.tensor import TensorSpec
from .target import Target

__all__ = ["GraphContext", "Layout", "NodeContext"]

Ints = tuple[int, ...]


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

    @cached_property
    def makers(self) -> dict[int, FrozenNode]:
        """The node that computes each tensor."""
        return {out: node for node in self.graph.nodes for out in node.outputs.values()}

    def has(self, ops: type[Op] | UnionType) -> bool:
        """Return whether the graph has such an op."""
        return any(isinstance(node.op, ops) for node in self.graph.nodes)

    def made_of(self, uid: int, ops: type[Op] | UnionType) -> bool:
        """Return whether pointwise nodes compute a tensor from what such an op results in."""
        todo = [uid]
        while todo:
            maker = self.makers.get(todo.pop())
            if maker is not None and isinstance(maker.op, ops):
                return True
            if maker is not None and isinstance(maker.op, Pointwise):
                todo += maker.inputs.values()
        return False


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
    def moves(self) -> bool:
        """Whether the node only moves elements: reshape, transpose, slice, concatenate, pad."""
        return not isinstance(self.op, Pointwise) and not self.op.computes()

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
