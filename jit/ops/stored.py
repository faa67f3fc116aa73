# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How an operand lies in memory, as far as what reads it in place is concerned."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from ...graph_api.ops.transpose import Transpose
from ..node_context import NodeContext

__all__ = ["Stored", "stored"]

Ints = tuple[int, ...]


class Stored(NamedTuple):
    """The memory that an operand is read from.

    Attributes
    ----------
    strides : tuple of int
        Elements between neighbours along each dim of the operand.  What the graph computes is
        stored by rows.
    constant : bool
        Whether it is known when the code is made.
    """

    strides: Ints
    constant: bool


def stored(context: NodeContext, port: str) -> Stored:
    """Return where an operand is read from, which is an argument where that is only transposed.

    The compiler folds a transpose into what reads it.
    """
    uid, makers, order = context.uid(port), context.around.makers, range(len(context.dims(port)))
    axes = tuple(order)
    while (maker := makers.get(uid)) and isinstance(maker.op, Transpose):
        axes = tuple(maker.op.permutation[axis] for axis in axes)
        uid = maker.inputs["x"]
    spec = context.graph.tensors[uid]
    strides = spec.strides
    if uid in makers:
        strides = tuple(prod(spec.dims[axis + 1 :]) for axis in order)
    return Stored(tuple(strides[axis] for axis in axes), spec.constant)
