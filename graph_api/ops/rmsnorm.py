# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Normalisation by the root mean square."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

from .. import arguments
from ..dtypes import DataType
from ..enums import NormFwdPhase
from ..errors import Problem
from ..tensor import Scalar, Tensor
from .base import Axis, Follows, Inferred, Match, Op, OpSink, Port, Ports, results
from .fields import Absent, Field, Kind, inputs, outputs
from .row_norms import (
    ROWNORM_RULES,
    check_parameters,
    check_phase,
    normalised_dims,
    phase_of,
    rows_follow,
    statistics_dims,
)

_STATISTICS = ("inv_rms",)


@dataclass(frozen=True, kw_only=True)
class Rmsnorm(Op):
    """y = x · inv_rms · scale (+ bias), the mean square taken over the dims that scale spans.

    Attributes
    ----------
    forward_phase : NormFwdPhase
        TRAINING also writes inv_rms; ``resolve`` derives NOT_SET from the outputs.
    """

    forward_phase: NormFwdPhase = NormFwdPhase.NOT_SET

    NAME: ClassVar[str] = "rmsnorm"
    INPUTS: ClassVar[tuple[Port, ...]] = (
        Port("x"),
        Port("scale"),
        Port("epsilon"),
        Port("bias", optional=True),
    )
    OUTPUTS: ClassVar[tuple[Port, ...]] = (Port("y"), Port("inv_rms", optional=True))
    LIKE: ClassVar[Mapping[str, str]] = {"y": "x"}
    RULES: ClassVar[Mapping[str, str]] = ROWNORM_RULES
    TYPE_NAME: ClassVar[str] = "RMSNormAttributes"
    WIRE_CODE: ClassVar[int | None] = 10
    MATCH: ClassVar[Match | None] = Match(
        priority=30, criteria=(("norm_fwd_phase", "forward_phase"),)
    )
    FIELDS: ClassVar[tuple[Field, ...]] = (
        *inputs("x", "scale", "epsilon"),
        *outputs("y"),
        *inputs("bias", absent=Absent.OMITTED),
        *outputs("inv_rms", absent=Absent.OMITTED),
        Field(name="forward_phase", kind=Kind.ENUM, enum=NormFwdPhase, absent=Absent.OMITTED),
    )

    def resolve(self, t: Ports) -> Self:
        return replace(self, forward_phase=phase_of(t, self.forward_phase, _STATISTICS))

    def check(self, t: Ports) -> Iterator[Problem]:
        yield from check_parameters(t, bias="bias" in t)
        yield from check_phase(t, self.forward_phase, _STATISTICS)

    def infer(self, t: Ports) -> Mapping[str, Inferred]:
        x = t.dims("x")
        saved = Inferred(dims=statistics_dims(x, normalised_dims(x, t.dims("scale"))))
        return {"y": Inferred(dims=x)} | {p: saved for p in _STATISTICS if p in t}

    def follows(self, at: Axis) -> Follows:
        return rows_follow(at)


@results
class RmsnormResult(NamedTuple):
    """Results of ``Graph.rmsnorm``; inv_rms is None unless training."""

    y: Tensor
    inv_rms: Tensor | None


def rmsnorm(
    graph: OpSink,
    x: Tensor,
    scale: Tensor,
    *,
    epsilon: Tensor | Scalar = 1e-5,
    bias: Tensor | Scalar | None = None,
    forward_phase: NormFwdPhase | str = NormFwdPhase.INFERENCE,
    compute_data_type: DataType | str = DataType.UNSET,
    name: str = "",
) -> RmsnormResult:
    """Divide by the root mean square: y = x / √(mean(x²) + epsilon) · scale + bias.

    After Zhang and Sennrich, "Root Mean Square Layer Normalization" (2019); the mean is taken in
    the compute type, over the dims in which scale's extent is not 1.

    Parameters
    ----------
    x : Tensor
        Any rank and dense layout; floats.
    scale : Tensor
        x's extents in the normalised dims, 1 in the others; leading dims may be left out.
    epsilon : Tensor or number
        Added to the mean square; one element.
    bias : Tensor or number, optional
        As scale.
    forward_phase : NormFwdPhase or str
        TRAINING also returns inv_rms.
    compute_data_type : DataType or str
        Floating type to compute in; the graph's when unset.
    name : str
        Label of the node.

    Returns
    -------
    RmsnormResult
        y, x's dims, in the layout of ``x`` unless strides are set; inv_rms, x's dims with 1
        where it is normalised (None unless training).

    Raises
    ------
    GraphError
        At once for an argument of the wrong type; at ``validate`` for broken rules (ROWNORM-…).
    """
    node = arguments.label(name, Rmsnorm.NAME)
    phase = arguments.mode(NormFwdPhase, forward_phase, port="forward_phase", node=node)
    inputs: dict[str, Tensor | Scalar] = {"x": x, "scale": scale, "epsilon": epsilon}
    if bias is not None:
        inputs["bias"] = bias
    results = graph.add_node(
        Rmsnorm(forward_phase=phase),
        inputs,
        outputs=("y", *_STATISTICS) if phase is NormFwdPhase.TRAINING else ("y",),
        compute=compute_data_type,
        name=name,
    )
    return RmsnormResult(results["y"], results.get("inv_rms"))
