# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Batch normalisation with given mean and variance: one elementwise kernel."""

from __future__ import annotations

from collections.abc import Mapping

from ....graph_api.frozen import FrozenNode
from ...emit.builder import Builder, Value
from .channel_norms import converted, inverse_deviation, normalised

__all__ = ["lower"]


def lower(b: Builder, node: FrozenNode, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Emit y = scale · (x - mean) / sqrt(variance + epsilon) + bias."""
    v = converted(b, inputs, node.compute_data_type)
    inverse = inverse_deviation(b, v["variance"], v["epsilon"])
    return {"y": normalised(b, b.sub(v["x"], v["mean"]), inverse, v["scale"], v["bias"])}
