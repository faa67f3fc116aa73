# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Concatenate: where it fuses, each part is written by the kernel that computes it."""

from __future__ import annotations

from collections.abc import Mapping

from ....graph_api.frozen import FrozenNode
from ....graph_api.ops.concatenate import Concatenate
from ...emit.builder import Builder, Value
from .view_copies import in_memory_order

__all__ = ["lower"]


def lower(b: Builder, node: FrozenNode, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Emit y = the tensors x[0], x[1]... concatenated along the axis."""
    op = node.op
    assert isinstance(op, Concatenate)
    parts = [inputs[port] for port in op.INPUTS[0].connected(inputs)]
    y = in_memory_order(b, parts, lambda v, order: b.concatenate(v, order.index(op.axis)))
    return {"y": y}
