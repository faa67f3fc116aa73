"""Slice: NumPy's."""

from __future__ import annotations

from collections.abc import Callable

from ...graph_api.dtypes import DataType
from ...graph_api.graph import Graph
from ...graph_api.layout import channels_last_strides
from ...graph_api.ops.slice import Slice
from ...graph_api.tensor import Tensor
from .base import FLOATS, Arrays, Context, Sample, sampler
from .building import sample_graph
from .convert import Array
from .movement import ALL, LAYOUTS, moving, one

__all__ = ["REFERENCE", "sample_problems"]


def _move(op: Slice, inputs: Arrays, ctx: Context, errors: bool) -> Array:
    parts = zip(op.starts, op.limits, op.strides, strict=True)
    return inputs["x"][tuple(slice(*part) for part in parts)]


def _cut(g: Graph, x: Tensor) -> Tensor:
    return g.slice(x, starts=(0, 1, 2, 1), limits=(2, 6, 5, 7), strides=(1, 2, 1, 3))


def _halves(data_type: DataType) -> Graph:
    # A gated unit: one product, cut in two.
    g = sample_graph(data_type)
    x, w = g.tensor(dims=(6, 16), name="x"), g.tensor(dims=(16, 20), name="w")
    both = g.matmul(x, w)
    left = g.slice(both, starts=(0, 0), limits=(6, 10))
    right = g.slice(both, starts=(0, 10), limits=(6, 20))
    g.output(g.mul(left, g.sigmoid(right)), name="y")
    return g


def _convolution(nhwc: bool) -> Callable[[DataType], Graph]:
    def build(data_type: DataType) -> Graph:
        g = sample_graph(data_type)
        dims, taps = (2, 8, 9, 10), (12, 4, 3, 3)
        x = g.tensor(dims=dims, strides=channels_last_strides(dims) if nhwc else None, name="x")
        w = g.tensor(dims=taps, strides=channels_last_strides(taps) if nhwc else None, name="w")
        part = g.slice(x, starts=(0, 2, 1, 0), limits=(2, 6, 9, 9))
        g.output(g.conv_fprop(part, w, padding=1), name="y")
        return g

    return build


def _rest(data_type: DataType) -> Graph:
    # Both parts of a tensor as outputs; what stays is read once more.
    g = Graph(io_data_type=data_type)
    x = g.tensor(dims=(9, 8), name="x")
    for name, start, limit in (("head", 0, 4), ("tail", 4, 9)):
        g.output(g.slice(x, starts=(start, 0), limits=(limit, 8)), name=name)
    return g


def _of_slice(data_type: DataType) -> Graph:
    g = Graph(io_data_type=data_type)
    once = g.slice(g.tensor(dims=(40,)), starts=3, limits=37, strides=2)
    g.slice(once, starts=2, limits=17, strides=3).set_output()
    return g


def sample_problems() -> tuple[Sample, ...]:
    """Return the sample problems of slice."""
    sample = sampler("slice", ALL)
    whole = one(lambda g, x: g.slice(x, starts=(0, 0), limits=(5, 7)), (5, 7))
    step = one(lambda g, x: g.slice(x, starts=1, limits=33, strides=5), (33,))
    return (
        sample("whole", whole, "alias"),
        sample("rows", one(lambda g, x: g.slice(x, starts=(2, 0), limits=(5, 9)), (7, 9)), "prime"),
        sample("columns", one(lambda g, x: g.slice(x, starts=(0, 3), limits=(7, 8)), (7, 9))),
        sample(
            "element", one(lambda g, x: g.slice(x, starts=(4, 2), limits=(5, 3)), (7, 9)), "size1"
        ),
        sample("step", step, "tile"),
        *(sample(name, one(_cut, strides=strides), tags) for name, strides, tags in LAYOUTS),
        sample(
            "result_permuted",
            one(_cut, result=channels_last_strides((2, 3, 3, 2))),
            "mixed_layout",
        ),
        sample("rest", _rest, "shared_output"),
        sample("of_slice", _of_slice, "chain"),
        sample("halves", _halves, "chain", FLOATS),
        sample("convolution", _convolution(nhwc=False), "chain", FLOATS),
        sample("convolution_nhwc", _convolution(nhwc=True), "chain nhwc", FLOATS),
    )


REFERENCE = moving(_move, sample_problems)
