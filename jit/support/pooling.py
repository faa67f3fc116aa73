"""What of pooling is declined."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ...graph_api.errors import Problem
from ...graph_api.frozen import FrozenGraph, FrozenNode
from ...graph_api.ops.resample_bwd import ResampleBwd
from ...graph_api.ops.resample_fwd import ResampleFwd, ResampleOp
from ..target import Target
from .base import problem

__all__ = ["RULES", "problems"]

RULES: dict[str, str] = {
    "IREE-POOL-01": "a window whose position is kept has at most 128 elements, and another one "
    "at most 128 along a dim, unless it is the whole of it",
    "IREE-POOL-02": "at most 128 windows cover one element when a gradient is computed",
}

# Each tap is an op of its own; compile time grows faster than their number.
_TAPS = 128


def problems(graph: FrozenGraph, node: FrozenNode, target: Target) -> Iterator[Problem]:
    """Yield why a pooling op is not served."""
    op = node.op
    if isinstance(op, ResampleOp) and op.resizes:
        return
    if isinstance(op, ResampleFwd):
        y = graph.tensors[node.outputs["y"]].dims[2:]
        whole = not op.padded
        long = [w for w, n in zip(op.window, y, strict=True) if not (whole and n == 1)]
        if (op.generate_index and prod(op.window) > _TAPS) or max(long, default=0) > _TAPS:
            hint = "pool in two steps" if not op.generate_index else ""
            wanted = f"at most {_TAPS} taps"
            yield problem(node, "IREE-POOL-01", "window", list(op.window), wanted, hint)
    if isinstance(op, ResampleBwd):
        dy = graph.tensors[node.inputs["dy"]].dims[2:]
        over = [min(-(-w // s), n) for w, s, n in zip(op.window, op.stride, dy, strict=True)]
        if prod(over) > _TAPS:
            wanted = f"at most {_TAPS} windows over an element"
            yield problem(node, "IREE-POOL-02", "window", f"{prod(over)} of them", wanted)
