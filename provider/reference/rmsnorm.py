"""Normalisation by the root mean square."""

# mypy: disable-error-code="no-any-return"
# (NumPy types arithmetic on arrays of any element type as Any.)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...graph_api.dtypes import DataType
from ...graph_api.graph import Graph
from ...graph_api.layout import channels_last_strides, strides_in_order
from ...graph_api.ops.rmsnorm import Rmsnorm
from .base import Arrays, Context, Domain, Reference, Sample, sampler
from .building import padded_strides, sample_graph
from .row_norms import Row, affine, inverse, product, widened
from .row_norms import domain as row_domain

__all__ = ["REFERENCE", "sample_problems"]

Dims = tuple[int, ...]


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


def domain(op: Rmsnorm, port: str, ctx: Context) -> Domain:
    return row_domain(port)


def _norm(
    dims: Dims,
    scale: Dims,
    *,
    training: bool = False,
    bias: bool = False,
    strides: Dims | None = None,
    result_strides: Dims | None = None,
    mixed: bool = False,
    compute: DataType | None = None,
) -> Callable[[DataType], Graph]:
    def build(data_type: DataType) -> Graph:
        g = sample_graph(data_type, compute)
        x = g.tensor(dims=dims, strides=strides, name="x")
        kind = DataType.FLOAT if mixed else DataType.UNSET
        s = g.tensor(dims=scale, data_type=kind, name="scale")
        b = g.tensor(dims=scale, name="bias") if bias else None
        phase = "training" if training else "inference"
        y, inv = g.rmsnorm(x, s, bias=b, epsilon=1e-5, forward_phase=phase)
        y.set_output()
        if result_strides:
            y.set_stride(result_strides)
        if inv is not None:
            inv.set_output()
            if mixed:
                inv.set_data_type(kind)
        return g

    return build


def _alias(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    s = g.tensor(dims=(40,))
    g.rmsnorm(g.tensor(dims=(6, 40)), s, bias=s).y.set_output()
    return g


def _epsilon_tensor(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    s = g.tensor(dims=(24,))
    g.rmsnorm(g.tensor(dims=(5, 24)), s, epsilon=g.tensor(dims=(1,))).y.set_output()
    return g


def _gated(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    x, gate = g.tensor(dims=(2, 5, 48)), g.tensor(dims=(2, 5, 48))
    y = g.rmsnorm(x, g.tensor(dims=(48,))).y
    g.mul(y, g.sigmoid(gate)).set_output()
    return g


def sample_problems() -> tuple[Sample, ...]:
    """Return the sample problems of the normalisation by the root mean square."""
    x4 = (2, 6, 5, 7)
    sample = sampler("rmsnorm")
    nhwc = channels_last_strides(x4)
    low = (DataType.HALF, DataType.BFLOAT16)
    return (
        sample("rows", _norm((5, 64), (64,)), "tile"),
        sample("rows_training", _norm((5, 65), (65,), training=True), "tile training"),
        sample("bias", _norm((2, 7, 63), (1, 1, 63), training=True, bias=True), "prime training"),
        sample("image", _norm(x4, (1, *x4[1:]), training=True, bias=True), "training"),
        sample("image_nhwc", _norm(x4, x4[1:], training=True, strides=nhwc), "nhwc training"),
        sample(
            "odd_permutation",
            _norm(
                x4,
                x4[2:],
                strides=strides_in_order(x4, (3, 0, 2, 1)),
                result_strides=strides_in_order(x4, (1, 3, 0, 2)),
            ),
            "permuted mixed_layout",
        ),
        sample("channels", _norm(x4, (1, 6, 1, 1), training=True, bias=True), "inner training"),
        sample("rank5", _norm((2, 3, 2, 3, 5), (3, 2, 3, 5), training=True), "training"),
        sample("row_of_1", _norm((4, 1), (1,), training=True), "size1 training"),
        sample("one_row", _norm((1, 31), (31,), training=True), "size1 prime training"),
        sample("scale_is_bias", _alias, "alias"),
        sample("epsilon_tensor", _epsilon_tensor, "scalar"),
        sample(
            "padded",
            _norm(x4, x4[2:], strides=tuple(padded_strides(x4, range(4), (0, 1, 0, 2)))),
            "padded",
        ),
        sample("broadcast_row", _norm(x4, x4[1:], strides=(210, 0, 7, 1)), "broadcast"),
        sample("long", _norm((2, 4096), (4096,), training=True), "long training"),
        sample("float_statistics", _norm((6, 96), (96,), training=True, mixed=True), "mixed", low),
        sample("compute_double", _norm((5, 40), (40,), compute=DataType.DOUBLE), "compute"),
        sample("gated", _gated, "chain"),
    )


REFERENCE = Reference(evaluate=evaluate, bound=bound, domain=domain, samples=sample_problems)
