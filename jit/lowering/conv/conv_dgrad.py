# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Data gradient of a convolution: each strategy has a module of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ....graph_api.enums import ConvMode
from ....graph_api.frozen import FrozenNode
from ....graph_api.ops.conv_dgrad import ConvDgrad
from ...emit.builder import Builder, Value
from ...ops.convolution import CHANNELS_LAST
from ...ops.dgrad_cost import PHASES
from ...ops.dgrad_geometry import filters_overlap
from ..accumulate import operands
from .conv_fprop import doubled, is_last
from .depthwise import data_gradient
from .dgrad_flipped import flipped
from .dgrad_gemm_col2im import gemm_col2im
from .dgrad_patches import patches
from .dgrad_phases import by_phases
from .dgrad_transposed import transposed
from .plain_gradient import backward

__all__ = ["lower"]


def lower(b: Builder, node: FrozenNode, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Emit dx, the transpose of conv(·, w) applied to dy."""
    op, plain = node.op, b.strategy == "plain"
    assert isinstance(op, ConvDgrad)
    # The batch may be dynamic, which the op's own dims do not say.
    op = replace(op, dx_dims=(inputs["dy"].shape[0], *op.dx_dims[1:]))
    widen = b.avoids("W-013") and not plain
    given = inputs["dy"], inputs["w"]
    dy, w, accumulate = operands(b, *given, node.compute_data_type, widen=widen)
    if b.avoids("W-059") and not plain:
        dy, w = doubled(b, dy, 1), doubled(b, w, 0)
    last = is_last(inputs["dy"])
    if b.strategy == CHANNELS_LAST:
        w = b.flip(w, range(2, w.rank)) if op.conv_mode is ConvMode.CONVOLUTION else w
        return {"dx": data_gradient(b, dy, w, op, accumulate)}
    if b.strategy == "flipped" and filters_overlap(w.shape, op):
        return {"dx": flipped(b, dy, w, op, accumulate, last=last)}
    if op.conv_mode is ConvMode.CONVOLUTION:
        w = b.flip(w, range(2, w.rank))
    if b.strategy == PHASES:
        return {"dx": by_phases(b, dy, w, op, accumulate, last=last)}
    if plain:
        x = b.literal(0, dy.dtype, op.dx_dims)
        return {"dx": backward(b, dy, x, w, op, accumulate, which=0)}
    emit = {"transposed": transposed, "gemm_col2im": gemm_col2im}.get(b.strategy, patches)
    return {"dx": emit(b, dy, w, op, accumulate)}
