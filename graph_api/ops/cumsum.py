# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Running sums along a dim."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from .. import arguments
from ..dtypes import DataType
from ..errors import Problem
from ..tensor import Tensor
from .base import Axis, Follows, Inferred, Op, OpSink, Port, Ports
from .fields import Field, Kind, fields, inputs, outputs


@dataclass(frozen=True, kw_only=True)
class Cumsum(Op):
    """y[i] = x[0] + ... + x[i] along dim ``axis``.

    Attributes
    ----------
    axis : int
        The dim; negative counts from the end.
    exclusive : bool
        Leave x[i] itself out, so that y begins with 0.
    reverse : bool
        Sum from the last element on.
    """

    axis: int
    exclusive: bool = False
    reverse: bool = False

    NAME: ClassVar[str] = "cumsum"
    INPUTS: ClassVar[tuple[Port, ...]] = (Port("x"),)
    OUTPUTS: ClassVar[tuple[Port, ...]] = (Port("y"),)
    LIKE: ClassVar[Mapping[str, str]] = {"y": "x"}
    RULES: ClassVar[Mapping[str, str]] = {"CUMSUM-01": "axis is between -rank and rank - 1"}
    TYPE_NAME: ClassVar[str] = "CumsumAttributes"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        *inputs("x"),
        *outputs("y"),
        Field(name="axis", kind=Kind.INT),
        *fields(Kind.BOOL, "exclusive", "reverse", default=False),
    )

    def check(self, t: Ports) -> Iterator[Problem]:
        rank = len(t.dims("x"))
        if not -rank <= self.axis < rank:
            wanted = f"a dim of rank {rank}: {-rank} to {rank - 1}"
            yield t.problem("CUMSUM-01", "axis", self.axis, wanted)

    def settle(self, t: Ports) -> Self:
        return replace(self, axis=self.axis % len(t.dims("x")))

    def infer(self, t: Ports) -> Mapping[str, Inferred]:
        return {"y": Inferred(dims=t.dims("x"))}

    def follows(self, at: Axis) -> Follows:
        if at.axis != self.axis % at.rank or not self.reverse:
            return at.to()  # entries behind the last one come after all sums
        return "sums begin at its end"


def cumsum(
    graph: OpSink,
    x: Tensor,
    axis: int,
    *,
    exclusive: bool = False,
    reverse: bool = False,
    compute_data_type: DataType | str = DataType.UNSET,
    name: str = "",
) -> Tensor:
    """Add up elements along a dim, and keep each partial sum.

    The definition is that of ONNX's CumSum; hipDNN's graphs have no such node.

    Parameters
    ----------
    x : Tensor
        Numbers of any dims.
    axis : int
        The dim; negative counts from the end.
    exclusive : bool
        Whether a sum leaves out the element of its own position, so that the first is 0.
    reverse : bool
        Whether sums begin at the last element.
    compute_data_type : DataType or str
        Type to add in; the graph's when unset.  Integers wrap.
    name : str
        Label of the node.

    Returns
    -------
    Tensor
        The sums, with x's dims.

    Raises
    ------
    GraphError
        At once for an argument of the wrong type.

    Examples
    --------
    >>> from hipdnn_iree import Graph
    >>> g = Graph(io_data_type="float")
    >>> y = g.cumsum(g.tensor(dims=(4, 6)), axis=-1).set_output()
    >>> g.freeze().tensors[y.uid].dims
    (4, 6)
    """
    node = arguments.label(name, Cumsum.NAME)
    (dim,) = arguments.integers((axis,), port="axis", node=node)
    op = Cumsum(
        axis=dim,
        exclusive=arguments.flag(exclusive, port="exclusive", node=node),
        reverse=arguments.flag(reverse, port="reverse", node=node),
    )
    return graph.add_node(op, {"x": x}, compute=compute_data_type, name=name)["y"]
