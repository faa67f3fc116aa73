# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradient of the normalisation by the root mean square."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from .. import arguments
from ..dtypes import DataType
from ..errors import Problem
from ..tensor import Tensor
from .base import Axis, Follows, Inferred, Match, Op, OpSink, Port, Ports, results
from .fields import Absent, Field, inputs, outputs
from .row_norms import (
    ROWNORM_RULES,
    check_dy,
    check_parameters,
    rows_follow,
)


@dataclass(frozen=True, kw_only=True)
class RmsnormBackward(Op):
    """dx, dscale (and dbias) of y = x · inv_rms · scale (+ bias)."""

    NAME: ClassVar[str] = "rmsnorm_backward"
    INPUTS: ClassVar[tuple[Port, ...]] = tuple(map(Port, ("dy", "x", "scale", "inv_rms")))
    OUTPUTS: ClassVar[tuple[Port, ...]] = (
        Port("dx"),
        Port("dscale"),
        Port("dbias", optional=True),
    )
    LIKE: ClassVar[Mapping[str, str]] = {"dx": "x", "dscale": "scale", "dbias": "scale"}
    RULES: ClassVar[Mapping[str, str]] = ROWNORM_RULES
    TYPE_NAME: ClassVar[str] = "RMSNormBackwardAttributes"
    WIRE_CODE: ClassVar[int | None] = 17
    MATCH: ClassVar[Match | None] = Match(priority=30)
    FIELDS: ClassVar[tuple[Field, ...]] = (
        *inputs("dy", "x", "scale", "inv_rms"),
        *outputs("dx", "dscale"),
        *outputs("dbias", absent=Absent.OMITTED),
    )

    def check(self, t: Ports) -> Iterator[Problem]:
        yield from check_dy(t)
        yield from check_parameters(t, saved=("inv_rms",))

    def infer(self, t: Ports) -> Mapping[str, Inferred]:
        scale = Inferred(dims=t.dims("scale"))
        found = {"dx": Inferred(dims=t.dims("x")), "dscale": scale, "dbias": scale}
        return {port: value for port, value in found.items() if port in t}

    def follows(self, at: Axis) -> Follows:
        return rows_follow(at)


@results
class RmsnormBackwardResult(NamedTuple):
    """Results of ``Graph.rmsnorm_backward``; dbias is None unless asked for."""

    dx: Tensor
    dscale: Tensor
    dbias: Tensor | None


def rmsnorm_backward(
    graph: OpSink,
    dy: Tensor,
    x: Tensor,
    scale: Tensor,
    inv_rms: Tensor,
    *,
    has_dbias: bool = False,
    compute_data_type: DataType | str = DataType.UNSET,
    name: str = "",
) -> RmsnormBackwardResult:
    """Return the gradients of ``rmsnorm``.

    With x̂ = x · inv_rms and g = dy · scale, averages over the normalised dims:
    dx = inv_rms · (g - x̂ · avg(g · x̂)); dscale = Σ dy · x̂ and dbias = Σ dy over all dims that
    scale does not span.

    Parameters
    ----------
    dy : Tensor
        Gradient of y, x's dims, any dense layout.
    x : Tensor
        What was normalised.
    scale : Tensor
        As in ``rmsnorm``.
    inv_rms : Tensor
        What ``rmsnorm`` saved, x's dims with 1 where it is normalised.
    has_dbias : bool
        Also return the gradient of the bias.
    compute_data_type : DataType or str
        Floating type to compute in; the graph's when unset.
    name : str
        Label of the node.

    Returns
    -------
    RmsnormBackwardResult
        dx, x's dims, in the layout of ``x``; dscale and dbias (None unless asked for), scale's
        dims.

    Raises
    ------
    GraphError
        At once for an argument of the wrong type; at ``validate`` for broken rules (ROWNORM-…).
    """
    node = arguments.label(name, RmsnormBackward.NAME)
    with_bias = arguments.flag(has_dbias, port="has_dbias", node=node)
    results = graph.add_node(
        RmsnormBackward(),
        {"dy": dy, "x": x, "scale": scale, "inv_rms": inv_rms},
        outputs=("dx", "dscale", "dbias") if with_bias else ("dx", "dscale"),
        compute=compute_data_type,
        name=name,
    )
    return RmsnormBackwardResult(results["dx"], results["dscale"], results.get("dbias"))
