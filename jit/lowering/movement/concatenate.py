# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Concatenate: each part of an output is written by the kernel that computes it (W-120)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cmp_to_key

from torch_mlir import ir

from ....graph_api.frozen import FrozenNode
from ....graph_api.ops.concatenate import Concatenate
from ...emit.builder import Builder, T, Value
from .view_copies import in_memory_order

__all__ = ["lower"]


def lower(b: Builder, node: FrozenNode, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Emit y = the tensors x[0], x[1]... concatenated along the axis."""
    op = node.op
    assert isinstance(op, Concatenate)
    parts = [inputs[port] for port in op.INPUTS[0].connected(inputs)]
    if b.avoids("W-120") and not b.node_plan.copied_results:
        return {"y": _part_by_part(b, parts, op.axis)}
    y = in_memory_order(
        b, parts, lambda v, order: b.concatenate(v, order.index(op.axis), stored=True)
    )
    return {"y": y}


def _part_by_part(b: Builder, parts: Sequence[Value], axis: int) -> Value:
    """Return what the output holds, with each part in its place.

    The compiler writes a part in place if the one that is stored before it is made before it.
    """
    y, order = b.contents("y")
    at, places = 0, []
    for part in parts:
        places.append(at)
        at += part.shape[axis]
    for place, part in sorted(zip(places, parts, strict=True), key=cmp_to_key(_made_earlier)):
        x = b.permute(b.convert(part, y.dtype), order)
        end, dim = place + part.shape[axis], order.index(axis)
        y = b.call(T.AtenSliceScatterOp, y.shape, y.dtype, y, x, dim, place, end, 1)
    return b.permute(y, [order.index(i) for i in range(len(order))])


def _made_earlier(one: tuple[int, Value], other: tuple[int, Value]) -> int:
    """Compare by the op that makes a part; arguments of the function come first."""
    left, right = (part.ssa.owner for _, part in (one, other))
    blocks = [isinstance(owner, ir.Block) for owner in (left, right)]
    if left == right or any(blocks):
        return blocks[1] - blocks[0]
    return -1 if left.is_before_in_block(right) else 1
