# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Inputs that hold the same numbers at each execution, such as the weights of a model.

Code for a graph with constants takes them once, before its first execution.  What follows from
them alone, a filter in the layout of a kernel for one, is computed then and not at each execution.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from .frozen import FrozenGraph
from .tensor import TensorSpec

__all__ = ["SCOPE", "hold"]

SCOPE = "constants"
"""By which compiled code asks for the constants of its graph, each by its number."""


def hold(graph: FrozenGraph, uids: Iterable[int]) -> FrozenGraph:
    """Return the graph with some of its inputs marked as constants.

    Dense tensors of floats with 16 bits or more are marked; others stay plain inputs, as do all
    where nothing else is an input, or where dims are only known at execution.

    Parameters
    ----------
    graph : FrozenGraph
    uids : iterable of int
        Uids that are no input are passed over.
    """
    wanted = set(uids)
    found = {u for u in graph.inputs if u in wanted and _can_be_held(graph.tensors[u])}
    if not found or graph.symbols or found >= set(graph.inputs):
        return graph
    specs = {
        uid: replace(spec, constant=True) if uid in found else spec
        for uid, spec in graph.tensors.items()
    }
    return replace(graph, tensors=specs)


def _can_be_held(spec: TensorSpec) -> bool:
    plain = not spec.runtime_scalar and spec.ragged_offset_uid is None
    floats = spec.data_type.is_float and spec.data_type.bits >= 16
    return plain and floats and spec.layout.dense
