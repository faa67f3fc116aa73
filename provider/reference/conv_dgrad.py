"""Data gradient of a convolution: every tap scatters its products into the padded image."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any

import numpy as np

from ...graph_api.dtypes import DataType
from ...graph_api.enums import ConvMode
from ...graph_api.graph import Graph
from ...graph_api.layout import channels_last_strides, strides_in_order
from ...graph_api.ops.conv_dgrad import ConvDgrad
from .analysis import bilinear_bound, product, scaled_domain
from .base import FLOATS, INTEGERS, NUMBERS, Arrays, Context, Domain, Reference, Sample, sampler
from .building import padded_strides, sample_graph
from .convert import Array
from .gradient_samples import CASES, Case, Dims, forward_extents, result_type

__all__ = ["REFERENCE", "sample_problems"]


def _scatter(op: ConvDgrad, dy: Array, w: Array, dims: Dims) -> Array:
    """Return (N, C, spatial...) in the type of the operands (float64 or int64)."""
    if op.conv_mode is ConvMode.CONVOLUTION:
        w = np.flip(w, axis=tuple(range(2, w.ndim)))
    groups = dims[1] // w.shape[1]
    extents = dy.shape[2:]
    dy = dy.reshape(dy.shape[0], groups, w.shape[0] // groups, -1)
    w = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    paddings = list(zip(op.pre_padding, op.post_padding, strict=True))
    padded = [n + pre + post for n, (pre, post) in zip(dims[2:], paddings, strict=True)]
    dx = np.zeros((*dims[:2], *padded), dtype=dy.dtype)
    for tap in np.ndindex(*w.shape[3:]):
        window: tuple[Any, ...] = (
            ...,
            *(
                slice(t * d, t * d + (n - 1) * s + 1, s)
                for t, n, s, d in zip(tap, extents, op.stride, op.dilation, strict=True)
            ),
        )
        at: tuple[Any, ...] = (..., *tap)
        filter_ = np.swapaxes(w[at], 1, 2)
        dx[window] += product(filter_[None], dy).reshape(*dims[:2], *extents)
    inner: tuple[Any, ...] = tuple(
        slice(pre, pre + n) for n, (pre, _) in zip(dims[2:], paddings, strict=True)
    )
    whole: tuple[Any, ...] = (slice(None), slice(None), *inner)
    return np.asarray(dx[whole])


def evaluate(op: ConvDgrad, inputs: Arrays, ctx: Context) -> Arrays:
    dims = ctx.outputs["dx"].dims
    return {"dx": ctx.finish(_scatter(op, inputs["dy"], inputs["w"], dims))}


def bound(op: ConvDgrad, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context) -> Arrays:
    dims = ctx.outputs["dx"].dims
    return {
        "dx": bilinear_bound(
            lambda dy, w: _scatter(op, dy, w, dims),
            (inputs["dy"], errors["dy"]),
            (inputs["w"], errors["w"]),
            _terms(op, ctx),
            ctx,
        )
    }


def _terms(op: ConvDgrad, ctx: Context) -> int:
    """Return how many products an element of dx is the sum of, at most.

    In each dim the taps that meet an element are ``stride / gcd(stride, dilation)`` apart.
    """
    w, dy, dx = ctx.inputs["w"].dims, ctx.inputs["dy"].dims, ctx.outputs["dx"].dims
    n = w[0] * w[1] // dx[1]
    for k, o, s, d in zip(w[2:], dy[2:], op.stride, op.dilation, strict=True):
        n *= min(-(-k * gcd(s, d) // s), o)
    return n


def domain(op: ConvDgrad, port: str, ctx: Context) -> Domain:
    return scaled_domain(_terms(op, ctx), port, "dy", ctx)


# Sample problems: name, image, filter, parameters of the op, tags.
_CASES: tuple[Case, ...] = (
    *CASES,
    ("3x3_stride_2_3", (1, 4, 12, 13), (4, 4, 3, 3), {"stride": (2, 3)}, "stride"),
    (
        "stride_dilation",
        (1, 4, 17, 18),
        (6, 4, 3, 3),
        {"stride": (4, 2), "dilation": (2, 3), "padding": 2},
        "stride dilation",
    ),
    ("one_filter_dilated", (2, 4, 9, 8), (1, 4, 3, 3), {"dilation": 2, "padding": 2}, "dilation"),
    (
        "one_filter_dilated_stride",
        (1, 3, 10, 11),
        (1, 3, 3, 2),
        {"dilation": (1, 3), "stride": 2, "padding": 1},
        "dilation stride",
    ),
    ("stride4_taps5", (1, 3, 17, 19), (4, 3, 5, 5), {"stride": 4, "padding": 2}, "stride"),
    (
        "patches",
        (2, 3, 9, 13),
        (8, 3, 4, 3),
        {"stride": (4, 5), "conv_mode": ConvMode.CONVOLUTION},
        "stride flipped",
    ),
    (
        "padding_above_filter",
        (1, 2, 3, 4),
        (2, 2, 2, 1),
        {"padding": 3, "stride": (1, 2)},
        "padding",
    ),
    (
        "3d",
        (1, 4, 5, 4, 7),
        (6, 2, 3, 1, 3),
        {"stride": (1, 2, 2), "padding": 1},
        "3d groups stride",
    ),
)

_X, _W, _Y = (2, 8, 7, 9), (12, 8, 3, 3), (2, 12, 7, 9)
_LAYOUTS: tuple[tuple[str, dict[str, Dims], str], ...] = (
    ("nhwc", {"dy": channels_last_strides(_Y), "w": channels_last_strides(_W)}, "nhwc krsc"),
    (
        "odd_permutations",
        {
            "dy": strides_in_order(_Y, (2, 0, 3, 1)),
            "w": strides_in_order(_W, (1, 3, 0, 2)),
            "dx": strides_in_order(_X, (3, 1, 0, 2)),
        },
        "permuted mixed_layout",
    ),
    ("padded_dy", {"dy": tuple(padded_strides(_Y, range(4), (0, 1, 2, 3)))}, "padded"),
    ("broadcast_dy", {"dy": (0, 63, 9, 1), "w": (0, 9, 3, 1)}, "broadcast"),
)


def _plain(
    x: Dims, w: Dims, parameters: dict[str, Any], strides: dict[str, Dims] | None = None
) -> Callable[[DataType], Graph]:
    at = strides or {}

    def build(data_type: DataType) -> Graph:
        g = sample_graph(data_type)
        dy = g.tensor(dims=forward_extents(x, w, parameters), strides=at.get("dy"), name="dy")
        filter_ = g.tensor(dims=w, strides=at.get("w"), name="w")
        dx = g.conv_dgrad(dy, filter_, dx_dims=x, **parameters)
        g.output(dx, name="dx", data_type=result_type(data_type))
        if "dx" in at:
            dx.set_stride(at["dx"])
        return g

    return build


def _inferred(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    dy = g.relu(g.tensor(dims=(1, 4, 6, 6), name="dy"))
    g.output(
        g.add(
            g.conv_dgrad(dy, g.tensor(dims=(4, 8, 3, 3)), padding=1),
            dy.graph.tensor(dims=(1, 8, 1, 1)),
        )
    )
    return g


def _typed(result: DataType, compute: DataType | None = None) -> Callable[[DataType], Graph]:
    def build(data_type: DataType) -> Graph:
        g = sample_graph(data_type, compute)
        dy, w = g.tensor(dims=(1, 8, 6, 6)), g.tensor(dims=(8, 32, 3, 3))
        g.output(g.conv_dgrad(dy, w, padding=1), data_type=result)
        return g

    return build


def _half_filter(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    dy, w = g.tensor(dims=(1, 8, 6, 6)), g.tensor(dims=(8, 4, 3, 3), data_type=DataType.HALF)
    g.conv_dgrad(dy, w, padding=1).set_output()
    return g


def sample_problems() -> tuple[Sample, ...]:
    """Return the sample problems of the data gradient."""
    sample = sampler("conv_dgrad")
    return (
        *(sample(n, _plain(x, w, p), tags, NUMBERS) for n, x, w, p, tags in _CASES),
        *(sample(n, _plain(_X, _W, {"padding": 1}, at), tags) for n, at, tags in _LAYOUTS),
        sample("inferred_dims_in_a_chain", _inferred, "chain broadcast"),
        sample("half_to_float", _typed(DataType.FLOAT), "mixed", FLOATS[1:3]),
        sample("half_filter", _half_filter, "mixed", (DataType.FLOAT, DataType.BFLOAT16)),
        sample("int8_to_int8", _typed(DataType.INT8), "mixed saturate", INTEGERS[:2]),
    )


REFERENCE = Reference(evaluate=evaluate, bound=bound, domain=domain, samples=sample_problems)
