# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-134: What depends on no argument is computed by code for the CPU, with the defects of that.

The compiler does it while it compiles, of indices say.  Rules for the CPU (W-008, W-101) are not
asked for code of a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...node_context import GraphContext, NodeContext
from ...ops.hoisting import KEEP_EXPRESSIONS
from ..constants import constants
from ..rule import GPU, Workaround

__all__ = ["WORKAROUND"]


def _flags(around: GraphContext, nodes: Sequence[NodeContext]) -> Iterator[str]:
    known = constants(around.graph)
    given = [set(node.node.inputs.values()) for node in nodes]
    if any(inputs <= known for inputs in given):
        yield KEEP_EXPRESSIONS


WORKAROUND = Workaround(
    id="W-134",
    title="What depends on no argument is computed by code for the CPU, with the defects of that",
    symptom="wrong numbers",
    targets=GPU,
    instead="it is computed in each call",
    flags=_flags,
)
