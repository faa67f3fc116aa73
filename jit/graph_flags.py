"""Compiler flags that single graphs need, by the ops they have."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..graph_api.frozen import FrozenGraph, FrozenNode
from ..graph_api.ops.attention import AttentionOp
from ..graph_api.ops.conv_dgrad import ConvDgrad
from ..graph_api.ops.conv_fprop import ConvFprop, ConvOp
from ..graph_api.ops.layernorm import Layernorm
from ..graph_api.ops.layernorm_backward import LayernormBackward
from ..graph_api.ops.matmul import Matmul
from ..graph_api.ops.pad import Pad
from ..graph_api.ops.resample_fwd import ResampleOp
from ..graph_api.ops.reshape import Reshape
from ..graph_api.ops.rmsnorm import Rmsnorm
from ..graph_api.ops.row_norms import normalised_dims
from ..graph_api.ops.transpose import Transpose
from .lowering.forms_conv import takes_frame
from .lowering.forms_other import tiles_batches
from .target import Target

__all__ = ["graph_flags"]


def graph_flags(graph: FrozenGraph, target: Target, forms: Sequence[str]) -> tuple[str, ...]:
    """Return the flags of iree-compile for a graph, beyond those of its target and its forms.

    ``forms`` are those of its nodes (``lowering.forms.choose``).
    """
    flags = []
    attends = any(isinstance(node.op, AttentionOp) for node in graph.nodes)
    if attends or any(_has_table(graph, node, target) for node in graph.nodes):
        # Distances between queries and keys, positions in an image and frames stay expressions
        # of indices: hoisted, they would be a table in device memory, filled when the module is
        # loaded.
        flags.append("--iree-opt-const-expr-hoisting=false")
    if target.is_cpu and tiles_batches(graph, forms):
        # IREE 3.13 mixes up the batches of a data-tiled product that is fused with what divides
        # its rows: wrong numbers from the second batch entry on.
        flags.append("--iree-dispatch-creation-data-tiling=false")
    if target.is_gfx9 and any(_pads_rows_twice(graph, node) for node in graph.nodes):
        # By default rows are joined with the zeros behind them in transposed memory, where one
        # thread adds up a row, with all of it unrolled: 210 f16 elements take over a minute.
        flags.append("--iree-opt-outer-dim-concat=false")
    if target.arch == "gfx950" and _splits_a_product(graph):
        # IREE 3.13 copies operands straight to LDS there.  Where a product's dims are split and
        # the wavefronts of a workgroup do not divide the rows of a tile, as with 3 heads, all but
        # the first wavefront copy nothing: wrong numbers (found by emulation).
        flags.append("--iree-llvmgpu-use-direct-load=false")
    return tuple(flags)


def _splits_a_product(graph: FrozenGraph) -> bool:
    """Return whether there are products, and dims that are split or moved, in one graph."""
    ops = [node.op for node in graph.nodes]
    return any(isinstance(op, Matmul | ConvOp) for op in ops) and any(
        isinstance(op, Reshape | Transpose) for op in ops
    )


def _has_table(graph: FrozenGraph, node: FrozenNode, target: Target) -> bool:
    """Return whether the code of a node has a tensor that depends on no operand."""
    op = node.op
    if isinstance(op, ResampleOp):
        return True
    if not target.is_gfx9:
        return False
    if isinstance(op, ConvFprop):
        # A frame that holds a whole filter: there the result is that of no element of the image.
        # And one that is joined on.
        x, w = (graph.tensors[node.inputs[port]].dims for port in ("x", "w"))
        extents = [d * (k - 1) + 1 for d, k in zip(op.dilation, w[2:], strict=True)]
        frames = zip(op.pre_padding, op.post_padding, extents, strict=True)
        held = any(max(pre, post) >= extent for pre, post, extent in frames)
        return held or takes_frame(x, w, op)
    if isinstance(op, ConvDgrad):
        # One dilated channel of one image, which is doubled and gets a frame.
        dy = graph.tensors[node.inputs["dy"]].dims
        return dy[:2] == (1, 1) and max(op.stride) == 1 < max(op.dilation)
    if isinstance(op, Layernorm | Rmsnorm):
        # Rows that are completed to whole wavefronts are read by a list of places.
        return _row_length(graph, node) % 64 != 0
    return isinstance(op, Pad)


def _row_length(graph: FrozenGraph, node: FrozenNode) -> int:
    """Return how many elements a norm's row has."""
    x, scale = (graph.tensors[node.inputs[port]].dims for port in ("x", "scale"))
    axes = normalised_dims(x, scale, getattr(node.op, "normalized_dim_count", 0))
    return prod(x[axis] for axis in axes)


def _pads_rows_twice(graph: FrozenGraph, node: FrozenNode) -> bool:
    """Return whether a node needs statistics of its own, of rows that are no multiple of 64."""
    if not isinstance(node.op, LayernormBackward) or "mean" in node.inputs:
        return False
    n = _row_length(graph, node)
    return n > 64 and n % 64 != 0
