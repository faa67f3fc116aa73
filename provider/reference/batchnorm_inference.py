"""Batch normalisation with given mean and inverse standard deviation."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph_api.dtypes import DataType
from ...graph_api.graph import Graph
from ...graph_api.ops.batchnorm_inference import BatchnormInference
from ...graph_api.tensor import Tensor
from .base import Arrays, Context, Reference, Sample, sampler
from .building import sample_graph
from .channel_norms import domain, normalised, per_channel, samples_of
from .running import running

__all__ = ["REFERENCE", "sample_problems"]


def evaluate(op: BatchnormInference, inputs: Arrays, ctx: Context) -> Arrays:
    x, mean, inverse, scale, bias = (inputs[p.name] for p in op.INPUTS)
    return {"y": (x - mean) * inverse * scale + bias}


def bound(
    op: BatchnormInference, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context
) -> Arrays:
    v = running(inputs, errors, ctx)
    y = normalised(v["x"] - v["mean"], v["inv_variance"], v["scale"], v["bias"])
    return {"y": y.error}


def _build(g: Graph, x: Tensor, strides: Sequence[int] | None, kind: DataType | str) -> None:
    assert x.dims is not None
    names = ("mean", "inv_variance", "scale", "bias")
    parameters = [per_channel(g, x.dims, name, kind) for name in names]
    y = g.output(g.batchnorm_inference(x, *parameters), name="y")
    if strides is not None:
        y.set_stride(strides)


def _same_tensor(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    p = per_channel(g, (2, 5, 3, 4), "all")
    g.batchnorm_inference(g.tensor(dims=(2, 5, 3, 4)), p, p, p, p).set_output()
    return g


def _conv_relu(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    dims = (2, 8, 6, 6)
    x = g.conv_fprop(g.tensor(dims=(2, 4, 6, 6)), g.tensor(dims=(8, 4, 3, 3)), padding=1)
    names = ("mean", "inv_variance", "scale", "bias")
    y = g.batchnorm_inference(x, *(per_channel(g, dims, n) for n in names))
    g.output(g.relu(y), name="y")
    return g


def sample_problems() -> tuple[Sample, ...]:
    """Return the sample problems of inference."""
    sample = sampler("batchnorm_inference")
    return (
        *samples_of("batchnorm_inference", _build),
        sample("same_tensor", _same_tensor, "alias"),
        sample("conv_relu", _conv_relu, "chain"),
    )


REFERENCE = Reference(evaluate=evaluate, bound=bound, domain=domain, samples=sample_problems)
