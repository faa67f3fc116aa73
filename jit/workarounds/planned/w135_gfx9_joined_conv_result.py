# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-135: The result of a convolution is joined with something along its width, such as padding.

To be joined along their outermost dim, parts are transposed.  That transpose moves through
elementwise loops into the convolution, which mixes up its spatial dims as in W-052.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from ...node_context import GraphContext, NodeContext, is_named
from ...ops.conv_geometry import Convolution
from ..rule import GFX9, Workaround

if TYPE_CHECKING:
    from ....graph_api.ops.concatenate import Concatenate
    from ....graph_api.ops.conv_fprop import ConvFprop
    from ....graph_api.ops.pad import Pad
    from ....graph_api.ops.resample_fwd import ResampleFwd

__all__ = ["WORKAROUND"]


def _operands(context: NodeContext) -> Iterator[str]:
    if _joins(context):
        behind = context.around.once("behind convolutions", lambda: _behind(context.around))
        yield from (port for port, uid in context.node.inputs.items() if uid in behind)


def _joins(context: NodeContext) -> bool:
    """Whether a node joins along a spatial dim that is not the first one."""
    if context.named("concatenate"):
        return cast("Concatenate", context.op).axis > 2
    if context.named("pad"):
        pad = cast("Pad", context.op)
        return any((*pad.pre_padding[3:], *pad.post_padding[3:]))
    if context.named("resample_fwd", "conv_fprop"):
        window = cast("ResampleFwd | ConvFprop", context.op)
        padded = any((*window.pre_padding[1:], *window.post_padding[1:]))
        return padded and (context.named("resample_fwd") or _explicitly(context))
    return False


def _explicitly(context: NodeContext) -> bool:
    """Whether a convolution's padding is a concatenation with zeros."""
    x, w = context.dims("x"), context.dims("w")
    conv = Convolution(x, w, cast("ConvFprop", context.op), computed=True)
    return bool(conv.explicit_padding(context.target))


def _behind(around: GraphContext) -> set[int]:
    """Return the results of convolutions, and what is computed from them."""
    found: set[int] = set()
    for node in around.graph.nodes:
        if is_named(node.op, "conv") or not found.isdisjoint(node.inputs.values()):
            found.update(node.outputs.values())
    return found


WORKAROUND = Workaround(
    id="W-135",
    title="The result of a convolution is joined with something along its width",
    symptom="wrong numbers",
    targets=GFX9,
    instead="what is joined is materialised",
    operands=_operands,
)
