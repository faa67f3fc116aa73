# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Batch normalisation with given mean and inverse standard deviation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from ..dtypes import DataType
from ..tensor import Tensor
from .base import Axis, Follows, Inferred, Match, OpSink, Port, Ports
from .channel_norms import ChannelNorm, rules
from .fields import Field, inputs, outputs


@dataclass(frozen=True, kw_only=True)
class BatchnormInference(ChannelNorm):
    """y = scale · (x - mean) · inv_variance + bias."""

    NAME: ClassVar[str] = "batchnorm_inference"
    INPUTS: ClassVar[tuple[Port, ...]] = (
        Port("x"),
        Port("mean"),
        Port("inv_variance"),
        Port("scale"),
        Port("bias"),
    )
    OUTPUTS: ClassVar[tuple[Port, ...]] = (Port("y"),)
    LIKE: ClassVar[Mapping[str, str]] = {"y": "x"}
    PER_CHANNEL: ClassVar[tuple[str, ...]] = ("mean", "inv_variance", "scale", "bias")
    RULES: ClassVar[Mapping[str, str]] = rules(1, 2, 10)
    TYPE_NAME: ClassVar[str] = "BatchnormInferenceAttributes"
    WIRE_CODE: ClassVar[int | None] = 1
    MATCH: ClassVar[Match | None] = Match(priority=40)
    FIELDS: ClassVar[tuple[Field, ...]] = (
        *inputs("x", "mean", "inv_variance", "scale", "bias"),
        *outputs("y"),
    )

    def infer(self, t: Ports) -> Mapping[str, Inferred]:
        return {"y": Inferred(dims=t.dims("x"))}

    def follows(self, at: Axis) -> Follows:
        aligned = at.rank == len(at.dims["y"])
        return at.to() if aligned else "dims are not aligned with x's"


def batchnorm_inference(
    graph: OpSink,
    x: Tensor,
    mean: Tensor,
    inv_variance: Tensor,
    scale: Tensor,
    bias: Tensor,
    *,
    compute_data_type: DataType | str = DataType.UNSET,
    name: str = "",
) -> Tensor:
    """Normalise each channel by given statistics: ``y = scale · (x - mean) · inv_variance + bias``.

    Parameters
    ----------
    x : Tensor
        Dims (N, C, ...), rank 2 to 5, any dense layout.
    mean, inv_variance : Tensor
        Dims (1, C, 1, ...); inv_variance is ``1 / sqrt(variance + epsilon)``, whatever its name
        suggests (old hipDNN versions took the variance there).
    scale, bias : Tensor
        Dims (1, C, 1, ...), any float type.
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
        At ``validate`` for broken rules (BN-…).
    """
    inputs = {"x": x, "mean": mean, "inv_variance": inv_variance, "scale": scale, "bias": bias}
    return graph.add_node(BatchnormInference(), inputs, compute=compute_data_type, name=name)["y"]
