"""Pad: what is cut off by slices, then frames of one value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....graph_api.frozen import FrozenNode
from ....graph_api.ops.pad import Pad
from ...emit.builder import Builder, T, Value
from .view_copies import in_memory_order

__all__ = ["framed", "lower"]


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
        return framed(b, y, frame, op.value)

    return {"y": in_memory_order(b, [x], moved)}


def framed(b: Builder, x: Value, frame: Sequence[tuple[int, ...]], value: float) -> Value:
    """Return x within a frame of one value: (before, behind) for each dim."""
    if not any(map(any, frame)):
        return x
    if b.strikes("W-054"):
        return _joined(b, x, frame, value)
    shape = [pre + n + post for n, (pre, post) in zip(x.shape, frame, strict=True)]
    amounts = [n for pair in reversed(frame) for n in pair]  # Torch counts from the last dim
    return b.call(T.AtenConstantPadNdOp, shape, x.dtype, x, amounts, b.element(value, x.dtype))


def _joined(b: Builder, x: Value, frame: Sequence[tuple[int, ...]], value: float) -> Value:
    """Return x concatenated with its frame, dim by dim."""
    for axis, (pre, post) in enumerate(frame):
        before, behind = (
            [b.literal(value, x.dtype, [n if i == axis else d for i, d in enumerate(x.shape)])]
            if n
            else []
            for n in (pre, post)
        )
        x = b.concatenate([*before, x, *behind], axis)
    return x
