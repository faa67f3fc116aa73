# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Slice: one strided slice per dim, which the compiler turns into offsets of loads."""

from __future__ import annotations

from collections.abc import Mapping

from ....graph_api.frozen import FrozenNode
from ....graph_api.ops.slice import Slice
from ...emit.builder import Builder, Value
from .view_copies import in_memory_order

__all__ = ["lower"]


def lower(b: Builder, node: FrozenNode, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Emit y[i] = x[starts + i · strides]."""
    op, x = node.op, inputs["x"]
    assert isinstance(op, Slice)
    bounds = tuple(zip(op.starts, op.limits, op.strides, strict=True))

    def sliced(values: list[Value], order: tuple[int, ...]) -> Value:
        (y,) = values
        for dim, axis in enumerate(order):
            y = b.slice(y, dim, *bounds[axis])
        return y

    return {"y": in_memory_order(b, [x], sliced)}
