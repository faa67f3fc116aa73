# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Normalisation by the root mean square."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...graph_api.ops.rmsnorm import Rmsnorm
from .base import Arrays, Context, Reference
from .row_norms import Row, affine, domain, inverse, product, widened

__all__ = ["REFERENCE"]


def evaluate(op: Rmsnorm, inputs: Arrays, ctx: Context) -> Arrays:
    row, x = Row.of(ctx), inputs["x"]
    norm = np.sqrt(np.square(x).sum(axis=row.axes, keepdims=True) / row.n + _epsilon(inputs))
    y = x / norm * widened(inputs, "scale", ctx)
    if "bias" in inputs:
        y = y + widened(inputs, "bias", ctx)
    found = {"y": y, "inv_rms": 1 / norm}
    return {port: found[port] for port in ctx.outputs}


def _epsilon(values: Arrays) -> Any:
    return values["epsilon"].reshape(-1)[0]


def bound(op: Rmsnorm, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context) -> Arrays:
    row, x = Row.of(ctx), inputs["x"]
    ex = np.broadcast_to(errors["x"], x.shape)
    square = row.mean(np.square(x))
    esquare = row.mean(product(x, ex, x, ex)) + row.summed(np.square(np.abs(x) + ex))
    einv = inverse(square, esquare, _epsilon(inputs), _epsilon(errors), row)
    inv = 1 / np.sqrt(square + _epsilon(inputs))
    h = x * inv
    eh = product(x, ex, inv, einv)
    eh = eh + row.unit * (np.abs(h) + eh) + row.tiny
    found = {"y": affine(h, eh, inputs, errors, ctx, row), "inv_rms": einv}
    return {port: found[port] for port in outputs}


REFERENCE = Reference(evaluate=evaluate, bound=bound, domain=domain)
