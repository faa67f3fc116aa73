"""Pad: what is cut off by slices, then frames of one value."""

from __future__ import annotations

from collections.abc import Mapping

from ....graph_api.frozen import FrozenNode
from ....graph_api.ops.pad import Pad
from ...emit.builder import Builder, Value
from ..padding import pad_with
from .view_copies import in_memory_order

__all__ = ["lower"]


def lower(b: Builder, node: FrozenNode, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Emit y = x within frames of ``value``, or without its edges where a padding is negative."""
    op, x = node.op, inputs["x"]
    assert isinstance(op, Pad)
    amounts = tuple(zip(op.pre_padding, op.post_padding, strict=True))

    def moved(values: list[Value], order: tuple[int, ...]) -> Value:
        (y,) = values
        for place, axis in enumerate(order):
            pre, post = amounts[axis]
            y = b.slice(y, place, max(-pre, 0), y.shape[place] - max(-post, 0))
        frame = [tuple(max(n, 0) for n in amounts[axis]) for axis in order]
        return pad_with(b, y, frame, op.value)

    return {"y": in_memory_order(b, [x], moved)}
