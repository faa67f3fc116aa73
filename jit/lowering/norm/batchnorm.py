# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Batch normalisation in training."""

from __future__ import annotations

from collections.abc import Mapping

from ....graph_api.frozen import FrozenNode
from ...emit.builder import Builder, Value
from .channel_norms import (
    as_images,
    as_rows,
    converted,
    inverse_deviation,
    standardised,
    statistics,
)

__all__ = ["lower"]


def lower(b: Builder, node: FrozenNode, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Emit y, the statistics of x, and the running statistics that are asked for."""
    v = as_rows(b, converted(b, inputs, node.compute_data_type))
    found = statistics(b, v["x"])
    inverse = inverse_deviation(b, found.variance, v["epsilon"])
    results = {
        "y": standardised(b, v["x"], found, inverse, v["scale"], v["bias"]),
        "mean": found.mean,
        "inv_variance": inverse,
    }
    n = found.count
    unbiased = b.scale(found.variance, n / (n - 1)) if n > 1 else found.variance
    for what, current in (("mean", found.mean), ("variance", unbiased)):
        if f"next_running_{what}" in node.outputs:
            previous = v[f"prev_running_{what}"]
            results[f"next_running_{what}"] = _blended(b, previous, current, v["momentum"])
    return as_images(b, results, inputs["x"].shape)


def _blended(b: Builder, previous: Value, current: Value, momentum: Value) -> Value:
    """Return (1 - momentum) · previous + momentum · current."""
    kept = b.sub(b.literal(1, momentum.dtype, momentum.shape), momentum)
    return b.add(b.mul(kept, previous), b.mul(momentum, current))
