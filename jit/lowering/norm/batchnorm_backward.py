# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradients of batch normalisation, from two sums per channel."""

from __future__ import annotations

from collections.abc import Mapping

from ....graph_api.frozen import FrozenNode
from ....graph_api.ops.batchnorm_backward import DEFAULT_EPSILON
from ...emit.builder import Builder, Value
from .channel_norms import converted, count, inverse_deviation, statistics, total

__all__ = ["lower"]


def lower(b: Builder, node: FrozenNode, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Emit dx, dscale and dbias."""
    v = converted(b, inputs, node.compute_data_type)
    x, dy = v["x"], v["dy"]
    if "mean" in v:
        centred, inverse = b.sub(x, v["mean"]), v["inv_variance"]
    else:
        found = statistics(b, x)
        epsilon = b.literal(DEFAULT_EPSILON, x.dtype)
        centred, inverse = found.centred, inverse_deviation(b, found.variance, epsilon)
    dbias = total(b, dy)
    dscale = b.mul(total(b, b.mul(dy, centred)), inverse)
    share = 1 / count(x)
    kept = b.sub(dy, b.scale(dbias, share))
    along = b.mul(centred, b.mul(inverse, b.scale(dscale, share)))
    dx = b.mul(b.sub(kept, along), b.mul(inverse, v["scale"]))
    return {"dx": dx, "dscale": dscale, "dbias": dbias}
