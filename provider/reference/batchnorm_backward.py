# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradients of batch normalisation, by the chain rule through mean and variance."""

from __future__ import annotations

import numpy as np

from ...graph_api.ops.batchnorm_backward import DEFAULT_EPSILON, BatchnormBackward
from ...graph_api.ops.channel_norms import of_one_device
from .base import Arrays, Context, Reference
from .channel_norms import axes, domain, statistics
from .running import Running, running

__all__ = ["REFERENCE"]


def evaluate(op: BatchnormBackward, inputs: Arrays, ctx: Context) -> Arrays:
    x, dy = inputs["x"], inputs["dy"]
    over, n = axes(x), x.size // x.shape[1]
    if "mean" in inputs:
        mean, inverse = inputs["mean"], inputs["inv_variance"]
    else:
        mean = x.mean(over, keepdims=True)
        inverse = 1 / np.sqrt(x.var(over, keepdims=True) + DEFAULT_EPSILON)
    centred = x - mean
    # y = scale · z + bias with z = (x - mean) · (variance + epsilon)^-1/2.
    dz = dy * inputs["scale"]
    dvariance = (dz * centred).sum(over, keepdims=True) * -0.5 * inverse**3
    dmean = -(dz * inverse).sum(over, keepdims=True)
    return {
        "dx": dz * inverse + dvariance * 2 * centred / n + dmean / n,
        "dscale": (dy * (centred * inverse)).sum(over, keepdims=True),
        "dbias": dy.sum(over, keepdims=True),
    }


def bound(
    op: BatchnormBackward, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context
) -> Arrays:
    v = running(inputs, errors, ctx)
    x, dy = v["x"], v["dy"]
    over, n = axes(x.value), x.value.size // x.value.shape[1]
    if "mean" in v:
        centred, inverse = x - v["mean"], v["inv_variance"]
    else:
        _, variance, centred = statistics(x)
        epsilon = Running(np.full(1, DEFAULT_EPSILON), np.full(1, ctx.roundoff * 1e-5), ctx)
        inverse = (variance + epsilon).inverse_root()
    z = centred * inverse
    dbias, dscale = dy.total(over), (dy * z).total(over)
    kept = dy - dbias.scaled(1 / n) - z * dscale.scaled(1 / n)
    dx = kept * (inverse * v["scale"])
    # Engines may multiply in another order: two more roundings of the largest product.
    more = 2 * ctx.roundoff * np.abs(v["scale"].value * inverse.value)
    size = np.abs(dy.value) + (np.abs(dbias.value) + np.abs(z.value * dscale.value)) / n
    return {"dx": dx.error + more * size, "dscale": dscale.error, "dbias": dbias.error}


REFERENCE = Reference(evaluate=evaluate, bound=bound, domain=domain, declines=of_one_device)
