"""What of layer and RMS norms and their gradients is declined."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ...graph_api.errors import Problem
from ...graph_api.frozen import FrozenGraph, FrozenNode
from ...graph_api.ops.row_norms import normalised_dims
from ..target import Target
from .base import problem

__all__ = ["RULES", "problems"]

RULES: dict[str, str] = {
    "IREE-NORM-01": "norms for gfx9 whose long rows lie in one piece, or are a multiple of 64 long",
}

# Up to here IREE 3.13 unrolls a scattered row in good time on gfx9; 1000 take over a minute.
_SHORT_ROW = 210


def problems(graph: FrozenGraph, node: FrozenNode, target: Target) -> Iterator[Problem]:
    """Yield why a norm over rows is not served."""
    if target.is_gfx9 and (found := _scattered(graph, node)):
        hint = "make x contiguous, with the normalised dims last"
        yield problem(
            node, "IREE-NORM-01", "x", found, f"at most {_SHORT_ROW} elements a row", hint
        )


def _scattered(graph: FrozenGraph, node: FrozenNode) -> str:
    """Return what is wrong with the rows of a norm, or ``""``."""
    x, scale = (graph.tensors[node.inputs[port]] for port in ("x", "scale"))
    axes = normalised_dims(x.dims, scale.dims, getattr(node.op, "normalized_dim_count", 0))
    length = prod(x.dims[a] for a in axes)
    layout, rank = x.layout, len(x.dims)
    in_order = x.virtual or (layout.order == tuple(range(rank)) and not layout.broadcast)
    if in_order and axes == tuple(range(rank - len(axes), rank)):
        return ""
    if length <= _SHORT_ROW or length % 64 == 0:
        return ""
    return f"rows of {length} elements over dims {list(axes)}, strides {list(x.strides)}"
