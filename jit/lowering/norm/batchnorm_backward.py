# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradients of batch normalisation, from two sums per channel."""

from __future__ import annotations

from collections.abc import Mapping

from ....graph_api.frozen import FrozenNode
from ....graph_api.ops.batchnorm_backward import DEFAULT_EPSILON
from ...emit.builder import Builder, T, Value
from .channel_norms import (
    as_images,
    as_rows,
    by_rows,
    converted,
    count,
    inverse_deviation,
    statistics,
    total,
    total_of_products,
)

__all__ = ["lower"]


def lower(b: Builder, node: FrozenNode, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Emit dx, dscale and dbias."""
    v = as_rows(b, converted(b, inputs, node.compute_data_type))
    x, dy = v["x"], v["dy"]
    if "mean" in v:
        mean, inverse = v["mean"], v["inv_variance"]
        centred = b.sub(x, mean)
    else:
        found = statistics(b, x)
        epsilon = b.literal(DEFAULT_EPSILON, x.dtype)
        mean, centred = found.mean, found.centred
        inverse = inverse_deviation(b, found.variance, epsilon)
    dbias = total(b, dy)
    if by_rows(b, x):
        # Computed anew, with the other sign: otherwise it would be stored for dx.
        along = b.unary(T.AtenNegOp, total_of_products(b, dy, b.sub(mean, x)))
    else:
        along = total_of_products(b, dy, centred)
    dscale = b.mul(along, inverse)
    share = 1 / count(x)
    kept = b.sub(dy, b.scale(dbias, share))
    shared = b.mul(centred, b.mul(inverse, b.scale(dscale, share)))
    dx = b.mul(b.sub(kept, shared), b.mul(inverse, v["scale"]))
    results = {"dx": dx, "dscale": dscale, "dbias": dbias}
    return as_images(b, results, inputs["x"].shape)
