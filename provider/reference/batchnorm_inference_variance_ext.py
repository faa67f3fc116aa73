# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Batch normalisation with given mean and variance."""

from __future__ import annotations

import numpy as np

from ...graph_api.ops.batchnorm_inference_variance_ext import BatchnormInferenceVarianceExt
from .base import Arrays, Context, Reference
from .channel_norms import domain, normalised, one
from .running import Running, running

__all__ = ["REFERENCE"]


def evaluate(op: BatchnormInferenceVarianceExt, inputs: Arrays, ctx: Context) -> Arrays:
    deviation = np.sqrt(inputs["variance"] + one(inputs["epsilon"]))
    y = (inputs["x"] - inputs["mean"]) / deviation * inputs["scale"] + inputs["bias"]
    return {"y": y}


def bound(
    op: BatchnormInferenceVarianceExt, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context
) -> Arrays:
    v = running(inputs, errors, ctx)
    epsilon = Running(one(v["epsilon"].value), one(v["epsilon"].error), ctx)
    inverse = (v["variance"] + epsilon).inverse_root()
    return {"y": normalised(v["x"] - v["mean"], inverse, v["scale"], v["bias"]).error}


REFERENCE = Reference(evaluate=evaluate, bound=bound, domain=domain)
