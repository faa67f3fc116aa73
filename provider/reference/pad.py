"""Pad: x written into an array that is full of the value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...graph_api.dtypes import DataType
from ...graph_api.graph import Graph
from ...graph_api.layout import channels_last_strides
from ...graph_api.ops.pad import Pad
from .base import FLOATS, Arrays, Context, Sample, sampler
from .building import sample_graph
from .convert import Array, scalar
from .movement import ALL, LAYOUTS, moving, one

__all__ = ["REFERENCE", "sample_problems"]


def _move(op: Pad, inputs: Arrays, ctx: Context, errors: bool) -> Array:
    x, y = inputs["x"], ctx.outputs["y"].dims
    fill = 0 if errors else scalar(op.value, ctx.inputs["x"].data_type)[0]
    result = np.full(y, fill, dtype=x.dtype)
    # Element i of x stands at i + pre, where that is inside of y.
    first = [max(pre, 0) for pre in op.pre_padding]
    last = [min(pre + n, m) for pre, n, m in zip(op.pre_padding, x.shape, y, strict=True)]
    to = tuple(slice(a, b) for a, b in zip(first, last, strict=True))
    given = zip(first, last, op.pre_padding, strict=True)
    result[to] = x[tuple(slice(a - pre, b - pre) for a, b, pre in given)]
    return result


def _framed(pre: Any, post: Any, value: float = 0.0, **options: Any) -> Callable[[DataType], Graph]:
    return one(lambda g, x: g.pad(x, pre_padding=pre, post_padding=post, value=value), **options)


def _convolution(nhwc: bool) -> Callable[[DataType], Graph]:
    def build(data_type: DataType) -> Graph:
        g = sample_graph(data_type)
        dims, taps = (1, 4, 7, 9), (6, 4, 3, 3)
        x = g.tensor(dims=dims, strides=channels_last_strides(dims) if nhwc else None, name="x")
        w = g.tensor(dims=taps, strides=channels_last_strides(taps) if nhwc else None, name="w")
        wide = g.pad(x, pre_padding=(0, 0, 1, 2), post_padding=(0, 0, 2, 1), value=0.5)
        g.output(g.conv_fprop(wide, w), name="y")
        return g

    return build


def _maximum(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    x = g.tensor(dims=(5, 9), name="x")
    wide = g.pad(x, pre_padding=(0, 3), post_padding=(0, 4), value=-60000.0)
    g.output(g.reduction(wide, mode="max", axes=1), name="y")
    return g


def _there_and_back(data_type: DataType) -> Graph:
    g = Graph(io_data_type=data_type)
    wide = g.pad(g.tensor(dims=(4, 5)), pre_padding=(1, 2), post_padding=(0, 3))
    g.pad(wide, pre_padding=(-1, -2), post_padding=(0, -3)).set_output()
    return g


def sample_problems() -> tuple[Sample, ...]:
    """Return the sample problems of pad."""
    sample = sampler("pad", ALL)
    frame = ((0, 1, 2, 0), (0, 0, 1, 3))
    return (
        sample("nothing", _framed(0, 0, dims=(5, 7)), "alias"),
        sample("before", _framed((2, 0), (0, 0), 1.0, dims=(5, 7)), "prime"),
        sample("behind", _framed((0, 0), (0, 3), 1.0, dims=(5, 7)), "prime"),
        sample("around", _framed(1, 1, dims=(1, 3, 4)), "size1"),
        sample("cut", _framed((-1, 0), (-2, -3), dims=(6, 8))),
        sample("cut_and_pad", _framed((-2, 3), (1, -4), 1.0, dims=(6, 8))),
        sample("vector", _framed(31, 2, 1.0, dims=(33,)), "tile"),
        sample("fraction", _framed(1, 0, 0.1, dims=(3, 5)), "", FLOATS),
        *(
            sample(name, _framed(*frame, 1.0, strides=strides), tags)
            for name, strides, tags in LAYOUTS
        ),
        sample(
            "result_permuted",
            _framed(*frame, 1.0, result=channels_last_strides((2, 7, 8, 10))),
            "mixed_layout",
        ),
        sample("there_and_back", _there_and_back, "chain alias"),
        sample("convolution", _convolution(nhwc=False), "chain", FLOATS),
        sample("convolution_nhwc", _convolution(nhwc=True), "chain nhwc", FLOATS),
        sample("maximum", _maximum, "chain", FLOATS),
    )


REFERENCE = moving(_move, sample_problems)
