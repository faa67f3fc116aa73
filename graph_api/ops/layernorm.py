# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layer normalisation."""

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
    shortest_count,
    statistics_dims,
)

_STATISTICS = ("mean", "inv_variance")


@dataclass(frozen=True, kw_only=True)
class Layernorm(Op):
    """y = (x - mean) · inv_variance · scale + bias, mean and variance over the normalised dims.

    Attributes
    ----------
    forward_phase : NormFwdPhase
        TRAINING also writes the statistics; ``resolve`` derives NOT_SET from the outputs.
    normalized_dim_count : int
        How many trailing dims are normalised; 0: those that scale spans.
    """

    forward_phase: NormFwdPhase = NormFwdPhase.NOT_SET
    normalized_dim_count: int = 0

    NAME: ClassVar[str] = "layernorm"
    ELSEWHERE: ClassVar[tuple[str, ...]] = ("instance_norm",)
    INPUTS: ClassVar[tuple[Port, ...]] = (
        Port("x"),
        Port("scale"),
        Port("bias"),
        Port("epsilon"),
    )
    OUTPUTS: ClassVar[tuple[Port, ...]] = (
        Port("y"),
        Port("mean", optional=True),
        Port("inv_variance", optional=True),
    )
    LIKE: ClassVar[Mapping[str, str]] = {"y": "x"}
    RULES: ClassVar[Mapping[str, str]] = ROWNORM_RULES
    TYPE_NAME: ClassVar[str] = "LayernormAttributes"
    WIRE_CODE: ClassVar[int | None] = 11
    MATCH: ClassVar[Match | None] = Match(
        priority=30, criteria=(("norm_fwd_phase", "forward_phase"),)
    )
    FIELDS: ClassVar[tuple[Field, ...]] = (
        *inputs("x", "scale", "bias", "epsilon"),
        *outputs("y"),
        Field(name="normalized_dim_count", kind=Kind.INT, default=0),
        *outputs(*_STATISTICS, absent=Absent.NULL),
        Field(
            name="forward_phase",
            kind=Kind.ENUM,
            enum=NormFwdPhase,
            as_code=True,
            default=NormFwdPhase.NOT_SET,
        ),
    )

    def resolve(self, t: Ports) -> Self:
        return replace(self, forward_phase=phase_of(t, self.forward_phase, _STATISTICS))

    def check(self, t: Ports) -> Iterator[Problem]:
        yield from check_parameters(t, count=self.normalized_dim_count, bias=True)
        yield from check_phase(t, self.forward_phase, _STATISTICS)

    def infer(self, t: Ports) -> Mapping[str, Inferred]:
        x = t.dims("x")
        axes = normalised_dims(x, t.dims("scale"), self.normalized_dim_count)
        saved = Inferred(dims=statistics_dims(x, axes))
        return {"y": Inferred(dims=x)} | {p: saved for p in _STATISTICS if p in t}

    def settle(self, t: Ports) -> Self:
        count = shortest_count(t.dims("x"), t.dims("scale"), self.normalized_dim_count)
        return replace(self, normalized_dim_count=count)

    def follows(self, at: Axis) -> Follows:
        return rows_follow(at, self.normalized_dim_count)


@results
class LayernormResult(NamedTuple):
    """Results of ``Graph.layernorm``; the statistics are None unless training."""

    y: Tensor
    mean: Tensor | None
    inv_variance: Tensor | None


def layernorm(
    graph: OpSink,
    x: Tensor,
    scale: Tensor | Scalar,
    bias: Tensor | Scalar,
    *,
    epsilon: Tensor | Scalar = 1e-5,
    forward_phase: NormFwdPhase | str = NormFwdPhase.INFERENCE,
    normalized_dim_count: int = 0,
    compute_data_type: DataType | str = DataType.UNSET,
    name: str = "",
) -> LayernormResult:
    """Normalise over some dims: y = (x - mean) / √(variance + epsilon) · scale + bias.

    The variance is biased (Σ(x - mean)²/n), as in Ba, Kiros and Hinton, "Layer Normalization"
    (2016).  Statistics are computed in the compute type, the variance from x - mean.

    Parameters
    ----------
    x : Tensor
        Any rank and dense layout; floats.
    scale, bias : Tensor or number
        x's extents in the normalised dims, 1 in the others; leading dims may be left out: dims
        (D,), (1, 1, D) and (1, S, D) all suit an x of dims (B, S, D).  A number needs
        ``normalized_dim_count``.
    epsilon : Tensor or number
        Added to the variance; one element.
    forward_phase : NormFwdPhase or str
        TRAINING also returns mean and inv_variance.
    normalized_dim_count : int
        How many trailing dims to normalise; 0: those in which scale's extent is not 1.
    compute_data_type : DataType or str
        Floating type to compute in; the graph's when unset.
    name : str
        Label of the node.

    Returns
    -------
    LayernormResult
        y, x's dims, in the layout of ``x`` unless strides are set; mean and
        inv_variance = 1 / √(variance + epsilon), x's dims with 1 where it is normalised
        (None unless training): a half precision graph does well to set FLOAT for these.

    Raises
    ------
    GraphError
        At once for an argument of the wrong type; at ``validate`` for broken rules (ROWNORM-…).
    """
    node = arguments.label(name, Layernorm.NAME)
    count = arguments.integer(normalized_dim_count, port="normalized_dim_count", node=node)
    phase = arguments.mode(NormFwdPhase, forward_phase, port="forward_phase", node=node)
    op = Layernorm(forward_phase=phase, normalized_dim_count=count or 0)
    training = phase is NormFwdPhase.TRAINING
    results = graph.add_node(
        op,
        {"x": x, "scale": scale, "bias": bias, "epsilon": epsilon},
        outputs=("y", *_STATISTICS) if training else ("y",),
        compute=compute_data_type,
        name=name,
    )
    return LayernormResult(results["y"], results.get("mean"), results.get("inv_variance"))
