# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-126: A convolution of values that depend on no argument, such as indices.

They are computed once, when the module is loaded, and their padding with them: it stands alone
there (W-054).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...node_context import GraphContext, NodeContext
from ...ops.hoisting import KEEP_EXPRESSIONS
from ..constants import constants
from ..rule import GFX9, Workaround

__all__ = ["WORKAROUND"]

_CONVOLUTIONS = ("conv_fprop", "conv_dgrad", "conv_wgrad")


def _flags(around: GraphContext, nodes: Sequence[NodeContext]) -> Iterator[str]:
    convolutions = (node.node.inputs for node in nodes if node.named(*_CONVOLUTIONS))
    padded = {uid for inputs in convolutions for port, uid in inputs.items() if port != "w"}
    if not padded.isdisjoint(constants(around.graph)):
        yield KEEP_EXPRESSIONS


WORKAROUND = Workaround(
    id="W-126",
    title="A convolution of values that depend on no argument",
    symptom="wrong numbers",
    targets=GFX9,
    instead="they are computed in each call",
    flags=_flags,
)
