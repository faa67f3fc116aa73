# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-098: A computed operand of a data-tiled batch of matmuls is packed as if it were one matrix.

What makes the operand works on the rows of all matrices in one dim, b m of them, as it does where
it adds a bias to each row, converts the rows for another node too, or transposes an operand in
whose memory one dim of the matrices is outside of the batch.  The packing takes that dim for the
one to be tiled, though each matrix has tiles of its own, the last one padded.  Numbers are wrong
from the second matrix on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import prod

from ...node_context import GraphContext, NodeContext
from ..rule import CPU, Workaround

__all__ = ["WORKAROUND"]

_TILES = (2, 4, 8, 16, 32)  # those of x86-64 and AArch64


def _operands(context: NodeContext) -> Iterator[str]:
    if not context.named("matmul") or (batch := prod(context.dims("c")[:-2])) == 1:
        return
    around = context.around
    computed = around.once("computed", lambda: _computed(around))
    mixed = context.kind("a") is not context.kind("b")  # else they are multiplied as they are
    for port, uid in context.node.inputs.items():
        converted = mixed and around.readers[uid] > 1 and context.kind(port) is not context.compute
        apart = _apart(context.operands[port].order, context.dims(port))
        made = uid in computed or converted or apart
        if made and (context.dynamic or _mixed(batch, *context.dims(port)[-2:])):
            yield port


def _apart(order: Sequence[int], dims: Sequence[int]) -> bool:
    """Whether memory has one dim of the matrices outside of the batch, and the other inside."""
    of_batch = [axis < len(dims) - 2 for axis in order if dims[axis] > 1]
    changes = sum(one != other for one, other in pairwise(of_batch))
    return changes > 1 and not of_batch[-1]


def _computed(around: GraphContext) -> set[int]:
    """Return what nodes make that do more than move elements, and what is moved of that.

    Tensors of more than three dims are joined on as few as there may be, so on b m rows.
    """
    found: set[int] = set()
    for node in around.graph.nodes:
        context = NodeContext(around, node)
        joined = context.named("concatenate") and len(context.dims("y")) > _KEPT
        if joined or not (context.moves and found.isdisjoint(node.inputs.values())):
            found.update(node.outputs.values())
    return found


_KEPT = 3  # dims of tensors that are joined as they are


def _mixed(batch: int, *extents: int) -> bool:
    """Whether tiles of all rows are as many as those of each matrix, some of which are padded.

    Where they are not, the shapes of the two packings differ, and the compiler keeps them apart.
    """
    return batch > 1 and any(
        extent % tile and batch * -(-extent // tile) == -(-batch * extent // tile)
        for extent in extents
        for tile in _TILES
    )


WORKAROUND = Workaround(
    id="W-098",
    title="A computed operand of a data-tiled batch of matmuls is packed across matrices",
    symptom="wrong numbers",
    targets=CPU,
    instead="the operand is materialised",
    operands=_operands,
    applies=_mixed,
)
