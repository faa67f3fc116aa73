"""Explicit padding: a tensor within a frame of one value."""

from __future__ import annotations

from collections.abc import Sequence

from ..emit.builder import Builder, T, Value

__all__ = ["pad_with"]


def pad_with(b: Builder, x: Value, frame: Sequence[tuple[int, ...]], value: float) -> Value:
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
