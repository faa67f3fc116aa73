"""What the forms of batch normalisation with given statistics share."""

from __future__ import annotations

from collections.abc import Iterator

from ...graph_api.frozen import FrozenNode
from .counts import per_element
from .op_info import Marks, OpInfo, dynamic_axes

__all__ = ["INFERENCE"]


def _dynamic(node: FrozenNode, marks: Marks) -> Iterator[tuple[str, int]]:
    yield from ((port, axis) for port, axis in dynamic_axes(marks, "x") if axis == 1)


INFERENCE = OpInfo(
    work=per_element("x", 4), dynamic=_dynamic, dynamic_gfx9=lambda context, marks: ()
)
"""Of batch normalisation with a fixed mean and deviation (or variance)."""
