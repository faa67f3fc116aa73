# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The same elements with other dims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar, Self

from .. import arguments
from ..errors import Problem
from ..tensor import Tensor
from .base import Axis, Follows, Inferred, Op, OpSink, Port, Ports
from .fields import Field, Kind, inputs, outputs

Ints = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Reshape(Op):
    """y = x's elements, in row-major order of the logical dims, under the dims ``dim``.

    Attributes
    ----------
    dim : tuple of int
        y's dims; one may be -1.  ``settle`` writes it out.
    """

    dim: tuple[int, ...] = ()

    NAME: ClassVar[str] = "reshape"
    ELSEWHERE: ClassVar[tuple[str, ...]] = ("flatten", "squeeze", "unsqueeze", "view")
    INPUTS: ClassVar[tuple[Port, ...]] = (Port("x"),)
    OUTPUTS: ClassVar[tuple[Port, ...]] = (Port("y"),)
    RULES: ClassVar[Mapping[str, str]] = {
        "RESHAPE-01": "y's dims are known, from dim or from y",
        "RESHAPE-02": "dim holds extents of at least 1, and at most one -1",
        "RESHAPE-03": "y has as many elements as x",
    }
    TYPE_NAME: ClassVar[str] = "ReshapeAttributes"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        *inputs("x"),
        *outputs("y"),
        Field(name="dim", kind=Kind.INTS, default=()),
    )

    def computes(self) -> bool:
        return False

    def resolve(self, t: Ports) -> Self:
        dim = self.dim or t.given("y") or ()
        rest = prod(d for d in dim if d != -1)
        if dim.count(-1) == 1 and rest > 0 and prod(t.dims("x")) % rest == 0:
            dim = tuple(prod(t.dims("x")) // rest if d == -1 else d for d in dim)
        return replace(self, dim=dim)

    def at(
        self, before: Mapping[str, Ints], after: Mapping[str, Ints]
    ) -> tuple[Self, Mapping[str, Ints]]:
        if -1 in self.dim:
            return self, {}
        # Where x and y split the same elements, y's first dim grows as x does there.
        x, y, new = before["x"], list(before["y"]), after["x"]
        i = j = 0
        while i < len(x) and j < len(y):
            first, start, have, found = i, j, x[i], y[j]
            while have != found:
                if have < found:
                    i += 1
                    have *= x[i]
                else:
                    j += 1
                    found *= y[j]
            y[start] = y[start] * prod(new[first : i + 1]) // have
            i, j = i + 1, j + 1
        # Trailing dims of 1 belong to no group; RESHAPE-03 reports them where they are larger.
        dims = tuple(y)
        return replace(self, dim=dims if self.dim else ()), {"y": dims}

    def check(self, t: Ports) -> Iterator[Problem]:
        if not self.dim:
            hint = "pass dim=(...), or set_dim on the result"
            yield t.problem("RESHAPE-01", "dim", "no dims", "y's dims", hint)
        elif self.dim.count(-1) > 1 or any(d < 1 and d != -1 for d in self.dim):
            yield t.problem(
                "RESHAPE-02", "dim", list(self.dim), "extents of at least 1, and at most one -1"
            )
        elif -1 in self.dim or prod(self.dim) != prod(t.dims("x")):
            elements = prod(t.dims("x"))
            yield t.problem(
                "RESHAPE-03",
                "dim",
                list(self.dim),
                f"{elements} elements, as in x's dims {list(t.dims('x'))}",
                "the same number of elements, or one dim that is -1",
            )

    def infer(self, t: Ports) -> Mapping[str, Inferred]:
        return {"y": Inferred(dims=self.dim, data_type=t["x"].data_type)}

    def follows(self, at: Axis) -> Follows:
        # The same dim of y is one with as many elements before it, and as many behind.
        x, y, name = at.dims["x"], at.dims["y"], at.mark("x", at.axis)
        if any(at.mark("x", axis) for axis in range(at.axis)):
            return "a dynamic dim stands before it"
        for axis in range(len(y)):
            same = at.mark("y", axis) == name and not any(at.mark("y", i) for i in range(axis))
            if same and prod(y[:axis]) == prod(x[: at.axis]):
                return at.to(axis)
        return "it is merged with other dims"


def reshape(graph: OpSink, x: Tensor, dim: Sequence[int] | int = (), *, name: str = "") -> Tensor:
    """Give a tensor's elements other dims.

    Parameters
    ----------
    x : Tensor
        Any dims, data type and layout.
    dim : int or sequence of int, optional
        y's dims; one of them may be -1 and follows from the others.  Without it, set y's dims.
    name : str
        Label of the node.

    Returns
    -------
    Tensor
        y: element i of x is element i of y, counted row by row through the logical dims (the
        last one fastest), whatever the layouts.  In x's data type unless another one is
        set, then converted; contiguous unless strides are set.

    Raises
    ------
    GraphError
        At once for an argument of the wrong type; at ``validate`` for broken rules (RESHAPE-…).
    """
    node = arguments.label(name, Reshape.NAME)
    op = Reshape(dim=arguments.integers(dim, port="dim", node=node))
    return graph.add_node(op, {"x": x}, name=name)["y"]
