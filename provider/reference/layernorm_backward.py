"""Gradient of the layer normalisation."""

# mypy: disable-error-code="no-any-return"
# (NumPy types arithmetic on arrays of any element type as Any.)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...graph_api.dtypes import DataType
from ...graph_api.graph import Graph
from ...graph_api.layout import channels_last_strides, strides_in_order
from ...graph_api.ops.layernorm_backward import LayernormBackward
from ...graph_api.ops.row_norms import normalised_dims, statistics_dims
from .base import Arrays, Context, Domain, Reference, Sample, sampler
from .building import sample_graph
from .convert import Array
from .layernorm import normalised
from .row_norms import Row, gradient_bounds, gradient_sums, product, widened
from .row_norms import domain as row_domain

__all__ = ["REFERENCE", "sample_problems"]

Dims = tuple[int, ...]


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


def domain(op: LayernormBackward, port: str, ctx: Context) -> Domain:
    return row_domain(port)


def _gradient(
    dims: Dims,
    scale: Dims,
    *,
    saved: bool = True,
    strides: Dims | None = None,
    dy_strides: Dims | None = None,
    mixed: bool = False,
    count: int = 0,
) -> Callable[[DataType], Graph]:
    def build(data_type: DataType) -> Graph:
        g = sample_graph(data_type)
        dy = g.tensor(dims=dims, strides=dy_strides, name="dy")
        x = g.tensor(dims=dims, strides=strides, name="x")
        s = g.tensor(dims=scale, name="scale")
        statistics = statistics_dims(dims, normalised_dims(dims, scale, count))
        kind = DataType.FLOAT if mixed else DataType.UNSET
        more: dict[str, Any] = {"epsilon": 1e-5}
        if saved:
            more = {
                n: g.tensor(dims=statistics, data_type=kind, name=n)
                for n in ("mean", "inv_variance")
            }
        results = g.layernorm_backward(dy, x, s, normalized_dim_count=count, **more)
        for t in results:
            t.set_output()
        if mixed:
            results.dscale.set_data_type(kind)
            results.dbias.set_data_type(kind)
        return g

    return build


def _through(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    x, s, b = g.tensor(dims=(5, 24)), g.tensor(dims=(24,)), g.tensor(dims=(24,))
    y, mean, inv = g.layernorm(x, s, b, forward_phase="training")
    for t in g.layernorm_backward(y, x, s, mean=mean, inv_variance=inv):
        t.set_output()
    return g


def _alias(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    x = g.tensor(dims=(5, 24))
    for t in g.layernorm_backward(x, x, g.tensor(dims=(24,)), epsilon=1e-5):
        t.set_output()
    return g


def sample_problems() -> tuple[Sample, ...]:
    """Return the sample problems of the gradient of the layer normalisation."""
    x4 = (2, 6, 5, 7)
    nhwc, odd = channels_last_strides(x4), strides_in_order(x4, (3, 0, 2, 1))
    low = (DataType.HALF, DataType.BFLOAT16)
    sample = sampler("layernorm_backward")
    return (
        sample("rows", _gradient((5, 64), (64,)), "tile"),
        sample("rows_without_statistics", _gradient((5, 65), (65,), saved=False), "tile"),
        sample("tokens", _gradient((2, 7, 31), (1, 1, 31)), "prime"),
        sample("image", _gradient(x4, (1, *x4[1:]), saved=False), ""),
        sample("nhwc", _gradient(x4, x4[1:], strides=nhwc, dy_strides=nhwc), "nhwc"),
        sample("layouts", _gradient(x4, x4[2:], strides=nhwc, dy_strides=odd), "mixed_layout"),
        sample("channels", _gradient(x4, (1, 6, 1, 1), saved=False), "inner"),
        sample("rank5", _gradient((2, 3, 2, 3, 5), (3, 2, 3, 5)), ""),
        sample("one_row", _gradient((1, 31), (31,), saved=False), "size1 prime"),
        sample("row_of_1", _gradient((4, 1), (1,)), "size1"),
        sample("count", _gradient((4, 1, 6), (1,), count=2, saved=False), "count"),
        sample("float_statistics", _gradient((6, 40), (40,), mixed=True), "mixed", low),
        sample("through", _through, "chain"),
        sample("dy_is_x", _alias, "alias"),
    )


REFERENCE = Reference(evaluate=evaluate, bound=bound, domain=domain, samples=sample_problems)
