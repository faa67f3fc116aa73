"""What ops that only move elements share: working in the order in which the operand lies.

Cut, joined or framed in memory order, a tensor stays as it lies, so that the permutes before and
behind cancel; in logical order IREE makes a dispatch of its own for them.
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
    at place i, and returns a value in that order.  Values that lie differently stay logical.
    """
    orders = {value.order for value in values}
    order = orders.pop() if len(orders) == 1 else ()
    order = order or tuple(range(values[0].rank))
    moved = move([b.permute(value, order) for value in values], order)
    inverse = [order.index(axis) for axis in range(len(order))]
    return b.permute(moved, inverse)
