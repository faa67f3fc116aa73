"""Batch normalisation with given mean and variance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...graph_api.dtypes import DataType
from ...graph_api.graph import Graph
from ...graph_api.ops.batchnorm_inference_variance_ext import BatchnormInferenceVarianceExt
from ...graph_api.tensor import Tensor
from .base import Arrays, Context, Reference, Sample, sampler
from .building import sample_graph
from .channel_norms import CASES, domain, normalised, one, per_channel, samples_of
from .running import Running, running

__all__ = ["REFERENCE", "sample_problems"]


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


def _build(g: Graph, x: Tensor, strides: Sequence[int] | None, kind: DataType | str) -> None:
    assert x.dims is not None
    names = ("mean", "variance", "scale", "bias")
    mean, variance, scale, bias = (per_channel(g, x.dims, name, kind) for name in names)
    y = g.batchnorm_inference_variance_ext(x, mean, variance, scale, bias, epsilon=1e-3)
    g.output(y, name="y")
    if strides is not None:
        y.set_stride(strides)


def _epsilon_tensor(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    names = ("mean", "variance", "scale", "bias")
    dims = (2, 5, 7)
    mean, variance, scale, bias = (per_channel(g, dims, name) for name in names)
    # Of a higher rank than x, which must not show.
    epsilon = g.tensor(dims=(1, 1, 1, 1), name="epsilon")
    x = g.tensor(dims=dims)
    y = g.batchnorm_inference_variance_ext(x, mean, variance, scale, bias, epsilon)
    g.output(g.relu(y), name="y")
    return g


def sample_problems() -> tuple[Sample, ...]:
    """Return the sample problems of inference by variance; layouts are those of inference."""
    few = [c for c in CASES if c[0] in ("ones", "rank2", "rank4", "rank5", "nhwc", "permuted")]
    return (
        *samples_of("batchnorm_inference_variance_ext", _build, few),
        sampler("batchnorm_inference_variance_ext")("epsilon_tensor", _epsilon_tensor, "chain"),
    )


REFERENCE = Reference(evaluate=evaluate, bound=bound, domain=domain, samples=sample_problems)
