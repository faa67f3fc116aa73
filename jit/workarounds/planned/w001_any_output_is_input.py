# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-001: An output that is an input ends the compiler by SIGSEGV."""

from __future__ import annotations

from ....graph_api.dtypes import DataType
from ....graph_api.tensor import TensorSpec
from ...node_context import NodeContext
from ..rule import ALL, Workaround
from .w120_any_concatenated_output import part_by_part

__all__ = ["WORKAROUND"]


def _may_fold(context: NodeContext, port: str) -> bool:
    """Whether the compiler might find that an output is one of the graph's inputs.

    x + 0, x AND x, or a choice between x and x do, and any chain of ops that only move elements.
    """
    if not context.pointwise:
        return context.moves and not part_by_part(context)
    made = context.spec(port)
    given = (context.graph.tensors[uid] for uid in context.node.inputs.values())
    return any(_kind(x) is made.data_type and x.dims == made.dims for x in given)


def _kind(spec: TensorSpec) -> DataType:
    """Return the type of a value; constants of narrow floats enter as float32."""
    narrow = spec.value is not None and spec.data_type.is_float and spec.data_type.bits <= 8
    return DataType.FLOAT if narrow else spec.data_type


WORKAROUND = Workaround(
    id="W-001",
    title="An output that is an input ends the compiler by SIGSEGV",
    symptom="crash",
    targets=ALL,
    instead="a value that might be one is multiplied by 1, in its own kernel: nothing is copied",
    copied_outputs=_may_fold,
)
