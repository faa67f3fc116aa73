"""Forward convolution: one matrix product per tap of the filter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...graph_api.dtypes import DataType
from ...graph_api.enums import ConvMode
from ...graph_api.graph import Graph
from ...graph_api.layout import channels_last_strides, strides_in_order
from ...graph_api.ops.conv_fprop import ConvFprop
from .analysis import bilinear_bound, product, scaled_domain
from .base import FLOATS, INTEGERS, NUMBERS, Arrays, Context, Domain, Reference, Sample, sampler
from .building import padded_strides, sample_graph, wide_type
from .convert import Array

__all__ = ["REFERENCE", "sample_problems"]


def _convolve(op: ConvFprop, x: Array, w: Array, extents: tuple[int, ...]) -> Array:
    """Return (N, K, extents...) in the type of the operands (float64 or int64)."""
    if op.conv_mode is ConvMode.CONVOLUTION:
        w = np.flip(w, axis=tuple(range(2, w.ndim)))
    groups = x.shape[1] // w.shape[1]
    x = np.pad(x, [(0, 0), (0, 0), *zip(op.pre_padding, op.post_padding, strict=True)])
    x = x.reshape(x.shape[0], groups, w.shape[1], *x.shape[2:])
    w = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    y = np.zeros((x.shape[0], groups, w.shape[1], int(np.prod(extents))), dtype=x.dtype)
    for tap in np.ndindex(*w.shape[3:]):
        window: tuple[Any, ...] = tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, n, s, d in zip(tap, extents, op.stride, op.dilation, strict=True)
        )
        seen = x[(..., *window)].reshape(*x.shape[:3], -1)
        y += product(w[(None, ..., *tap)], seen)
    return y.reshape(y.shape[0], -1, *extents)


def evaluate(op: ConvFprop, inputs: Arrays, ctx: Context) -> Arrays:
    extents = ctx.outputs["y"].dims[2:]
    return {"y": ctx.finish(_convolve(op, inputs["x"], inputs["w"], extents))}


def bound(op: ConvFprop, inputs: Arrays, errors: Arrays, outputs: Arrays, ctx: Context) -> Arrays:
    extents = ctx.outputs["y"].dims[2:]
    return {
        "y": bilinear_bound(
            lambda x, w: _convolve(op, x, w, extents),
            (inputs["x"], errors["x"]),
            (inputs["w"], errors["w"]),
            _terms(ctx),
            ctx,
        )
    }


def _terms(ctx: Context) -> int:
    return int(np.prod(ctx.inputs["w"].dims[1:]))


def domain(op: ConvFprop, port: str, ctx: Context) -> Domain:
    return scaled_domain(_terms(ctx), port, "x", ctx)


# Sample problems: name, image, filter, parameters of the op, tags.
_Case = tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any], str]
_CASES: tuple[_Case, ...] = (
    ("ones", (1, 1, 1, 1), (1, 1, 1, 1), {}, "size1"),
    ("1x1", (2, 16, 5, 7), (8, 16, 1, 1), {}, ""),
    ("1x1_stride2", (1, 8, 7, 7), (8, 8, 1, 1), {"stride": 2}, "stride"),
    ("3x3", (2, 8, 9, 9), (16, 8, 3, 3), {}, ""),
    ("3x3_same", (1, 8, 8, 8), (8, 8, 3, 3), {"padding": 1}, "padding"),
    ("3x3_stride2", (2, 3, 11, 13), (5, 3, 3, 3), {"stride": 2, "padding": 1}, "stride prime"),
    ("3x3_stride_2_3", (1, 4, 12, 13), (4, 4, 3, 3), {"stride": (2, 3)}, "stride"),
    ("3x3_dilation2", (1, 4, 11, 11), (6, 4, 3, 3), {"dilation": 2}, "dilation"),
    ("3x2_dilation_1_3", (1, 4, 7, 11), (4, 4, 3, 2), {"dilation": (1, 3)}, "dilation"),
    ("stride_above_taps", (1, 4, 13, 13), (4, 4, 2, 2), {"stride": 5}, "stride"),
    (
        "asymmetric_padding",
        (1, 4, 6, 7),
        (6, 4, 3, 3),
        {"pre_padding": (0, 2), "post_padding": (1, 0)},
        "padding asymmetric",
    ),
    (
        "asymmetric_all",
        (2, 6, 9, 10),
        (4, 3, 3, 2),
        {
            "pre_padding": (2, 0),
            "post_padding": (1, 3),
            "stride": (2, 1),
            "dilation": (1, 2),
            "conv_mode": ConvMode.CONVOLUTION,
        },
        "padding asymmetric stride dilation groups flipped",
    ),
    ("even_taps", (1, 4, 8, 8), (4, 4, 4, 2), {"padding": 1}, "padding"),
    ("filter_is_image", (2, 4, 5, 6), (8, 4, 5, 6), {}, ""),
    ("filter_above_image", (1, 4, 3, 3), (4, 4, 5, 5), {"padding": 2}, "padding"),
    ("padding_above_filter", (1, 2, 3, 3), (2, 2, 1, 1), {"padding": 2}, "padding"),
    ("flipped", (1, 4, 7, 7), (4, 4, 3, 2), {"conv_mode": ConvMode.CONVOLUTION}, "flipped"),
    ("groups2", (1, 8, 6, 6), (6, 4, 3, 3), {"padding": 1}, "groups"),
    ("groups3_stride2", (2, 9, 7, 7), (6, 3, 3, 3), {"stride": 2}, "groups stride"),
    ("depthwise", (1, 16, 8, 8), (16, 1, 3, 3), {"padding": 1}, "groups depthwise"),
    ("depthwise_x2", (1, 5, 7, 7), (10, 1, 3, 3), {"padding": 1}, "groups depthwise prime"),
    ("depthwise_stride2", (1, 8, 9, 9), (8, 1, 3, 3), {"stride": 2}, "groups depthwise stride"),
    ("stem_7x7", (1, 3, 19, 17), (8, 3, 7, 7), {"stride": 2, "padding": 3}, "stride padding"),
    ("primes", (3, 7, 11, 13), (5, 7, 3, 3), {"padding": 1}, "prime padding"),
    ("tile_minus1", (1, 15, 15, 15), (31, 15, 3, 3), {"padding": 1}, "tile padding"),
    ("tile_plus1", (1, 17, 17, 17), (33, 17, 3, 3), {"padding": 1}, "tile padding"),
    ("one_channel", (2, 1, 8, 8), (4, 1, 3, 3), {}, "size1"),
    ("one_channel_dilated", (2, 1, 9, 8), (4, 1, 3, 3), {"dilation": 2, "padding": 2}, "dilation"),
    ("one_filter", (2, 8, 8, 8), (1, 8, 3, 3), {}, "size1"),
    ("row_image", (2, 8, 1, 16), (4, 8, 1, 3), {"pre_padding": (0, 1)}, "size1 padding"),
    ("1d", (2, 6, 17), (4, 6, 3), {"padding": 1}, "1d padding"),
    ("1d_dilated", (1, 4, 23), (4, 2, 3), {"dilation": 4, "stride": 2}, "1d dilation groups"),
    ("1d_depthwise", (1, 8, 16), (8, 1, 4), {"pre_padding": 3, "post_padding": 0}, "1d depthwise"),
    ("3d", (1, 4, 5, 6, 7), (4, 4, 3, 3, 3), {"padding": 1}, "3d padding"),
    ("3d_mixed", (2, 4, 5, 4, 6), (6, 2, 1, 2, 3), {"stride": (1, 2, 2)}, "3d groups stride"),
    (
        "3d_flipped",
        (1, 2, 4, 4, 4),
        (2, 2, 2, 3, 2),
        {"conv_mode": ConvMode.CONVOLUTION, "post_padding": (1, 0, 2)},
        "3d flipped asymmetric",
    ),
)

_X, _W, _Y = (2, 8, 7, 9), (12, 8, 3, 3), (2, 12, 7, 9)
_LAYOUTS: tuple[tuple[str, dict[str, tuple[int, ...]], str], ...] = (
    ("nhwc", {"x": channels_last_strides(_X)}, "nhwc"),
    (
        "nhwc_krsc",
        {"x": channels_last_strides(_X), "w": channels_last_strides(_W)},
        "nhwc krsc",
    ),
    ("krsc", {"w": channels_last_strides(_W)}, "krsc"),
    ("nchw_to_nhwc", {"y": channels_last_strides(_Y)}, "nhwc mixed_layout"),
    (
        "nhwc_to_nchw",
        {"x": channels_last_strides(_X), "y": strides_in_order(_Y, range(4))},
        "nhwc mixed_layout",
    ),
    (
        "odd_permutations",
        {
            "x": strides_in_order(_X, (2, 0, 3, 1)),
            "w": strides_in_order(_W, (1, 3, 0, 2)),
            "y": strides_in_order(_Y, (3, 1, 0, 2)),
        },
        "permuted mixed_layout",
    ),
    ("padded_x", {"x": tuple(padded_strides(_X, range(4), (0, 1, 2, 3)))}, "padded"),
    ("padded_nhwc", {"x": tuple(padded_strides(_X, (0, 2, 3, 1), (0, 8, 0, 1)))}, "padded nhwc"),
    ("padded_w", {"w": tuple(padded_strides(_W, range(4), (0, 0, 1, 1)))}, "padded"),
    ("step2_x", {"x": (2 * 8 * 63, 2 * 63, 18, 2)}, "padded"),
    ("broadcast_batch", {"x": (0, 63, 9, 1)}, "broadcast"),
    ("broadcast_channel", {"x": (63, 0, 9, 1)}, "broadcast"),
    ("broadcast_w", {"w": (0, 9, 3, 1)}, "broadcast"),
)


def _plain(case: _Case) -> Callable[[DataType], Graph]:
    _, x, w, parameters, _ = case

    def build(data_type: DataType) -> Graph:
        g = sample_graph(data_type)
        y = g.conv_fprop(g.tensor(dims=x, name="x"), g.tensor(dims=w, name="w"), **parameters)
        g.output(y, name="y", data_type=_result(data_type))
        return g

    return build


def _result(data_type: DataType) -> DataType:
    return data_type if data_type.is_float else wide_type(data_type)


def _laid_out(strides: dict[str, tuple[int, ...]]) -> Callable[[DataType], Graph]:
    def build(data_type: DataType) -> Graph:
        g = sample_graph(data_type)
        x = g.tensor(dims=_X, strides=strides.get("x"), name="x")
        w = g.tensor(dims=_W, strides=strides.get("w"), name="w")
        y = g.output(g.conv_fprop(x, w, padding=1), name="y", data_type=_result(data_type))
        if "y" in strides:
            y.set_stride(strides["y"])
        return g

    return build


def _same_tensor(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    x = g.tensor(dims=(3, 3, 4, 4))
    g.conv_fprop(x, x, padding=2).set_output()
    return g


def _bias_relu(
    dims: tuple[int, int, int, int] = (2, 8, 6, 6), nhwc: bool = False
) -> Callable[[DataType], Graph]:
    def build(data_type: DataType) -> Graph:
        g = sample_graph(data_type)
        filter_dims = (12, dims[1], 3, 3)
        lay = channels_last_strides if nhwc else (lambda d: strides_in_order(d, range(4)))
        x = g.tensor(dims=dims, strides=lay(dims), name="x")
        w = g.tensor(dims=filter_dims, strides=lay(filter_dims), name="w")
        bias = g.tensor(dims=(1, 12, 1, 1), name="bias")
        y = g.relu(g.add(g.conv_fprop(x, w, padding=1), bias))
        g.output(y, name="y")
        return g

    return build


def _two_layers(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    x = g.tensor(dims=(1, 4, 8, 8), name="x")
    middle = g.relu(g.conv_fprop(x, g.tensor(dims=(8, 4, 3, 3)), padding=1))
    g.output(middle, name="middle")
    g.output(g.conv_fprop(middle, g.tensor(dims=(4, 8, 3, 3)), padding=1), name="y")
    return g


def _chained(x_last: bool, stride: int = 1) -> Callable[[DataType], Graph]:
    """Return a residual block with channels-last filters; nothing between them has a buffer."""

    def build(data_type: DataType) -> Graph:
        g = sample_graph(data_type)
        dims, taps = (1, 16, 8, 7), (16, 16, 3, 3)
        x = g.tensor(dims=dims, strides=channels_last_strides(dims) if x_last else None, name="x")
        w1, w2 = (g.tensor(dims=taps, strides=channels_last_strides(taps)) for _ in range(2))
        middle = g.relu(g.conv_fprop(x, w1, padding=1, stride=stride)).set_data_type(data_type)
        y = g.conv_fprop(middle, w2, padding=1)
        g.output(g.add(y, x) if stride == 1 else y, name="y")
        return g

    return build


def _typed(result: DataType, compute: DataType | None = None) -> Callable[[DataType], Graph]:
    def build(data_type: DataType) -> Graph:
        g = sample_graph(data_type, compute)
        x, w = g.tensor(dims=(1, 32, 6, 6)), g.tensor(dims=(8, 32, 3, 3))
        g.output(g.conv_fprop(x, w, padding=1), data_type=result)
        return g

    return build


def sample_problems() -> tuple[Sample, ...]:
    """Return the sample problems of forward convolution."""
    half, float_, int8 = DataType.HALF, DataType.FLOAT, DataType.INT8
    sample = sampler("conv_fprop")
    low = (half, DataType.BFLOAT16)
    return (
        *(sample(c[0], _plain(c), c[4], NUMBERS) for c in _CASES),
        *(sample(name, _laid_out(strides), tags, NUMBERS) for name, strides, tags in _LAYOUTS),
        sample("same_tensor", _same_tensor, "alias padding"),
        sample("bias_relu", _bias_relu(), "chain broadcast"),
        sample("bias_relu_nhwc", _bias_relu(nhwc=True), "chain broadcast nhwc"),
        sample("two_layers", _two_layers, "chain shared_output"),
        sample("residual_nhwc", _chained(True), "chain nhwc krsc residual"),
        sample("residual_krsc", _chained(False), "chain krsc mixed_layout residual"),
        sample("two_layers_nhwc", _chained(True, 2), "chain nhwc krsc stride"),
        sample("half_to_float", _typed(float_), "mixed", low),
        sample("float_to_half", _typed(half), "mixed", (float_,)),
        sample("compute_half", _typed(half, half), "compute", (half,)),
        sample("compute_double", _typed(DataType.DOUBLE, DataType.DOUBLE), "compute", FLOATS),
        sample("int8_to_int8", _typed(int8), "mixed saturate", INTEGERS[:2]),
        sample("int8_to_half", _typed(half), "mixed", INTEGERS[:2]),
        sample("int8_in_float", _typed(float_, float_), "mixed compute", INTEGERS[:2]),
    )


REFERENCE = Reference(evaluate=evaluate, bound=bound, domain=domain, samples=sample_problems)
