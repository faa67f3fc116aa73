"""Reshape: NumPy's, in row-major order of the logical dims."""

from __future__ import annotations

from functools import partial

from ...graph_api.dtypes import DataType
from ...graph_api.graph import Graph
from ...graph_api.layout import strides_in_order
from ...graph_api.ops.reshape import Reshape
from .base import FLOATS, Arrays, Context, Sample, sampler
from .building import sample_graph
from .convert import Array
from .movement import ALL, LAYOUTS, moving, one

__all__ = ["REFERENCE", "sample_problems"]


def _move(op: Reshape, inputs: Arrays, ctx: Context, errors: bool) -> Array:
    return inputs["x"].reshape(ctx.outputs["y"].dims)


def _by_result_dims(data_type: DataType) -> Graph:
    g = Graph(io_data_type=data_type)
    g.reshape(g.tensor(dims=(4, 6))).set_dim((2, 2, 6)).set_output()
    return g


def _heads(data_type: DataType, rows: int = 10, inner: int = 24, depth: int = 8) -> Graph:
    # (rows, heads · depth) as attention takes it: (1, heads, rows, depth).
    g = sample_graph(data_type)
    x, w = g.tensor(dims=(rows, inner), name="x"), g.tensor(dims=(inner, 3 * depth), name="w")
    split = g.reshape(g.matmul(x, w), dim=(1, rows, 3, depth))
    heads = g.transpose(split, permutation=(0, 2, 1, 3))
    g.output(g.relu(heads), name="y")
    return g


def _there_and_back(data_type: DataType) -> Graph:
    g = Graph(io_data_type=data_type)
    flat = g.reshape(g.tensor(dims=(3, 5, 4)), dim=-1)
    g.reshape(flat, dim=(3, 5, 4)).set_output()
    return g


def _shared(data_type: DataType) -> Graph:
    g = sample_graph(data_type)
    x = g.tensor(dims=(6, 10), name="x")
    rows = g.output(g.reshape(x, dim=(60,)), name="rows")
    g.output(g.reduction(g.reshape(rows, dim=(15, 4)), mode="add", axes=1), name="sums")
    return g


def sample_problems() -> tuple[Sample, ...]:
    """Return the sample problems of reshape."""
    sample = sampler("reshape", ALL)
    result = strides_in_order((10, 42), (1, 0))
    return (
        sample("flatten", one(lambda g, x: g.reshape(x, dim=-1), (4, 5, 6))),
        sample("split", one(lambda g, x: g.reshape(x, dim=(4, -1, 3)), (8, 15))),
        sample("other_borders", one(lambda g, x: g.reshape(x, dim=(9, 4)), (6, 6))),
        sample("primes", one(lambda g, x: g.reshape(x, dim=(11, 7, 13)), (7, 13, 11)), "prime"),
        sample("same", one(lambda g, x: g.reshape(x, dim=(5, 7)), (5, 7)), "alias"),
        sample("ones", one(lambda g, x: g.reshape(x, dim=(1, 1, 1)), (1,)), "size1 alias"),
        sample("unit_dims", one(lambda g, x: g.reshape(x, dim=(1, 6, 1, 5)), (6, 5)), "size1"),
        sample("by_result_dims", _by_result_dims),
        *(
            sample(name, one(lambda g, x: g.reshape(x, dim=(10, 42)), strides=strides), tags)
            for name, strides, tags in LAYOUTS
        ),
        sample(
            "result_permuted",
            one(lambda g, x: g.reshape(x, dim=(10, 42)), result=result),
            "mixed_layout",
        ),
        sample("there_and_back", _there_and_back, "chain alias"),
        sample("heads", _heads, "chain", FLOATS),
        sample("heads_tile", partial(_heads, rows=16, inner=32, depth=16), "chain tile", FLOATS),
        sample("shared", _shared, "chain shared_output", FLOATS),
    )


REFERENCE = moving(_move, sample_problems)
