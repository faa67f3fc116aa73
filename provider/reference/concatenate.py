"""Concatenate: NumPy's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...graph_api.dtypes import DataType
from ...graph_api.graph import Graph
from ...graph_api.layout import channels_last_strides, strides_in_order
from ...graph_api.ops.concatenate import Concatenate
from .base import FLOATS, Arrays, Context, Sample, sampler
from .building import padded_strides, sample_graph
from .convert import Array
from .movement import ALL, moving

__all__ = ["REFERENCE", "sample_problems"]

Ints = tuple[int, ...]


def _move(op: Concatenate, inputs: Arrays, ctx: Context, errors: bool) -> Array:
    return np.concatenate([inputs[port] for port in op.INPUTS[0].connected(inputs)], op.axis)


def _joined(
    *dims: Ints, axis: int, strides: tuple[Ints | None, ...] = (), result: Ints | None = None
) -> Callable[[DataType], Graph]:
    def build(data_type: DataType) -> Graph:
        g = Graph(io_data_type=data_type)
        lies = strides or (None,) * len(dims)
        parts = [g.tensor(dims=d, strides=s) for d, s in zip(dims, lies, strict=True)]
        y = g.output(g.concatenate(parts, axis=axis), name="y")
        if result:
            y.set_stride(result)
        return g

    return build


def _with_itself(data_type: DataType) -> Graph:
    g = Graph(io_data_type=data_type)
    x = g.tensor(dims=(3, 5), name="x")
    g.concatenate([x, x, x], axis=0).set_output()
    return g


def _halves(data_type: DataType) -> Graph:
    # What was cut in two and is joined again: the input itself.
    g = Graph(io_data_type=data_type)
    x = g.tensor(dims=(6, 5), name="x")
    parts = [g.slice(x, starts=(a, 0), limits=(b, 5)) for a, b in ((0, 2), (2, 6))]
    g.concatenate(parts, axis=0).set_output()
    return g


def _rotated(data_type: DataType) -> Graph:
    # Rotary embedding: x · cos + (-x2, x1) · sin.
    g = sample_graph(data_type)
    x = g.tensor(dims=(2, 5, 16), name="x")
    cos, sin = g.tensor(dims=(1, 5, 16), name="cos"), g.tensor(dims=(1, 5, 16), name="sin")
    first = g.slice(x, starts=(0, 0, 0), limits=(2, 5, 8))
    second = g.slice(x, starts=(0, 0, 8), limits=(2, 5, 16))
    turned = g.concatenate([g.neg(second).set_data_type(data_type), first], axis=-1)
    g.output(g.add(g.mul(x, cos), g.mul(turned, sin)), name="y")
    return g


def _skip(nhwc: bool) -> Callable[[DataType], Graph]:
    """Return the builder of what every U-Net has: two images joined, then convolved."""

    def build(data_type: DataType) -> Graph:
        g = sample_graph(data_type)
        image, taps = (1, 4, 7, 9), (6, 8, 3, 3)

        def lies(dims: Ints) -> Ints | None:
            return channels_last_strides(dims) if nhwc else None

        a, b = (g.tensor(dims=image, strides=lies(image), name=n) for n in "ab")
        w = g.tensor(dims=taps, strides=lies(taps), name="w")
        both = g.concatenate([g.relu(a).set_data_type(data_type), b], axis=1)
        g.output(g.conv_fprop(both, w, padding=1), name="y")
        return g

    return build


def sample_problems() -> tuple[Sample, ...]:
    """Return the sample problems of concatenate."""
    sample = sampler("concatenate", ALL)
    a, b = (2, 6, 5, 7), (2, 3, 5, 7)
    last, odd = channels_last_strides, strides_in_order(b, (2, 0, 3, 1))
    gaps = tuple(padded_strides(a, range(4), (0, 1, 0, 2)))
    return (
        sample("first", _joined((3, 5), (4, 5), axis=0)),
        sample("last", _joined((3, 5), (3, 1), (3, 8), axis=-1), "size1"),
        sample("middle", _joined((2, 3, 7), (2, 5, 7), (2, 11, 7), axis=1), "prime"),
        sample("one", _joined((3, 5), axis=0), "alias"),
        sample("vectors", _joined((1,), (31,), (33,), axis=0), "size1 tile"),
        sample("many", _joined(*((2, n, 3) for n in range(1, 10)), axis=1)),
        sample("nhwc", _joined(a, b, axis=1, strides=(last(a), last(b))), "nhwc"),
        sample("mixed_layouts", _joined(a, b, axis=1, strides=(last(a), odd)), "mixed_layout"),
        sample("padded", _joined(a, b, axis=1, strides=(gaps, None)), "padded"),
        sample("broadcast", _joined(a, b, axis=1, strides=((35, 0, 7, 1), None)), "broadcast"),
        sample(
            "result_permuted",
            _joined(a, b, axis=1, result=last((2, 9, 5, 7))),
            "mixed_layout",
        ),
        sample("with_itself", _with_itself, "alias"),
        sample("halves", _halves, "chain alias"),
        sample("rotated", _rotated, "chain broadcast", FLOATS[:3]),
        sample("skip", _skip(nhwc=False), "chain", FLOATS),
        sample("skip_nhwc", _skip(nhwc=True), "chain nhwc", FLOATS),
    )


REFERENCE = moving(_move, sample_problems)
