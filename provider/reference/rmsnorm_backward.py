# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradient of the normalisation by the root mean square."""

from __future__ import annotations

import numpy as np

from ...graph_api.ops.rmsnorm_backward import RmsnormBackward
from .base import Arrays, Context, Reference
from .row_norms import Row, domain, gradient_bounds, gradient_sums, product, widened

__all__ = ["REFERENCE"]


def evaluate(op: RmsnormBackward, inputs: Arrays, ctx: Context) -> Arrays:
    row, x, inv = Row.of(ctx), inputs["x"], inputs["inv_rms"]
    g = inputs["dy"] * widened(inputs, "scale", ctx)
    along = (g * x).sum(axis=row.axes, keepdims=True) * inv**2 / row.n
    return {"dx": (g - x * along) * inv, **gradient_sums(inputs["dy"], x * inv, ctx)}


def bound(
    op: RmsnormBackward, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context
) -> Arrays:
    row = Row.of(ctx)
    x, inv, einv = inputs["x"], inputs["inv_rms"], errors["inv_rms"]
    eh = product(x, np.broadcast_to(errors["x"], x.shape), inv, einv)
    h = (x * inv, eh + row.unit * (np.abs(x * inv) + eh) + row.tiny)
    return gradient_bounds(inputs, errors, outputs, h, (inv, einv), ctx, row, centred=False)


REFERENCE = Reference(evaluate=evaluate, bound=bound, domain=domain)
