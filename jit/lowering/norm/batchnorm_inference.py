# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Batch normalisation with given mean and inverse standard deviation: one elementwise kernel."""

from __future__ import annotations

from collections.abc import Mapping

from ....graph_api.frozen import FrozenNode
from ...emit.builder import Builder, Value
from .channel_norms import converted, normalised

__all__ = ["lower"]


def lower(b: Builder, node: FrozenNode, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Emit y = scale · (x - mean) · inv_variance + bias."""
    v = converted(b, inputs, node.compute_data_type)
    centred = b.sub(v["x"], v["mean"])
    return {"y": normalised(b, centred, v["inv_variance"], v["scale"], v["bias"])}
