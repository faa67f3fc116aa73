"""Weight gradient of a convolution: one matrix product of dy with all patches of the image."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...graph_api.dtypes import DataType
from ...graph_api.enums import ConvMode
from ...graph_api.graph import Graph
from ...graph_api.layout import channels_last_strides, strides_in_order
from ...graph_api.ops.conv_wgrad import ConvWgrad
from .analysis import bilinear_bound, product, scaled_domain
from .base import FLOATS, INTEGERS, NUMBERS, Arrays, Context, Domain, Reference, Sample, sampler
from .building import padded_strides, sample_graph
from .convert import Array
from .gradient_samples import CASES, Case, Dims, forward_extents, result_type

__all__ = ["REFERENCE", "sample_problems"]


def _correlate(op: ConvWgrad, x: Array, dy: Array, dims: Dims) -> Array:
    """Return (K, C/groups, taps...) in the type of the operands (float64 or int64)."""
    filters, channels, *taps = dims
    batch, groups = x.shape[0], x.shape[1] // channels
    paddings = zip(op.pre_padding, op.post_padding, strict=True)
    x = np.ascontiguousarray(np.pad(x, [(0, 0), (0, 0), *paddings]))
    # Every patch of every position, as a view: (N, G, C, taps..., positions...).
    image, inner = x.strides[:2], x.strides[2:]
    patches = np.lib.stride_tricks.as_strided(
        x,
        (batch, groups, channels, *taps, *dy.shape[2:]),
        (
            image[0],
            channels * image[1],
            image[1],
            *(d * b for d, b in zip(op.dilation, inner, strict=True)),
            *(s * b for s, b in zip(op.stride, inner, strict=True)),
        ),
        writeable=False,
    )
    patches = patches.reshape(batch, groups, channels * int(np.prod(taps)), -1)
    columns = patches.transpose(1, 0, 3, 2).reshape(groups, -1, patches.shape[2])
    rows = dy.reshape(batch, groups, filters // groups, -1).transpose(1, 2, 0, 3)
    dw = product(rows.reshape(groups, filters // groups, -1), columns).reshape(dims)
    if op.conv_mode is ConvMode.CONVOLUTION:
        return np.flip(dw, axis=tuple(range(2, dw.ndim)))
    return dw


def evaluate(op: ConvWgrad, inputs: Arrays, ctx: Context) -> Arrays:
    dims = ctx.outputs["dw"].dims
    return {"dw": ctx.finish(_correlate(op, inputs["x"], inputs["dy"], dims))}


def bound(op: ConvWgrad, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context) -> Arrays:
    dims = ctx.outputs["dw"].dims
    return {
        "dw": bilinear_bound(
            lambda x, dy: _correlate(op, x, dy, dims),
            (inputs["x"], errors["x"]),
            (inputs["dy"], errors["dy"]),
            _terms(ctx),
            ctx,
        )
    }


def _terms(ctx: Context) -> int:
    dy = ctx.inputs["dy"].dims
    return int(np.prod((dy[0], *dy[2:])))


def domain(op: ConvWgrad, port: str, ctx: Context) -> Domain:
    return scaled_domain(_terms(ctx), port, "x", ctx)


# Sample problems: name, image, filter, parameters of the op, tags.
_CASES: tuple[Case, ...] = (
    *CASES,
    ("stride2_16_channels", (1, 16, 15, 16), (8, 16, 3, 3), {"stride": 2, "padding": 1}, "stride"),
    ("3x3_dilation2", (1, 4, 11, 11), (6, 4, 3, 3), {"dilation": 2, "padding": 2}, "dilation"),
    ("stride_above_taps", (1, 4, 13, 14), (4, 4, 2, 2), {"stride": 5}, "stride"),
    (
        "many_taps",
        (1, 2, 9, 10),
        (3, 2, 8, 7),
        {"padding": 2, "conv_mode": ConvMode.CONVOLUTION},
        "padding flipped",
    ),
    ("many_taps_groups", (2, 4, 9, 10), (6, 2, 8, 7), {"padding": 1, "stride": 2}, "groups stride"),
    (
        "3d",
        (1, 4, 5, 4, 7),
        (6, 2, 3, 1, 2),
        {"stride": (1, 2, 2), "padding": 1},
        "3d groups stride",
    ),
)

_X, _W, _Y = (2, 8, 7, 9), (12, 8, 3, 3), (2, 12, 7, 9)
_LAYOUTS: tuple[tuple[str, dict[str, Dims], str], ...] = (
    ("nhwc", {"x": channels_last_strides(_X), "dy": channels_last_strides(_Y)}, "nhwc krsc"),
    (
        "odd_permutations",
        {
            "x": strides_in_order(_X, (2, 0, 3, 1)),
            "dy": strides_in_order(_Y, (1, 3, 0, 2)),
            "dw": strides_in_order(_W, (3, 1, 0, 2)),
        },
        "permuted mixed_layout",
    ),
    ("padded_x", {"x": tuple(padded_strides(_X, range(4), (0, 1, 2, 3)))}, "padded"),
    ("broadcast", {"x": (0, 63, 9, 1), "dy": (12 * 63, 63, 9, 0)}, "broadcast"),
)


def _plain(
    x: Dims, w: Dims, parameters: dict[str, Any], strides: dict[str, Dims] | None = None
) -> Callable[[DataType], Graph]:
    at = strides or {}

    def build(data_type: DataType) -> Graph:
        g = sample_graph(data_type)
        image = g.tensor(dims=x, strides=at.get("x"), name="x")
        dy = g.tensor(dims=forward_extents(x, w, parameters), strides=at.get("dy"), name="dy")
        dw = g.conv_wgrad(dy, image, dw_dims=w, **parameters)
        g.output(dw, name="dw", data_type=result_type(data_type))
        if "dw" in at:
            dw.set_stride(at["dw"])
        return g

    return build


def _same_tensor(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    x = g.tensor(dims=(2, 4, 5, 5))
    g.conv_wgrad(x, x, dw_dims=(4, 4, 3, 3), padding=1).set_output()
    return g


def _typed(result: DataType, compute: DataType | None = None) -> Callable[[DataType], Graph]:
    def build(data_type: DataType) -> Graph:
        g = sample_graph(data_type, compute)
        x, dy = g.tensor(dims=(2, 8, 6, 6)), g.tensor(dims=(2, 6, 6, 6))
        g.output(g.conv_wgrad(dy, x, dw_dims=(6, 8, 3, 3), padding=1), data_type=result)
        return g

    return build


def _all_gradients(data_type: DataType) -> Graph:
    """A ReLU's mask on dy, then both gradients and the bias's."""
    g = sample_graph(data_type)
    x, w = g.tensor(dims=(2, 4, 6, 6), name="x"), g.tensor(dims=(8, 4, 3, 3), name="w")
    dy = g.mul(g.tensor(dims=(2, 8, 6, 6), name="dy"), g.tensor(dims=(2, 8, 6, 6), name="mask"))
    dy.set_data_type(data_type)
    g.output(g.conv_dgrad(dy, w, padding=1), name="dx")
    g.output(g.conv_wgrad(dy, x, dw_dims=(8, 4, 3, 3), padding=1), name="dw")
    g.output(g.reduction(dy, mode="add", axes=(0, 2, 3)), name="db")
    return g


def sample_problems() -> tuple[Sample, ...]:
    """Return the sample problems of the weight gradient."""
    sample = sampler("conv_wgrad")
    return (
        *(sample(n, _plain(x, w, p), tags, NUMBERS) for n, x, w, p, tags in _CASES),
        *(sample(n, _plain(_X, _W, {"padding": 1}, at), tags) for n, at, tags in _LAYOUTS),
        sample("same_tensor", _same_tensor, "alias padding"),
        sample("all_gradients", _all_gradients, "chain"),
        sample("half_to_float", _typed(DataType.FLOAT), "mixed", FLOATS[1:3]),
        sample("int8_to_int8", _typed(DataType.INT8), "mixed saturate", INTEGERS[:2]),
    )


REFERENCE = Reference(evaluate=evaluate, bound=bound, domain=domain, samples=sample_problems)
