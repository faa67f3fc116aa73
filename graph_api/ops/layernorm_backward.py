# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradient of the layer normalisation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

from .. import arguments
from ..dtypes import DataType
from ..errors import Problem
from ..tensor import Scalar, Tensor
from .base import Axis, Follows, Inferred, Op, OpSink, Port, Ports, results
from .fields import Absent, Field, Kind, inputs, outputs
from .row_norms import (
    ROWNORM_RULES,
    check_dy,
    check_parameters,
    check_saved,
    rows_follow,
    shortest_count,
)

_OPTIONAL = ("mean", "inv_variance", "epsilon")


@dataclass(frozen=True, kw_only=True)
class LayernormBackward(Op):
    """dx, dscale and dbias of y = (x - mean) · inv_variance · scale + bias.

    Attributes
    ----------
    normalized_dim_count : int
        How many trailing dims are normalised; 0: those that scale spans.
    """

    normalized_dim_count: int = 0

    NAME: ClassVar[str] = "layernorm_backward"
    INPUTS: ClassVar[tuple[Port, ...]] = (
        Port("dy"),
        Port("x"),
        Port("scale"),
        *(Port(n, optional=True) for n in _OPTIONAL),
    )
    OUTPUTS: ClassVar[tuple[Port, ...]] = (Port("dx"), Port("dscale"), Port("dbias"))
    LIKE: ClassVar[Mapping[str, str]] = {"dx": "x", "dscale": "scale", "dbias": "scale"}
    RULES: ClassVar[Mapping[str, str]] = ROWNORM_RULES
    TYPE_NAME: ClassVar[str] = "LayernormBackwardAttributes"
    WIRE_CODE: ClassVar[int | None] = 20
    FIELDS: ClassVar[tuple[Field, ...]] = (
        *inputs("dy", "x", "scale"),
        *inputs(*_OPTIONAL, absent=Absent.NULL),
        *outputs("dx", "dscale", "dbias"),
        Field(name="normalized_dim_count", kind=Kind.INT, default=0),
    )

    def check(self, t: Ports) -> Iterator[Problem]:
        yield from check_dy(t)
        yield from check_saved(t)
        saved = [p for p in ("mean", "inv_variance") if p in t]
        yield from check_parameters(t, count=self.normalized_dim_count, saved=saved)

    def infer(self, t: Ports) -> Mapping[str, Inferred]:
        scale = Inferred(dims=t.dims("scale"))
        return {"dx": Inferred(dims=t.dims("x")), "dscale": scale, "dbias": scale}

    def settle(self, t: Ports) -> Self:
        count = shortest_count(t.dims("x"), t.dims("scale"), self.normalized_dim_count)
        return replace(self, normalized_dim_count=count)

    def follows(self, at: Axis) -> Follows:
        return rows_follow(at, self.normalized_dim_count)


@results
class LayernormBackwardResult(NamedTuple):
    """Results of ``Graph.layernorm_backward``."""

    dx: Tensor
    dscale: Tensor
    dbias: Tensor


def layernorm_backward(
    graph: OpSink,
    dy: Tensor,
    x: Tensor,
    scale: Tensor | Scalar,
    *,
    mean: Tensor | None = None,
    inv_variance: Tensor | None = None,
    epsilon: Tensor | Scalar | None = None,
    normalized_dim_count: int = 0,
    compute_data_type: DataType | str = DataType.UNSET,
    name: str = "",
) -> LayernormBackwardResult:
    """Return the gradients of ``layernorm``.

    With x̂ = (x - mean) · inv_variance and g = dy · scale, averages over the normalised dims:
    dx = inv_variance · (g - avg(g) - x̂ · avg(g · x̂)); dscale = Σ dy · x̂ and dbias = Σ dy over
    all dims that scale does not span.

    Parameters
    ----------
    dy : Tensor
        Gradient of y, x's dims, any dense layout.
    x : Tensor
        What was normalised.
    scale : Tensor or number
        As in ``layernorm``.
    mean, inv_variance : Tensor, optional
        What ``layernorm`` saved, x's dims with 1 where it is normalised; both or neither.
    epsilon : Tensor or number, optional
        Needed without saved statistics, not used with them.
    normalized_dim_count : int
        As in ``layernorm``.
    compute_data_type : DataType or str
        Floating type to compute in; the graph's when unset.
    name : str
        Label of the node.

    Returns
    -------
    LayernormBackwardResult
        dx, x's dims, in the layout of ``x``; dscale and dbias, scale's dims.

    Raises
    ------
    GraphError
        At once for an argument of the wrong type; at ``validate`` for broken rules (ROWNORM-…).
    """
    node = arguments.label(name, LayernormBackward.NAME)
    count = arguments.integer(normalized_dim_count, port="normalized_dim_count", node=node)
    optional = {"mean": mean, "inv_variance": inv_variance, "epsilon": epsilon}
    given = {port: value for port, value in optional.items() if value is not None}
    results = graph.add_node(
        LayernormBackward(normalized_dim_count=count or 0),
        {"dy": dy, "x": x, "scale": scale, **given},
        compute=compute_data_type,
        name=name,
    )
    return LayernormBackwardResult(**results)
