"""Batch normalisation in training."""

# mypy: disable-error-code="no-any-return"
# (NumPy types arithmetic on arrays of any element type as Any.)

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...graph_api.dtypes import DataType
from ...graph_api.graph import Graph
from ...graph_api.layout import channels_last_strides
from ...graph_api.ops.batchnorm import Batchnorm
from ...graph_api.tensor import Tensor
from .base import Arrays, Context, Reference, Sample, sampler
from .building import sample_graph
from .channel_norms import domain, normalised, one, per_channel, samples_of, statistics
from .running import Running, running

__all__ = ["REFERENCE", "sample_problems"]


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


def _statistics_out(r: tuple[Tensor | None, ...], kind: DataType | str) -> None:
    names = ("mean", "inv_variance", "next_running_mean", "next_running_variance")
    for tensor, name in zip(r, names, strict=True):
        if tensor is not None:
            tensor.set_output().set_name(name)
            if kind:
                tensor.set_data_type(kind)


def _build(g: Graph, x: Tensor, strides: Sequence[int] | None, kind: DataType | str) -> None:
    assert x.dims is not None
    scale, bias = (per_channel(g, x.dims, name, kind) for name in ("scale", "bias"))
    r = g.batchnorm(
        x,
        scale,
        bias,
        epsilon=1e-3,
        prev_running_mean=per_channel(g, x.dims, "prev_running_mean", kind),
        prev_running_variance=per_channel(g, x.dims, "prev_running_variance", kind),
        momentum=0.25,
    )
    g.output(r.y, name="y")
    if strides is not None:
        r.y.set_stride(strides)
    _statistics_out(r[1:], kind)


def _only_y(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    dims = (4, 6, 5, 5)
    r = g.batchnorm(g.tensor(dims=dims), per_channel(g, dims, "s"), per_channel(g, dims, "b"))
    g.output(g.relu(r.y), name="y")
    return g


def _saved_only(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    dims = (4, 6, 5, 5)
    p = per_channel(g, dims, "both")
    x = g.tensor(dims=dims, strides=channels_last_strides(dims))
    r = g.batchnorm(x, p, p, epsilon=1e-2)
    _statistics_out((r.mean, r.inv_variance, None, None), "")
    return g


def _one_running(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    dims = (3, 4, 9)
    r = g.batchnorm(
        g.tensor(dims=dims),
        per_channel(g, dims, "s"),
        per_channel(g, dims, "b"),
        epsilon=g.tensor(dims=(1,), name="epsilon"),
        prev_running_variance=per_channel(g, dims, "v"),
        momentum=g.tensor(dims=(1, 1, 1, 1), name="momentum"),
    )
    assert r.next_running_variance is not None
    r.y.set_output()
    r.next_running_variance.set_output()
    return g


def _conv_relu(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    dims = (2, 8, 6, 6)
    x = g.conv_fprop(g.tensor(dims=(2, 4, 6, 6)), g.tensor(dims=(8, 4, 3, 3)), padding=1)
    r = g.batchnorm(x, per_channel(g, dims, "s"), per_channel(g, dims, "b"), epsilon=1e-2)
    g.output(g.relu(r.y), name="y")
    _statistics_out((r.mean, r.inv_variance, None, None), "float")
    return g


def sample_problems() -> tuple[Sample, ...]:
    """Return the sample problems of training."""
    sample = sampler("batchnorm")
    more = {
        "only_y": (_only_y, "chain"),
        "saved_only": (_saved_only, "nhwc alias"),
        "one_running": (_one_running, ""),
        "conv_relu": (_conv_relu, "chain mixed"),
    }
    return (*samples_of("batchnorm", _build), *(sample(n, b, t) for n, (b, t) in more.items()))


REFERENCE = Reference(evaluate=evaluate, bound=bound, domain=domain, samples=sample_problems)
