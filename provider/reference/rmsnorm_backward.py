"""Gradient of the normalisation by the root mean square."""

# mypy: disable-error-code="no-any-return"
# (NumPy types arithmetic on arrays of any element type as Any.)

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...graph_api.dtypes import DataType
from ...graph_api.graph import Graph
from ...graph_api.layout import channels_last_strides, strides_in_order
from ...graph_api.ops.rmsnorm_backward import RmsnormBackward
from ...graph_api.ops.row_norms import normalised_dims, statistics_dims
from .base import Arrays, Context, Domain, Reference, Sample, sampler
from .building import sample_graph
from .row_norms import Row, gradient_bounds, gradient_sums, product, widened
from .row_norms import domain as row_domain

__all__ = ["REFERENCE", "sample_problems"]

Dims = tuple[int, ...]


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


def domain(op: RmsnormBackward, port: str, ctx: Context) -> Domain:
    return row_domain(port)


def _gradient(
    dims: Dims,
    scale: Dims,
    *,
    bias: bool = False,
    strides: Dims | None = None,
    dy_strides: Dims | None = None,
    mixed: bool = False,
) -> Callable[[DataType], Graph]:
    def build(data_type: DataType) -> Graph:
        g = sample_graph(data_type)
        dy = g.tensor(dims=dims, strides=dy_strides, name="dy")
        x = g.tensor(dims=dims, strides=strides, name="x")
        statistics = statistics_dims(dims, normalised_dims(dims, scale))
        kind = DataType.FLOAT if mixed else DataType.UNSET
        inv = g.tensor(dims=statistics, data_type=kind, name="inv_rms")
        s = g.tensor(dims=scale, name="scale")
        for t in g.rmsnorm_backward(dy, x, s, inv, has_dbias=bias):
            if t is not None:
                t.set_output()
        return g

    return build


def _through(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    x, s = g.tensor(dims=(5, 24)), g.tensor(dims=(24,))
    y, inv = g.rmsnorm(x, s, forward_phase="training")
    assert inv is not None
    results = g.rmsnorm_backward(y, x, s, inv)
    results.dx.set_output()
    results.dscale.set_output()
    return g


def _alias(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    x = g.tensor(dims=(5, 24))
    results = g.rmsnorm_backward(x, x, g.tensor(dims=(24,)), g.tensor(dims=(5, 1)))
    results.dx.set_output()
    results.dscale.set_output()
    return g


def sample_problems() -> tuple[Sample, ...]:
    """Return the sample problems of the gradient of the root-mean-square normalisation."""
    x4 = (2, 6, 5, 7)
    nhwc, odd = channels_last_strides(x4), strides_in_order(x4, (3, 0, 2, 1))
    low = (DataType.HALF, DataType.BFLOAT16)
    sample = sampler("rmsnorm_backward")
    return (
        sample("rows", _gradient((5, 64), (64,)), "tile"),
        sample("bias", _gradient((5, 65), (65,), bias=True), "tile"),
        sample("tokens", _gradient((2, 7, 31), (1, 1, 31)), "prime"),
        sample("image", _gradient(x4, (1, *x4[1:]), bias=True), ""),
        sample("nhwc", _gradient(x4, x4[1:], strides=nhwc, dy_strides=nhwc), "nhwc"),
        sample("layouts", _gradient(x4, x4[2:], strides=nhwc, dy_strides=odd), "mixed_layout"),
        sample("channels", _gradient(x4, (1, 6, 1, 1), bias=True), "inner"),
        sample("one_row", _gradient((1, 31), (31,), bias=True), "size1 prime"),
        sample("row_of_1", _gradient((4, 1), (1,), bias=True), "size1"),
        sample("float_statistics", _gradient((6, 40), (40,), mixed=True), "mixed", low),
        sample("through", _through, "chain"),
        sample("dy_is_x", _alias, "alias"),
    )


REFERENCE = Reference(evaluate=evaluate, bound=bound, domain=domain, samples=sample_problems)
