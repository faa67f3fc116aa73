# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Batch normalisation with given mean and variance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from ..dtypes import DataType
from ..tensor import Scalar, Tensor
from .base import Axis, Follows, Inferred, Match, OpSink, Port, Ports
from .channel_norms import ChannelNorm, rules
from .fields import Field, inputs, outputs


@dataclass(frozen=True, kw_only=True)
class BatchnormInferenceVarianceExt(ChannelNorm):
    """y = scale · (x - mean) / sqrt(variance + epsilon) + bias."""

    NAME: ClassVar[str] = "batchnorm_inference_variance_ext"
    INPUTS: ClassVar[tuple[Port, ...]] = (
        Port("x"),
        Port("mean"),
        Port("variance"),
        Port("scale"),
        Port("bias"),
        Port("epsilon"),
    )
    OUTPUTS: ClassVar[tuple[Port, ...]] = (Port("y"),)
    LIKE: ClassVar[Mapping[str, str]] = {"y": "x"}
    PER_CHANNEL: ClassVar[tuple[str, ...]] = ("mean", "variance", "scale", "bias")
    RULES: ClassVar[Mapping[str, str]] = rules(1, 2, 3, 4, 10)
    TYPE_NAME: ClassVar[str] = "BatchnormInferenceAttributesVarianceExt"
    WIRE_CODE: ClassVar[int | None] = 8
    MATCH: ClassVar[Match | None] = Match(priority=40)
    FIELDS: ClassVar[tuple[Field, ...]] = (
        *inputs("x", "mean", "variance", "scale", "bias"),
        *outputs("y"),
        *inputs("epsilon"),
    )

    def infer(self, t: Ports) -> Mapping[str, Inferred]:
        return {"y": Inferred(dims=t.dims("x"))}

    def follows(self, at: Axis) -> Follows:
        aligned = at.rank == len(at.dims["y"])
        return at.to() if aligned else "dims are not aligned with x's"


def batchnorm_inference_variance_ext(
    graph: OpSink,
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    scale: Tensor,
    bias: Tensor,
    epsilon: Tensor | Scalar = 1e-5,
    *,
    compute_data_type: DataType | str = DataType.UNSET,
    name: str = "",
) -> Tensor:
    """Normalise each channel: ``y = scale · (x - mean) / sqrt(variance + epsilon) + bias``.

    Parameters
    ----------
    x : Tensor
        Dims (N, C, ...), rank 2 to 5, any dense layout.
    mean, variance : Tensor
        Statistics with dims (1, C, 1, ...), such as the running ones of training.
    scale, bias : Tensor
        Dims (1, C, 1, ...), any float type.
    epsilon : Tensor or number
        One element, added to the variance.
    compute_data_type : DataType or str
        Type to compute in; the graph's when unset.
    name : str
        Label of the node.

    Returns
    -------
    Tensor
        y, x's dims, in the layout of ``x`` unless strides are set.

    Raises
    ------
    GraphError
        At once for an operand of the wrong type; at ``validate`` for broken rules (BN-…).
    """
    inputs: dict[str, Tensor | Scalar] = {
        "x": x,
        "mean": mean,
        "variance": variance,
        "scale": scale,
        "bias": bias,
        "epsilon": epsilon,
    }
    op = BatchnormInferenceVarianceExt()
    return graph.add_node(op, inputs, compute=compute_data_type, name=name)["y"]
