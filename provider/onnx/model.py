# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An ONNX graph as data: what ONNX Runtime shows of it, without anything of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from ...graph_api.dtypes import DataType

__all__ = ["Attribute", "Constant", "Model", "Node", "Value"]

Dim = int | str
"""An extent, or the name of one that is known at execution; empty: known to nobody."""


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor's type; ``data_type`` is None for what no hipDNN graph holds, and for no tensor.

    ``dims`` is None where not even the rank is known.
    """

    name: str
    data_type: DataType | None
    dims: tuple[Dim, ...] | None

    @property
    def is_static(self) -> bool:
        """Whether every extent is known."""
        return self.dims is not None and all(isinstance(d, int) for d in self.dims)

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents, which are all known."""
        assert self.dims is not None
        return tuple(d for d in self.dims if isinstance(d, int))

    @property
    def nbytes(self) -> int:
        """Bytes of a tensor whose extents are all known."""
        assert self.data_type is not None
        return (prod(self.shape) * self.data_type.value.bits + 7) // 8


@dataclass(frozen=True, slots=True)
class Constant:
    """A small constant tensor, with its bytes."""

    data_type: DataType
    dims: tuple[int, ...]
    data: bytes


Attribute = int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...] | Constant


@dataclass(frozen=True, slots=True)
class Node:
    """A node.

    Attributes
    ----------
    label : str
        Unique in the graph: its name, or one made of its op and place.
    op, domain : str
        The ONNX domain is the empty one.
    version : int
        Of the operator set that it was defined in.
    inputs, outputs : tuple of str
        Names of values; empty for an optional one that is left out.
    attributes : mapping
        Those that can be held as data.
    odd : tuple of str
        Attributes and subgraphs that cannot.
    handle : int
        ONNX Runtime's, valid while it is asking.
    captured : tuple of str
        Values of the graph that its bodies read.
    """

    label: str
    op: str
    domain: str
    version: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    odd: tuple[str, ...] = ()
    handle: int = 0
    captured: tuple[str, ...] = ()

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of what it needs, its bodies included; empty for an input that is left out."""
        return (*self.inputs, *self.captured)


@dataclass(frozen=True, slots=True)
class Model:
    """A graph, or a part of one.

    Attributes
    ----------
    nodes : tuple of Node
        In topological order.
    values : mapping of str to Value
    constants : mapping of str to Constant
        Small ones, whose elements may decide on code.
    weights : frozenset of str
        Initializers that are no ``constants``.
    inputs, outputs : tuple of str
        Run-time inputs, and results.
    opsets : mapping of str to int
        Version by domain.
    ir_version : int
    nested : bool
        Whether it is the body of a control flow node.
    """

    nodes: tuple[Node, ...]
    values: Mapping[str, Value]
    constants: Mapping[str, Constant]
    weights: frozenset[str]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    opsets: Mapping[str, int]
    ir_version: int = 8
    nested: bool = False

    def part(self, nodes: Iterable[Node]) -> Model:
        """Return some of the nodes as a graph: inputs as they are met, weights apart."""
        chosen = tuple(nodes)
        made = {name for node in chosen for name in node.outputs if name}
        read = dict.fromkeys(name for node in chosen for name in node.inputs if name)
        names = {id(node) for node in chosen}
        outside = {n for node in self.nodes if id(node) not in names for n in node.reads}
        outside.update(self.outputs)
        constants = {n: self.constants[n] for n in read if n in self.constants}
        weights = frozenset(n for n in read if n in self.weights)
        return replace(
            self,
            nodes=chosen,
            constants=constants,
            weights=weights,
            inputs=tuple(n for n in read if n not in made and n not in weights | constants.keys()),
            outputs=tuple(n for node in chosen for n in node.outputs if n and n in outside),
        )

    def symbols(self) -> tuple[str, ...]:
        """Return the names of extents of inputs that are known at execution."""
        found = (d for n in self.inputs for d in self.values[n].dims or ())
        return tuple(dict.fromkeys(d for d in found if isinstance(d, str)))

    def at(self, sizes: Mapping[str, int]) -> Model:
        """Return the graph with extents in place of names; those of other names stay."""
        values = {
            name: value
            if value.dims is None
            else replace(
                value, dims=tuple(sizes.get(d, d) if isinstance(d, str) else d for d in value.dims)
            )
            for name, value in self.values.items()
        }
        return replace(self, values=values)

    def groups(self, chosen: Sequence[Node]) -> Iterator[tuple[Node, ...]]:
        """Yield connected parts of some nodes, none with a path out of it and back.

        A node's level is the number of borders, between chosen and other nodes, on the way to it
        from an input.  Between two nodes of one level there is none, so that no path between them
        leaves the chosen ones.
        """
        is_chosen = {id(node) for node in chosen}
        maker: dict[str, Node] = {}
        level: dict[int, int] = {}
        parent: dict[int, int] = {}

        def root(key: int) -> int:
            while parent[key] != key:
                parent[key] = parent[parent[key]]
                key = parent[key]
            return key

        for node in self.nodes:
            here, own = 0, id(node)
            makers = [maker[n] for n in node.reads if n in maker]
            for one in makers:
                border = (id(one) in is_chosen) != (own in is_chosen)
                here = max(here, level[id(one)] + border)
            level[own], parent[own] = here, own
            for one in makers:
                same = level[id(one)] == here and id(one) in is_chosen and own in is_chosen
                if same:
                    parent[root(own)] = root(id(one))
            for name in node.outputs:
                if name:
                    maker[name] = node
        found: dict[int, list[Node]] = {}
        for node in self.nodes:
            if id(node) in is_chosen:
                found.setdefault(root(id(node)), []).append(node)
        yield from map(tuple, found.values())
