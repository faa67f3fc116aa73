# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pad: slices crop the edges, then constants are added."""

from __future__ import annotations

from collections.abc import Mapping

from ....graph_api.frozen import FrozenNode
from ....graph_api.ops.pad import Pad
from ...emit.builder import Builder, Value
from ..padding import pad_with
from .view_copies import in_memory_order

__all__ = ["lower"]


def lower(b: Builder, node: FrozenNode, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Emit y = x padded with ``value``, or cropped where a padding is negative."""
    op, x = node.op, inputs["x"]
    assert isinstance(op, Pad)
    amounts = tuple(zip(op.pre_padding, op.post_padding, strict=True))

    def padded(values: list[Value], order: tuple[int, ...]) -> Value:
        (y,) = values
        for dim, axis in enumerate(order):
            pre, post = amounts[axis]
            y = b.slice(y, dim, max(-pre, 0), y.shape[dim] - max(-post, 0))
        padding = [tuple(max(n, 0) for n in amounts[axis]) for axis in order]
        return pad_with(b, y, padding, op.value)

    return {"y": in_memory_order(b, [x], padded)}
