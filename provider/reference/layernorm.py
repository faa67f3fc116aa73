# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layer normalisation."""

from __future__ import annotations

import numpy as np

from ...graph_api.ops.layernorm import Layernorm
from .base import Arrays, Context, Reference
from .convert import Array
from .row_norms import Row, affine, domain, inverse, product, widened

__all__ = ["REFERENCE", "normalised"]


def evaluate(op: Layernorm, inputs: Arrays, ctx: Context) -> Arrays:
    row, x = Row.of(ctx, op.normalized_dim_count), inputs["x"]
    mean = x.mean(axis=row.axes, keepdims=True)
    deviation = np.sqrt(x.var(axis=row.axes, keepdims=True) + inputs["epsilon"].reshape(()))
    y = (x - mean) / deviation * widened(inputs, "scale", ctx) + widened(inputs, "bias", ctx)
    found = {"y": y, "mean": mean, "inv_variance": 1 / deviation}
    return {port: found[port] for port in ctx.outputs}


def normalised(
    inputs: Arrays, errors: Arrays, row: Row
) -> tuple[tuple[Array, Array], tuple[Array, Array], tuple[Array, Array]]:
    """Return mean, 1/σ and x̂ with their errors, for the variance taken from x - mean.

    That all elements are off by the same amount, as the mean is, counts only squared in the
    variance: Σ(x - mean) is 0.
    """
    x, u = inputs["x"], row.unit
    ex = np.broadcast_to(errors["x"], x.shape)
    epsilon, off = inputs["epsilon"].reshape(()), errors["epsilon"].reshape(-1)[:1].sum()
    mean = row.mean(x)
    emean = row.mean(ex) + row.summed(np.abs(x) + ex)
    d = x - mean
    own = ex + u * (np.abs(d) + ex + emean) + row.tiny
    square = row.mean(np.square(d))
    esquare = row.mean(2 * np.abs(d) * own + np.square(own + emean))
    esquare = esquare + row.summed(np.square(np.abs(d) + own + emean))
    inv = 1 / np.sqrt(square + epsilon)
    einv = inverse(square, esquare, epsilon, off, row)
    h = d * inv
    eh = product(d, own + emean, inv, einv)
    return (mean, emean), (inv, einv), (h, eh + u * (np.abs(h) + eh) + row.tiny)


def bound(op: Layernorm, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context) -> Arrays:
    row = Row.of(ctx, op.normalized_dim_count)
    (_, emean), (_, einv), (h, eh) = normalised(inputs, errors, row)
    y = affine(h, eh, inputs, errors, ctx, row)
    found = {"y": y, "mean": emean, "inv_variance": einv}
    return {port: found[port] for port in outputs}


REFERENCE = Reference(evaluate=evaluate, bound=bound, domain=domain)
