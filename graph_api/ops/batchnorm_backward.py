# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradients of batch normalisation in training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from ..dtypes import DataType
from ..tensor import Tensor
from .base import Axis, Follows, Inferred, Match, OpSink, Port, Ports, results, variadic
from .channel_norms import PEER_STATS, ChannelNorm, rules
from .fields import Absent, Field, inputs, outputs

__all__ = [
    "DEFAULT_EPSILON",
    "BatchnormBackward",
    "BatchnormGradients",
    "batchnorm_backward",
]

DEFAULT_EPSILON = 1e-5
"""Added to the variance when the statistics are computed from x: the op has no field for it.

hipDNN leaves it to the provider; this is the usual default of batch normalisation (PyTorch's, too).
"""


@dataclass(frozen=True, kw_only=True)
class BatchnormBackward(ChannelNorm):
    """Gradients for x, scale and bias from the gradient for y."""

    NAME: ClassVar[str] = "batchnorm_backward"
    INPUTS: ClassVar[tuple[Port, ...]] = (
        Port("dy"),
        Port("x"),
        Port("mean", optional=True),
        Port("inv_variance", optional=True),
        Port("scale"),
        Port("peer_stats", variadic=True),
    )
    OUTPUTS: ClassVar[tuple[Port, ...]] = (Port("dx"), Port("dscale"), Port("dbias"))
    LIKE: ClassVar[Mapping[str, str]] = {"dx": "x"}
    PER_CHANNEL: ClassVar[tuple[str, ...]] = ("mean", "inv_variance", "scale")
    RULES: ClassVar[Mapping[str, str]] = rules(1, 2, 7, 8, 9, 10)
    TYPE_NAME: ClassVar[str] = "BatchnormBackwardAttributes"
    WIRE_CODE: ClassVar[int | None] = 3
    MATCH: ClassVar[Match | None] = Match(
        priority=40, ports=("dy", "x", "scale", "mean", "inv_variance")
    )
    FIELDS: ClassVar[tuple[Field, ...]] = (
        *inputs("dy", "x"),
        *inputs("mean", "inv_variance", absent=Absent.NULL),
        *inputs("scale"),
        PEER_STATS,
        *outputs("dx", "dscale", "dbias"),
    )

    def infer(self, t: Ports) -> Mapping[str, Inferred]:
        each = Inferred(dims=self.channels(t))
        return {"dx": Inferred(dims=t.dims("x")), "dscale": each, "dbias": each}

    def follows(self, at: Axis) -> Follows:
        channels = (at.axis, at.rank) == (1, len(at.dims["x"]))
        return at.to() if channels else "statistics are over it"


@results
class BatchnormGradients(NamedTuple):
    """Results of ``Graph.batchnorm_backward``."""

    dx: Tensor
    dscale: Tensor
    dbias: Tensor


def batchnorm_backward(
    graph: OpSink,
    dy: Tensor,
    x: Tensor,
    scale: Tensor,
    *,
    mean: Tensor | None = None,
    inv_variance: Tensor | None = None,
    peer_stats: Sequence[Tensor] = (),
    compute_data_type: DataType | str = DataType.UNSET,
    name: str = "",
) -> BatchnormGradients:
    """Differentiate batch normalisation in training.

    With ``x̂ = (x - mean) · inv_variance`` and sums and averages over N and all spatial dims:
    ``dbias = Σ dy``, ``dscale = Σ dy · x̂`` and
    ``dx = scale · inv_variance · (dy - avg(dy) - x̂ · avg(dy · x̂))``.

    Parameters
    ----------
    dy : Tensor
        Gradient for y, x's dims.
    x : Tensor
        What was normalised: dims (N, C, ...), rank 2 to 5, any dense layout.
    scale : Tensor
        Dims (1, C, 1, ...).
    mean, inv_variance : Tensor, optional
        Statistics that ``Graph.batchnorm`` returned, dims (1, C, 1, ...).  Without them they are
        computed from x, with 1e-5 as epsilon (the op has no field for it; if another one was
        used in the forward pass, pass the statistics).
    peer_stats : sequence of Tensor
        Statistics of other devices; no engine here serves them (BN-07).
    compute_data_type : DataType or str
        Type of the sums and of the arithmetic; the graph's when unset.
    name : str
        Label of the node.

    Returns
    -------
    BatchnormGradients
        dx in x's layout; dscale and dbias with dims (1, C, 1, ...).

    Raises
    ------
    GraphError
        At ``validate`` for broken rules (BN-…).
    """
    saved = {"mean": mean, "inv_variance": inv_variance}
    found = graph.add_node(
        BatchnormBackward(),
        {
            "dy": dy,
            "x": x,
            **{port: value for port, value in saved.items() if value is not None},
            "scale": scale,
            **variadic("peer_stats", peer_stats),
        },
        compute=compute_data_type,
        name=name,
    )
    return BatchnormGradients(found["dx"], found["dscale"], found["dbias"])
