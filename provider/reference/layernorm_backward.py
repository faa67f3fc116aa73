# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradient of the layer normalisation."""

from __future__ import annotations

import numpy as np

from ...graph_api.ops.layernorm_backward import LayernormBackward
from .base import Arrays, Context, Reference
from .convert import Array
from .layernorm import normalised
from .row_norms import Row, domain, gradient_bounds, gradient_sums, product, widened

__all__ = ["REFERENCE"]


def evaluate(op: LayernormBackward, inputs: Arrays, ctx: Context) -> Arrays:
    row, x = Row.of(ctx, op.normalized_dim_count), inputs["x"]
    if "mean" in inputs:
        d, inv = x - inputs["mean"], inputs["inv_variance"]
    else:
        d = x - x.mean(axis=row.axes, keepdims=True)
        inv = (x.var(axis=row.axes, keepdims=True) + inputs["epsilon"].reshape(())) ** -0.5
    g = inputs["dy"] * widened(inputs, "scale", ctx)
    along = (g * d).sum(axis=row.axes, keepdims=True) * inv**2 / row.n
    dx = (g - g.sum(axis=row.axes, keepdims=True) / row.n - d * along) * inv
    return {"dx": dx, **gradient_sums(inputs["dy"], d * inv, ctx)}


def bound(
    op: LayernormBackward, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context
) -> Arrays:
    row = Row.of(ctx, op.normalized_dim_count)
    if "mean" in inputs:
        h, inv = _saved(inputs, errors, row)
    else:
        _, inv, h = normalised(inputs, errors, row)
    return gradient_bounds(inputs, errors, outputs, h, inv, ctx, row, centred=True)


def _saved(
    inputs: Arrays, errors: Arrays, row: Row
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    inv, einv = inputs["inv_variance"], errors["inv_variance"]
    d = inputs["x"] - inputs["mean"]
    ed = errors["x"] + errors["mean"]
    ed = ed + row.unit * (np.abs(d) + ed)
    eh = product(d, ed, inv, einv)
    return (d * inv, eh + row.unit * (np.abs(d * inv) + eh) + row.tiny), (inv, einv)


REFERENCE = Reference(evaluate=evaluate, bound=bound, domain=domain)
