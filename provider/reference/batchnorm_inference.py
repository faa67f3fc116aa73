# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Batch normalisation with given mean and inverse standard deviation."""

from __future__ import annotations

from ...graph_api.ops.batchnorm_inference import BatchnormInference
from .base import Arrays, Context, Reference
from .channel_norms import domain, normalised
from .running import running

__all__ = ["REFERENCE"]


def evaluate(op: BatchnormInference, inputs: Arrays, ctx: Context) -> Arrays:
    x, mean, inverse, scale, bias = (inputs[p.name] for p in op.INPUTS)
    return {"y": (x - mean) * inverse * scale + bias}


def bound(
    op: BatchnormInference, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context
) -> Arrays:
    v = running(inputs, errors, ctx)
    y = normalised(v["x"] - v["mean"], v["inv_variance"], v["scale"], v["bias"])
    return {"y": y.error}


REFERENCE = Reference(evaluate=evaluate, bound=bound, domain=domain)
