"""Transpose: NumPy's."""

from __future__ import annotations

import numpy as np

from ...graph_api.dtypes import DataType
from ...graph_api.graph import Graph
from ...graph_api.layout import channels_last_strides
from ...graph_api.ops.transpose import Transpose
from .base import FLOATS, Arrays, Context, Sample, sampler
from .building import sample_graph
from .convert import Array
from .movement import ALL, LAYOUTS, moving, one

__all__ = ["REFERENCE", "sample_problems"]


def _move(op: Transpose, inputs: Arrays, ctx: Context, errors: bool) -> Array:
    return np.transpose(inputs["x"], op.permutation)


def _matmul(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    a, b = g.tensor(dims=(2, 17, 9), name="a"), g.tensor(dims=(2, 17, 11), name="b")
    g.output(g.matmul(g.transpose(a, permutation=(0, 2, 1)), b), name="c")
    return g


def _matmul_of_broadcast(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    a = g.tensor(dims=(2, 17, 9), strides=(0, 9, 1), name="a")
    b = g.tensor(dims=(2, 17, 11), name="b")
    g.output(g.matmul(g.transpose(a, permutation=(0, 2, 1)), b), name="c")
    return g


def _convolution(data_type: DataType) -> Graph:
    # A channels-last image and filter given by their dims instead of by strides.
    g = sample_graph(data_type)
    x, w = g.tensor(dims=(2, 7, 9, 8), name="x"), g.tensor(dims=(12, 3, 3, 8), name="w")
    image = g.transpose(x, permutation=(0, 3, 1, 2))
    y = g.conv_fprop(image, g.transpose(w, permutation=(0, 3, 1, 2)), padding=1)
    g.output(g.transpose(y, permutation=(0, 2, 3, 1)), name="y")
    return g


def _filter_only(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    x, w = g.tensor(dims=(2, 8, 7, 9), name="x"), g.tensor(dims=(12, 3, 3, 8), name="w")
    filter_ = g.transpose(w, permutation=(0, 3, 1, 2))
    g.output(g.conv_fprop(x, filter_, padding=1), name="y")
    return g


def _twice(data_type: DataType) -> Graph:
    g = Graph(io_data_type=data_type)
    once = g.transpose(g.tensor(dims=(4, 5, 6)), permutation=(2, 0, 1))
    g.transpose(once, permutation=(1, 2, 0)).set_output()
    return g


def _symmetric(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    x = g.tensor(dims=(9, 9), name="x")
    g.output(g.add(x, g.transpose(x, permutation=(1, 0))), name="y")
    return g


def sample_problems() -> tuple[Sample, ...]:
    """Return the sample problems of transpose."""
    sample = sampler("transpose", ALL)
    return (
        sample("matrix", one(lambda g, x: g.transpose(x, permutation=(1, 0)), (17, 33)), "prime"),
        sample("vector", one(lambda g, x: g.transpose(x, permutation=(0,)), (7,)), "alias"),
        sample("same", one(lambda g, x: g.transpose(x, permutation=(0, 1)), (5, 7)), "alias"),
        sample(
            "rank5", one(lambda g, x: g.transpose(x, permutation=(4, 2, 0, 3, 1)), (2, 3, 4, 5, 6))
        ),
        sample(
            "unit_dims", one(lambda g, x: g.transpose(x, permutation=(2, 0, 1)), (1, 6, 1)), "size1"
        ),
        *(
            sample(
                name,
                one(lambda g, x: g.transpose(x, permutation=(0, 2, 3, 1)), strides=strides),
                tags,
            )
            for name, strides, tags in LAYOUTS
        ),
        sample(
            "result_permuted",
            one(
                lambda g, x: g.transpose(x, permutation=(0, 2, 3, 1)),
                result=channels_last_strides((2, 5, 7, 6)),
            ),
            "mixed_layout",
        ),
        sample("twice", _twice, "chain alias"),
        sample("symmetric", _symmetric, "chain", FLOATS),
        sample("matmul", _matmul, "chain", FLOATS),
        sample("matmul_of_broadcast", _matmul_of_broadcast, "chain broadcast", FLOATS),
        sample("convolution", _convolution, "chain nhwc", FLOATS),
        sample("filter_only", _filter_only, "chain krsc", FLOATS),
    )


REFERENCE = moving(_move, sample_problems)
