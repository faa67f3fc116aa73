"""What of block-scaled numbers is declined."""

from __future__ import annotations

from collections.abc import Iterator

from ...graph_api.errors import Problem
from ...graph_api.frozen import FrozenGraph, FrozenNode
from ...graph_api.ops.block_scale_dequantize import BlockScaleDequantize
from ..target import Target
from .base import problem

__all__ = ["RULES", "problems"]

RULES: dict[str, str] = {
    "IREE-BLOCK-01": "scales are not negative, which hipDNN leaves undefined",
}


def problems(graph: FrozenGraph, node: FrozenNode, target: Target) -> Iterator[Problem]:
    """Yield why block-scaled numbers are not served."""
    op = node.op
    if isinstance(op, BlockScaleDequantize) and op.is_negative_scale:
        hint = "negate y instead"
        yield problem(node, "IREE-BLOCK-01", "is_negative_scale", "true", "false", hint)
