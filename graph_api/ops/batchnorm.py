# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Batch normalisation in training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from ..dtypes import DataType
from ..tensor import Scalar, Tensor
from .base import Axis, Follows, Inferred, Match, OpSink, Port, Ports, results, variadic
from .channel_norms import PEER_STATS, ChannelNorm, rules
from .fields import Absent, Field, inputs, outputs

__all__ = ["Batchnorm", "BatchnormResult", "batchnorm"]


@dataclass(frozen=True, kw_only=True)
class Batchnorm(ChannelNorm):
    """y = scale · (x - mean) · inv_variance + bias with the statistics of x itself."""

    NAME: ClassVar[str] = "batchnorm"
    ELSEWHERE: ClassVar[tuple[str, ...]] = ("batch_norm",)
    INPUTS: ClassVar[tuple[Port, ...]] = (
        Port("x"),
        Port("scale"),
        Port("bias"),
        Port("epsilon"),
        Port("peer_stats", variadic=True),
        Port("prev_running_mean", optional=True),
        Port("prev_running_variance", optional=True),
        Port("momentum", optional=True),
    )
    OUTPUTS: ClassVar[tuple[Port, ...]] = (
        Port("y"),
        Port("mean", optional=True),
        Port("inv_variance", optional=True),
        Port("next_running_mean", optional=True),
        Port("next_running_variance", optional=True),
    )
    LIKE: ClassVar[Mapping[str, str]] = {"y": "x"}
    PER_CHANNEL: ClassVar[tuple[str, ...]] = (
        "scale",
        "bias",
        "prev_running_mean",
        "prev_running_variance",
    )
    RULES: ClassVar[Mapping[str, str]] = rules(1, 2, 3, 4, 5, 6, 7, 10)
    TYPE_NAME: ClassVar[str] = "BatchnormAttributes"
    WIRE_CODE: ClassVar[int | None] = 4
    MATCH: ClassVar[Match | None] = Match(priority=40, name="batchnorm_training")
    FIELDS: ClassVar[tuple[Field, ...]] = (
        *inputs("x", "scale", "bias", "epsilon"),
        PEER_STATS,
        *inputs("prev_running_mean", "prev_running_variance", "momentum", absent=Absent.NULL),
        *outputs("y"),
        *outputs("mean", "inv_variance", absent=Absent.NULL),
        *outputs("next_running_mean", "next_running_variance", absent=Absent.NULL),
    )

    def infer(self, t: Ports) -> Mapping[str, Inferred]:
        each = Inferred(dims=self.channels(t))
        return {"y": Inferred(dims=t.dims("x"))} | {p.name: each for p in self.OUTPUTS[1:]}

    def follows(self, at: Axis) -> Follows:
        channels = (at.axis, at.rank) == (1, len(at.dims["x"]))
        return at.to() if channels else "statistics are over it"


@results
class BatchnormResult(NamedTuple):
    """Results of ``Graph.batchnorm``; the running ones are None without previous ones."""

    y: Tensor
    mean: Tensor
    inv_variance: Tensor
    next_running_mean: Tensor | None
    next_running_variance: Tensor | None


def batchnorm(
    graph: OpSink,
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    *,
    epsilon: Tensor | Scalar = 1e-5,
    prev_running_mean: Tensor | None = None,
    prev_running_variance: Tensor | None = None,
    momentum: Tensor | Scalar | None = None,
    peer_stats: Sequence[Tensor] = (),
    compute_data_type: DataType | str = DataType.UNSET,
    name: str = "",
) -> BatchnormResult:
    """Normalise each channel by its own mean and variance (training).

    ``y = scale · (x - mean) / sqrt(variance + epsilon) + bias`` with the mean and the biased
    variance (divided by n) of each channel, over N and all spatial dims.  The running results
    are ``(1 - momentum) · previous + momentum · current``, the current variance being the
    unbiased one (divided by n - 1; for n = 1 the biased one).  Source: hipDNN's description of
    the op, as cuDNN and MIOpen compute it.

    Parameters
    ----------
    x : Tensor
        Dims (N, C, ...), rank 2 to 5, any dense layout.
    scale, bias : Tensor
        Dims (1, C, 1, ...), any float type.
    epsilon : Tensor or number
        One element, added to the variance.
    prev_running_mean, prev_running_variance : Tensor, optional
        Running statistics so far, dims (1, C, 1, ...).
    momentum : Tensor or number, optional
        Weight of the current statistics; needed with running statistics.
    peer_stats : sequence of Tensor
        Statistics of other devices; no engine here serves them (BN-07).
    compute_data_type : DataType or str
        Type of the statistics and of the arithmetic; the graph's when unset.
    name : str
        Label of the node.

    Returns
    -------
    BatchnormResult
        y in x's layout; mean and inv_variance (``1 / sqrt(variance + epsilon)``) with dims
        (1, C, 1, ...), for the backward pass; next_running_mean and next_running_variance, None
        unless the previous one is given.  All are virtual until ``set_output``; a half precision
        graph does well to set FLOAT for the statistics.

    Raises
    ------
    GraphError
        At once for an argument of the wrong type; at ``validate`` for broken rules (BN-…).
    """
    outputs = ["y", "mean", "inv_variance"]
    if prev_running_mean is not None:
        outputs.append("next_running_mean")
    if prev_running_variance is not None:
        outputs.append("next_running_variance")
    running: dict[str, Tensor | Scalar | None] = {
        "prev_running_mean": prev_running_mean,
        "prev_running_variance": prev_running_variance,
        "momentum": momentum,
    }
    found = graph.add_node(
        Batchnorm(),
        {
            "x": x,
            "scale": scale,
            "bias": bias,
            "epsilon": epsilon,
            **variadic("peer_stats", peer_stats),
            **{port: value for port, value in running.items() if value is not None},
        },
        outputs=outputs,
        compute=compute_data_type,
        name=name,
    )
    return BatchnormResult(
        found["y"],
        found["mean"],
        found["inv_variance"],
        found.get("next_running_mean"),
        found.get("next_running_variance"),
    )
