# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What ops that only move elements share: working in the operand's memory order.

Sliced, concatenated or padded in memory order, a tensor keeps its layout, so that the permutes
before and behind cancel; in logical order IREE makes a dispatch of its own for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...emit.builder import Builder, Value

__all__ = ["in_memory_order"]

Ints = tuple[int, ...]


def in_memory_order(
    b: Builder, values: Sequence[Value], move: Callable[[list[Value], Ints], Value]
) -> Value:
    """Return ``move(values, order)`` as a logical value.

    ``move`` gets the values with their dims in memory order, ``order[i]`` being the logical dim
    at place i, and returns a value in that order.  Values with different orders stay logical.
    """
    orders = {value.order for value in values}
    order = orders.pop() if len(orders) == 1 else ()
    order = order or tuple(range(values[0].rank))
    moved = move([b.permute(value, order) for value in values], order)
    inverse = [order.index(axis) for axis in range(len(order))]
    return b.permute(moved, inverse)
