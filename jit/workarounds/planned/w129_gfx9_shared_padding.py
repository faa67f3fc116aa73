# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-129: Convolutions pad one tensor by the same: the pad is shared, and fused with one of them.

Its result is then a second one of that convolution's kernel, whose fill is refused.  The same
happens to a convolution and the gradient of its filter (W-061), where a copy is enough; copies of
one tensor are the same value, and shared as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ....graph_api.ops.conv_fprop import ConvOp
from ...node_context import GraphContext, NodeContext
from ..rule import GFX9, Workaround

__all__ = ["WORKAROUND"]


def _padding(context: NodeContext) -> tuple[object, ...]:
    """Return what is padded, and by what."""
    op = context.op
    assert isinstance(op, ConvOp)
    if context.named("conv_dgrad"):
        facts = (context.dims("w")[2:], op.stride, op.dilation)
        return context.uid("dy"), op.pre_padding, op.post_padding, facts
    return context.op.NAME, context.uid("x"), op.pre_padding, op.post_padding


def _flags(around: GraphContext, nodes: Sequence[NodeContext]) -> Iterator[str]:
    """Copy a padded tensor into zeros, once, and read that."""
    padded = Counter(
        _padding(node)
        for node in nodes
        if isinstance(node.op, ConvOp)
        and (any((*node.op.pre_padding, *node.op.post_padding)) or node.named("conv_dgrad"))
    )
    if max(padded.values(), default=0) > 1:
        yield "--iree-flow-enable-pad-handling=false"
        yield "--iree-dispatch-creation-enable-fuse-padding-into-linalg-consumer-ops=false"


WORKAROUND = Workaround(
    id="W-129",
    title="Convolutions pad one tensor by the same: the pad is shared, and fused with one of them",
    symptom="does not compile",
    targets=GFX9,
    instead="paddings are not fused: what is padded is copied into zeros",
    flags=_flags,
)
