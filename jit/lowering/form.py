"""What a form is: one way of writing an op for the compiler, and where it can be used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...graph_api.dtypes import DataType
from ...graph_api.frozen import FrozenGraph, FrozenNode
from ..target import Target

__all__ = ["Form", "Site"]

Ints = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Site:
    """A node and what surrounds it: all that the choice of its form may depend on."""

    graph: FrozenGraph
    node: FrozenNode
    target: Target

    @property
    def dynamic(self) -> bool:
        """Whether some extents of the graph are known at run time only."""
        return bool(self.graph.symbols)

    @property
    def compute(self) -> DataType:
        """The node's compute type."""
        return self.node.compute_data_type

    def dims(self, port: str) -> Ints:
        """Return the dims of an input or output."""
        return self.graph.tensors[self._uid(port)].dims

    def kind(self, port: str) -> DataType:
        """Return the data type of an input or output."""
        return self.graph.tensors[self._uid(port)].data_type

    def _uid(self, port: str) -> int:
        node = self.node
        return node.inputs[port] if port in node.inputs else node.outputs[port]


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """One way of writing an op.

    Attributes
    ----------
    name : str
        As in ``compiler.forms`` and in the knob ``<op>.form``.
    help : str
        What is emitted, in one line.
    fits : callable
        Whether it computes the node of a `Site`, for that target.
    why : str
        What it fits, in words, for error texts.
    flags : tuple of str
        Compiler flags that it needs; they are for the whole graph.
    tried : bool
        Whether autotuning measures it: not those that exist for comparison only.
    """

    name: str
    help: str
    fits: Callable[[Site], bool]
    why: str = "any node"
    flags: tuple[str, ...] = ()
    tried: bool = True
