# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A random graph under construction: it grows node by node.

Each op is tried on operands that are there or new; what the graph's own rules refuse is taken
back, so that nothing here repeats a rule.  A graph is kept as a list of steps that are done again
from the start, since nodes cannot be taken out of a ``Graph``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from random import Random
from typing import Any

from ....graph_api.dtypes import DataType
from ....graph_api.errors import GraphError
from ....graph_api.graph import Graph
from ....graph_api.layout import channels_last_strides, contiguous_strides, strides_in_order
from ....graph_api.tensor import Tensor
from ....graph_api.validate import resolve

__all__ = ["EXTENTS", "FLOATS", "Known", "Maker"]

EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 13, 15, 16, 17, 31, 32, 33)
"""Extents of dims: one, odd, prime, and around the tiles of matrix instructions."""

_MOST_ELEMENTS = 20_000
FLOATS = (DataType.FLOAT, DataType.HALF, DataType.BFLOAT16)

Ints = tuple[int, ...]
Step = Callable[[Graph, list[Tensor]], list[Tensor]]


@dataclass(frozen=True, slots=True)
class Known:
    """Dims and type of a tensor of the graph so far, and whether a node wrote it."""

    dims: Ints
    data_type: DataType
    computed: bool


@dataclass
class Maker:
    """A graph under construction; tensors are numbers.

    Attributes
    ----------
    rng : Random
    types : tuple of DataType
        The float types of the graph: of I/O, of intermediates (may be UNSET), to compute in.
    """

    rng: Random
    types: tuple[DataType, DataType, DataType]
    steps: list[Step] = field(default_factory=list)
    known: list[Known] = field(default_factory=list)
    used: set[int] = field(default_factory=set)
    nodes: int = 0

    def replay(self) -> tuple[Graph, list[Tensor]]:
        """Return the graph so far, and its tensors in the order of their numbers."""
        io, intermediate, compute = self.types
        graph = Graph(
            io_data_type=io, intermediate_data_type=intermediate, compute_data_type=compute
        )
        tensors: list[Tensor] = []
        for step in self.steps:
            tensors += step(graph, tensors)
        return graph, tensors

    # ---------------------------------------------------------------- tensors

    def tensor(self, dims: Sequence[int], data_type: DataType | None = None) -> int:
        """Add an input, in a random layout."""
        kind, shape = data_type or self.types[0], tuple(dims)
        strides = self.layout(shape, narrow=kind.bits < 8)
        self.steps.append(lambda g, _: [g.tensor(dims=shape, strides=strides, data_type=kind)])
        self.known.append(Known(shape, kind, computed=False))
        return len(self.known) - 1

    def number(self) -> int:
        """Add a scalar: known when the graph is compiled, or when it is run."""
        value = self.rng.choice([0.5, -1.25, 2.0, 1.0, 0.1])
        if self.rng.random() < 0.5:
            kind = self.rng.choice([self.types[0], DataType.FLOAT])
            self.steps.append(lambda g, _: [g.scalar(value, data_type=kind)])
        else:
            kind = self.rng.choice([self.types[0], DataType.FLOAT])
            self.steps.append(lambda g, _: [g.runtime_scalar(data_type=kind)])
        self.known.append(Known((1,), kind, computed=False))
        return len(self.known) - 1

    def layout(self, dims: Ints, *, narrow: bool = False, output: bool = False) -> Ints:
        """Return random strides: contiguous, channels-last, any order, with gaps, broadcast."""
        rank, draw = len(dims), self.rng.random()
        if draw < 0.4 or not dims:
            return contiguous_strides(dims)
        if draw < 0.65:
            return channels_last_strides(dims)
        order = self.rng.sample(range(rank), rank)
        if draw < 0.85 or output or narrow:
            return strides_in_order(dims, order)
        if draw < 0.93:  # gaps behind some rows, of which the inner ones are whole
            if self.rng.random() < 0.5:
                order = list(range(rank))
            wide = list(dims)
            wide[self.rng.choice(order)] += self.rng.randint(1, 3)
            return strides_in_order(wide, order)
        axis = self.rng.randrange(rank)
        thin = [1 if i == axis else d for i, d in enumerate(dims)]
        packed = strides_in_order(thin, order)
        return tuple(0 if i == axis else s for i, s in enumerate(packed))

    def pick(self, fits: Callable[[Known], bool], *, computed: bool | None = None) -> int | None:
        """Return a tensor that fits, rather a new one, and rather one that nobody reads yet."""
        found = [
            i
            for i, k in enumerate(self.known)
            if fits(k) and (computed is None or k.computed == computed)
        ]
        if not found:
            return None
        fresh = [i for i in found if i not in self.used and self.known[i].computed]
        return self.rng.choice(fresh if fresh and self.rng.random() < 0.75 else found[-4:])

    # ---------------------------------------------------------------- nodes

    def op(
        self,
        method: str,
        *operands: Any,
        kinds: Sequence[DataType | str | None] = (),
        **parameters: Any,
    ) -> list[int] | None:
        """Add a node; return its results, or None where the graph refuses it.

        Operands are numbers of tensors, lists of them, or ``("value", x)`` for a constant;
        parameters that hold tensors are given as ``("tensor", i)``.  ``kinds`` are the types of
        the results, None for the default.
        """

        def step(graph: Graph, tensors: list[Tensor]) -> list[Tensor]:
            def given(value: Any) -> Any:
                if isinstance(value, int):
                    return tensors[value]
                return [tensors[v] for v in value] if isinstance(value, list) else value[1]

            named = {
                k: tensors[v[1]] if isinstance(v, tuple) and v[:1] == ("tensor",) else v
                for k, v in parameters.items()
            }
            result = getattr(graph, method)(*map(given, operands), **named)
            found = [result] if isinstance(result, Tensor) else list(result)
            found = [t for t in found if isinstance(t, Tensor)]
            for tensor, kind in zip(found, kinds, strict=False):
                if kind is not None:
                    tensor.set_data_type(kind)
            return found

        before = len(self.steps)
        self.steps.append(step)
        try:
            graph, tensors = self.replay()
            found = resolve(graph)
        except GraphError:
            self.steps = self.steps[:before]
            return None
        new = range(len(self.known), len(tensors))
        views = [found.views.get(id(tensors[i])) for i in new]
        wrong = any(p.rule != "GRAPH-02" for p in found.problems)
        if wrong or any(v is None or not v.dims or prod(v.dims) > _MOST_ELEMENTS for v in views):
            self.steps = self.steps[:before]
            return None
        self.known += [Known(v.dims, v.data_type, computed=True) for v in views if v and v.dims]
        self.used |= {v for v in operands if isinstance(v, int)}
        self.used |= {i for v in operands if isinstance(v, list) for i in v}
        self.used |= {
            v[1] for v in parameters.values() if isinstance(v, tuple) and v[:1] == ("tensor",)
        }
        self.nodes += 1
        return list(new)

    def attempt(self, work: Callable[[Maker], Any]) -> bool:
        """Do some steps, or none of them where one is refused."""
        before = (len(self.steps), len(self.known), set(self.used), self.nodes)
        if work(self) is not None:
            return True
        steps, known, self.used, self.nodes = before
        self.steps, self.known = self.steps[:steps], self.known[:known]
        return False

    def set_types(self) -> None:
        """Give some intermediate values a type of their own."""
        for i, known in enumerate(self.known):
            if known.computed and known.data_type.is_float and self.rng.random() < 0.1:
                self.change(i, "set_data_type", self.rng.choice(FLOATS))

    def set_outputs(self) -> None:
        """Make outputs of what nobody reads, and of some intermediates; with random strides."""
        for i, known in enumerate(self.known):
            if not known.computed or (i in self.used and self.rng.random() > 0.15):
                continue
            self.change(i, "set_output")
            if self.rng.random() < 0.4:
                self.change(i, "set_stride", self.layout(known.dims, output=True))

    def change(self, tensor: int, method: str, *values: Any) -> None:
        """Call a setter of a tensor, unless the graph refuses it."""

        def step(_: Graph, tensors: list[Tensor]) -> list[Tensor]:
            getattr(tensors[tensor], method)(*values)
            return []

        self.steps.append(step)
        graph, tensors = self.replay()
        found = resolve(graph)
        if any(p.rule != "GRAPH-02" for p in found.problems):
            self.steps.pop()
            return
        view, before = found.views[id(tensors[tensor])], self.known[tensor]
        self.known[tensor] = Known(before.dims, view.data_type, computed=before.computed)
