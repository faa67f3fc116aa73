"""Small helpers of the sample problems."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph_api.dtypes import DataType
from ...graph_api.graph import Graph

__all__ = ["padded_strides", "sample_graph", "wide_type"]


def sample_graph(data_type: DataType, compute: DataType | None = None) -> Graph:
    """Return an empty graph with ``data_type`` for I/O and the compute type that suits it."""
    return Graph(io_data_type=data_type, compute_data_type=compute or wide_type(data_type))


def wide_type(data_type: DataType) -> DataType:
    """Return the type that sums of a type are usually kept in."""
    if data_type.is_float:
        return DataType.DOUBLE if data_type is DataType.DOUBLE else DataType.FLOAT
    return DataType.INT64 if data_type is DataType.INT64 else DataType.INT32


def padded_strides(dims: Sequence[int], order: Sequence[int], gaps: Sequence[int]) -> list[int]:
    """Return strides in memory order ``order`` with ``gaps[i]`` unused elements after dim i."""
    strides, step = [0] * len(dims), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= dims[axis] + gaps[axis]
    return strides
