# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which outputs of a graph's code may be given the memory of an input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..graph_api.frozen import FrozenGraph
from ..graph_api.layout import same_strides
from ..graph_api.tensor import TensorSpec
from .node_context import all_pointwise

__all__ = ["in_place_pairs"]

# Counts of `Compiled.statistics`: nothing reads the input again after the output is written.
_ONE_DISPATCH = {"dispatches": 1, "fills": 0, "copies": 0}


def in_place_pairs(
    graph: FrozenGraph, statistics: Mapping[str, Any]
) -> tuple[tuple[int, int], ...]:
    """Return the pairs (output, input), by uid, that one buffer may serve.

    Pointwise nodes with one result become one elementwise op, which writes an element after it
    has read all that the element depends on.  Of two results one may be stored before the operand
    of the other is read, and any other op may use the memory of its result meanwhile.

    Parameters
    ----------
    graph : FrozenGraph
    statistics : mapping
        Of the code (`Compiled.statistics`).
    """
    single = all(statistics.get(name) == count for name, count in _ONE_DISPATCH.items())
    if not single or graph.symbols or len(graph.outputs) != 1 or not all_pointwise(graph):
        return ()
    (output,) = graph.outputs
    made = graph.tensors[output]
    return tuple((output, uid) for uid in graph.arguments if _alike(made, graph.tensors[uid]))


def _alike(made: TensorSpec, read: TensorSpec) -> bool:
    """Whether each element of both has the same place, with whole bytes of its own."""
    return (
        not read.runtime_scalar
        and made.layout.dense
        and made.data_type.bits == read.data_type.bits >= 8
        and made.dims == read.dims
        and same_strides(made.dims, made.strides, read.strides)
    )
