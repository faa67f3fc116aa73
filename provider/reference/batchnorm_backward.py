"""Gradients of batch normalisation, by the chain rule through mean and variance."""

# mypy: disable-error-code="no-any-return"
# (NumPy types arithmetic on arrays of any element type as Any.)

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...graph_api.dtypes import DataType
from ...graph_api.graph import Graph
from ...graph_api.layout import channels_last_strides
from ...graph_api.ops.batchnorm_backward import DEFAULT_EPSILON, BatchnormBackward
from ...graph_api.tensor import Tensor
from .base import Arrays, Context, Reference, Sample, sampler
from .building import sample_graph
from .channel_norms import CASES, axes, domain, per_channel, samples_of, statistics
from .running import Running, running

__all__ = ["REFERENCE", "sample_problems"]


def evaluate(op: BatchnormBackward, inputs: Arrays, ctx: Context) -> Arrays:
    x, dy = inputs["x"], inputs["dy"]
    over, n = axes(x), x.size // x.shape[1]
    if "mean" in inputs:
        mean, inverse = inputs["mean"], inputs["inv_variance"]
    else:
        mean = x.mean(over, keepdims=True)
        inverse = 1 / np.sqrt(x.var(over, keepdims=True) + DEFAULT_EPSILON)
    centred = x - mean
    # y = scale · z + bias with z = (x - mean) · (variance + epsilon)^-1/2.
    dz = dy * inputs["scale"]
    dvariance = (dz * centred).sum(over, keepdims=True) * -0.5 * inverse**3
    dmean = -(dz * inverse).sum(over, keepdims=True)
    return {
        "dx": dz * inverse + dvariance * 2 * centred / n + dmean / n,
        "dscale": (dy * (centred * inverse)).sum(over, keepdims=True),
        "dbias": dy.sum(over, keepdims=True),
    }


def bound(
    op: BatchnormBackward, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context
) -> Arrays:
    v = running(inputs, errors, ctx)
    x, dy = v["x"], v["dy"]
    over, n = axes(x.value), x.value.size // x.value.shape[1]
    if "mean" in v:
        centred, inverse = x - v["mean"], v["inv_variance"]
    else:
        _, variance, centred = statistics(x)
        epsilon = Running(np.full(1, DEFAULT_EPSILON), np.full(1, ctx.roundoff * 1e-5), ctx)
        inverse = (variance + epsilon).inverse_root()
    z = centred * inverse
    dbias, dscale = dy.total(over), (dy * z).total(over)
    kept = dy - dbias.scaled(1 / n) - z * dscale.scaled(1 / n)
    dx = kept * (inverse * v["scale"])
    # Engines may multiply in another order: two more roundings of the largest product.
    more = 2 * ctx.roundoff * np.abs(v["scale"].value * inverse.value)
    size = np.abs(dy.value) + (np.abs(dbias.value) + np.abs(z.value * dscale.value)) / n
    return {"dx": dx.error + more * size, "dscale": dscale.error, "dbias": dbias.error}


def _gradients(g: Graph, x: Tensor, kind: DataType | str, saved: bool) -> tuple[Tensor, ...]:
    assert x.dims is not None
    dy = g.tensor(dims=x.dims, strides=x.strides, name="dy")
    scale = per_channel(g, x.dims, "scale", kind)
    mean = per_channel(g, x.dims, "mean", kind) if saved else None
    inverse = per_channel(g, x.dims, "inv_variance", kind) if saved else None
    r = g.batchnorm_backward(dy, x, scale, mean=mean, inv_variance=inverse)
    for name, tensor in zip(r._fields, r, strict=True):
        g.output(tensor, name=name)
        if kind and name != "dx":
            tensor.set_data_type(kind)
    return r


def _saved(g: Graph, x: Tensor, strides: Sequence[int] | None, kind: DataType | str) -> None:
    dx = _gradients(g, x, kind, saved=True)[0]
    if strides is not None:
        dx.set_stride(strides)


def _computed(g: Graph, x: Tensor, strides: Sequence[int] | None, kind: DataType | str) -> None:
    dx = _gradients(g, x, kind, saved=False)[0]
    if strides is not None:
        dx.set_stride(strides)


def _mixed_layouts(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    dims = (2, 6, 5, 5)
    last = channels_last_strides(dims)
    x = g.tensor(dims=dims, strides=last)
    dy = g.mul(g.tensor(dims=dims), 0.5)
    r = g.batchnorm_backward(dy, x, per_channel(g, dims, "scale"))
    r.dx.set_output()
    return g


def _same_tensor(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    dims = (2, 6, 5, 5)
    x, p = g.tensor(dims=dims), per_channel(g, dims, "all")
    for tensor in g.batchnorm_backward(x, x, p, mean=p, inv_variance=p):
        tensor.set_output()
    return g


def sample_problems() -> tuple[Sample, ...]:
    """Return the sample problems of the gradients."""
    names = ("rank3", "rank4", "nhwc", "permuted", "broadcast")
    few = [(f"computed_{c[0]}", *c[1:]) for c in CASES if c[0] in names]
    computed = samples_of("batchnorm_backward", _computed, few)[: len(few)]
    sample = sampler("batchnorm_backward")
    more = {
        "mixed_layouts": (_mixed_layouts, "chain nhwc mixed_layout"),
        "same_tensor": (_same_tensor, "alias"),
    }
    return (
        *samples_of("batchnorm_backward", _saved),
        *computed,
        *(sample(n, b, t) for n, (b, t) in more.items()),
    )


REFERENCE = Reference(evaluate=evaluate, bound=bound, domain=domain, samples=sample_problems)
