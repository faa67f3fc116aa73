# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The same elements with their dims in another order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from .. import arguments
from ..errors import Problem
from ..tensor import Tensor
from .base import Axis, Follows, Inferred, Op, OpSink, Port, Ports
from .fields import Field, Kind, inputs, outputs


@dataclass(frozen=True, kw_only=True)
class Transpose(Op):
    """y's dim i is x's dim ``permutation[i]``."""

    permutation: tuple[int, ...]

    NAME: ClassVar[str] = "transpose"
    ELSEWHERE: ClassVar[tuple[str, ...]] = ("permute",)
    INPUTS: ClassVar[tuple[Port, ...]] = (Port("x"),)
    OUTPUTS: ClassVar[tuple[Port, ...]] = (Port("y"),)
    RULES: ClassVar[Mapping[str, str]] = {
        "TRANSPOSE-01": "permutation names each of x's dims once",
    }
    TYPE_NAME: ClassVar[str] = "TransposeAttributes"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        *inputs("x"),
        *outputs("y"),
        Field(name="permutation", kind=Kind.INTS),
    )

    def computes(self) -> bool:
        return False

    def check(self, t: Ports) -> Iterator[Problem]:
        rank = len(t.dims("x"))
        if sorted(self.permutation) != list(range(rank)):
            wanted = f"each of 0 to {rank - 1} once"
            yield t.problem("TRANSPOSE-01", "permutation", list(self.permutation), wanted)

    def infer(self, t: Ports) -> Mapping[str, Inferred]:
        x = t["x"]
        dims = tuple(t.dims("x")[axis] for axis in self.permutation)
        return {"y": Inferred(dims=dims, data_type=x.data_type)}

    def follows(self, at: Axis) -> Follows:
        return at.to(self.permutation.index(at.axis))


def transpose(graph: OpSink, x: Tensor, permutation: Sequence[int], *, name: str = "") -> Tensor:
    """Reorder the dims of a tensor.

    Parameters
    ----------
    x : Tensor
        Any dims, data type and layout.
    permutation : sequence of int
        y's dim i is x's dim ``permutation[i]``, as in NumPy.
    name : str
        Label of the node.

    Returns
    -------
    Tensor
        y, in x's data type unless another one is set, then converted; contiguous unless strides
        are set.  Fused into what computes with it.

    Raises
    ------
    GraphError
        At once for an argument of the wrong type; at ``validate`` for broken rules (TRANSPOSE-01).
    """
    node = arguments.label(name, Transpose.NAME)
    op = Transpose(permutation=arguments.integers(permutation, port="permutation", node=node))
    return graph.add_node(op, {"x": x}, name=name)["y"]
