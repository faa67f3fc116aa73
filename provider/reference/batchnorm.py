# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Batch normalisation in training."""

from __future__ import annotations

import numpy as np

from ...graph_api.ops.batchnorm import Batchnorm
from ...graph_api.ops.channel_norms import of_one_device
from .base import Arrays, Context, Reference
from .channel_norms import domain, normalised, one, statistics
from .running import Running, running

__all__ = ["REFERENCE"]


def evaluate(op: Batchnorm, inputs: Arrays, ctx: Context) -> Arrays:
    x = inputs["x"]
    rows = np.ascontiguousarray(np.moveaxis(x, 1, 0)).reshape(x.shape[1], -1)
    per_channel = (1, x.shape[1], *(1 for _ in x.shape[2:]))
    n = rows.shape[1]
    mean = rows.mean(1).reshape(per_channel)
    variance = rows.var(1).reshape(per_channel)
    deviation = np.sqrt(variance + one(inputs["epsilon"]))
    results = {
        "y": (x - mean) / deviation * inputs["scale"] + inputs["bias"],
        "mean": mean,
        "inv_variance": 1 / deviation,
    }
    current = {"mean": mean, "variance": rows.var(1, ddof=min(1, n - 1)).reshape(per_channel)}
    for what, value in current.items():
        if f"next_running_{what}" in ctx.outputs:
            previous = inputs[f"prev_running_{what}"]
            step = one(inputs["momentum"]) * (value - previous)
            results[f"next_running_{what}"] = previous + step
    return {port: results[port] for port in ctx.outputs}


def bound(op: Batchnorm, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context) -> Arrays:
    v = running(inputs, errors, ctx)
    mean, variance, centred = statistics(v["x"])
    inverse = (variance + _one(v["epsilon"])).inverse_root()
    results = {
        "y": normalised(centred, inverse, v["scale"], v["bias"]),
        "mean": mean,
        "inv_variance": inverse,
    }
    n = centred.value.size // centred.value.shape[1]
    unbiased = variance.scaled(n / (n - 1)) if n > 1 else variance
    for what, current in (("mean", mean), ("variance", unbiased)):
        if f"next_running_{what}" in ctx.outputs:
            previous, momentum = v[f"prev_running_{what}"], _one(v["momentum"])
            all_of_it = Running(np.ones(1), np.zeros(1), ctx)
            blended = (all_of_it - momentum) * previous + momentum * current
            results[f"next_running_{what}"] = blended
    return {port: results[port].error for port in ctx.outputs}


def _one(x: Running) -> Running:
    return Running(one(x.value), one(x.error), x.ctx)


REFERENCE = Reference(evaluate=evaluate, bound=bound, domain=domain, declines=of_one_device)
