# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Explicit padding of a tensor with a constant."""

from __future__ import annotations

from collections.abc import Sequence

from ..emit.builder import Builder, T, Value

__all__ = ["pad_with"]


def pad_with(b: Builder, x: Value, padding: Sequence[tuple[int, ...]], value: float) -> Value:
    """Return x padded with a constant: (before, after) for each dim."""
    if not any(map(any, padding)):
        return x
    if b.strikes("W-054"):
        return _concatenated(b, x, padding, value)
    shape = [pre + n + post for n, (pre, post) in zip(x.shape, padding, strict=True)]
    amounts = [n for pair in reversed(padding) for n in pair]  # Torch counts from the last dim
    return b.call(T.AtenConstantPadNdOp, shape, x.dtype, x, amounts, b.element(value, x.dtype))


def _concatenated(b: Builder, x: Value, padding: Sequence[tuple[int, ...]], value: float) -> Value:
    """Return x concatenated with its padding, dim by dim."""
    for axis, (pre, post) in enumerate(padding):
        before, behind = (
            [b.literal(value, x.dtype, [n if i == axis else d for i, d in enumerate(x.shape)])]
            if n
            else []
            for n in (pre, post)
        )
        x = b.concatenate([*before, x, *behind], axis)
    return x
