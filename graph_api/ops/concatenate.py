# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensors concatenated along a dim."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from .. import arguments
from ..errors import Problem
from ..tensor import Tensor
from .base import Axis, Follows, Inferred, Op, OpSink, Port, Ports, variadic
from .fields import Field, Kind, outputs


@dataclass(frozen=True, kw_only=True)
class Concatenate(Op):
    """y = the tensors x[0], x[1]... one after the other along dim ``axis``."""

    axis: int

    NAME: ClassVar[str] = "concatenate"
    ELSEWHERE: ClassVar[tuple[str, ...]] = ("cat", "concat")
    INPUTS: ClassVar[tuple[Port, ...]] = (Port("x", variadic=True),)
    OUTPUTS: ClassVar[tuple[Port, ...]] = (Port("y"),)
    LIKE: ClassVar[Mapping[str, str]] = {"y": "x[0]"}
    RULES: ClassVar[Mapping[str, str]] = {
        "CONCAT-01": "there is at least one tensor to join",
        "CONCAT-02": "axis is between -rank and rank - 1",
        "CONCAT-03": "the tensors have the same dims, apart from the axis",
        "CONCAT-04": "the tensors have one data type",
    }
    TYPE_NAME: ClassVar[str] = "ConcatenateAttributes"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field(name="x", spelled="x_tensor_uids", section="inputs", kind=Kind.TENSORS),
        *outputs("y"),
        Field(name="axis", kind=Kind.INT),
    )

    def computes(self) -> bool:
        return False

    def ports(self, t: Ports) -> list[str]:
        """Return the input ports in order."""
        return self.INPUTS[0].connected(t)

    def check(self, t: Ports) -> Iterator[Problem]:
        ports = self.ports(t)
        if not ports:
            yield t.problem("CONCAT-01", "x", "no tensors", "at least one tensor")
            return
        first = t.dims(ports[0])
        rank = len(first)
        if not -rank <= self.axis < rank:
            wanted = f"a dim of rank {rank}: {-rank} to {rank - 1}"
            yield t.problem("CONCAT-02", "axis", self.axis, wanted)
            return
        for port in ports[1:]:
            dims = t.dims(port)
            if len(dims) != rank or self._others(dims) != self._others(first):
                yield t.problem(
                    "CONCAT-03",
                    port,
                    f"dims {list(dims)}",
                    f"dims {list(first)} apart from dim {self.axis % rank}",
                )
            if t[port].data_type is not t[ports[0]].data_type:
                yield t.problem(
                    "CONCAT-04",
                    port,
                    t[port].data_type.json,
                    f"{t[ports[0]].data_type.json}, as {ports[0]}",
                    "cast one of them",
                )

    def _others(self, dims: tuple[int, ...]) -> tuple[int, ...]:
        axis = self.axis % len(dims)
        return dims[:axis] + dims[axis + 1 :]

    def settle(self, t: Ports) -> Self:
        return replace(self, axis=self.axis % len(t.dims("y")))

    def infer(self, t: Ports) -> Mapping[str, Inferred]:
        first = t.dims("x[0]")
        axis = self.axis % len(first)
        extent = sum(t.dims(port)[axis] for port in self.ports(t))
        dims = (*first[:axis], extent, *first[axis + 1 :])
        return {"y": Inferred(dims=dims, data_type=t["x[0]"].data_type)}

    def follows(self, at: Axis) -> Follows:
        return "tensors are concatenated along it" if at.axis == self.axis % at.rank else at.to()


def concatenate(graph: OpSink, x: Sequence[Tensor], axis: int, *, name: str = "") -> Tensor:
    """Concatenate tensors along a dim.

    Parameters
    ----------
    x : sequence of Tensor
        One or more tensors of one data type, with the same dims apart from ``axis``; any layouts.
        A tensor may come several times.
    axis : int
        The dim; a negative one counts from the last.
    name : str
        Label of the node.

    Returns
    -------
    Tensor
        y, in the data type of ``x[0]`` unless another one is set, then converted; in the layout of
        ``x[0]`` unless strides are set.

    Raises
    ------
    GraphError
        At once for an argument of the wrong type; at ``validate`` for broken rules (CONCAT-…).
    """
    node = arguments.label(name, Concatenate.NAME)
    (at,) = arguments.integers((axis,), port="axis", node=node)
    return graph.add_node(Concatenate(axis=at), variadic("x", x), name=name)["y"]
