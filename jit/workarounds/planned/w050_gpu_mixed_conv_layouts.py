# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-050: Convolution of a channels-first input with a channels-last filter.

Rows, columns and channels of the filter are taken for those of the input in another order.  Of an
input that is computed it is not known how it will be laid out (W-051), and one that is repeated
is copied (W-094).  All remedies were found
right by emulation; for CUDA filters are copied.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from enum import Enum

from ....graph_api.frozen import FrozenGraph, FrozenNode
from ....graph_api.ops.conv_fprop import ConvFprop
from ....graph_api.ops.pointwise import Pointwise
from ....graph_api.tensor import TensorSpec
from ...node_context import GraphContext, NodeContext
from ...ops.multiply_types import multiply_type
from ..rule import GPU, Workaround

__all__ = ["WORKAROUND"]


DIRECT = "--iree-codegen-llvmgpu-use-direct-convolution"
"""Bound to a process, not to a session (W-049): the command line tool compiles such graphs."""


class Remedy(Enum):
    """What is done where an input may be channels-first and the filter is channels-last."""

    COPIED = "the filter is copied, by two kernels"
    CHANNELS_LAST = "every convolution is made a channels-last one before it is fused"
    DIRECT = "convolutions are not decomposed into a matmul over patches"


def remedy(around: GraphContext) -> Remedy:
    """Return what is done: one remedy for the whole graph."""
    return around.once(remedy, lambda: _remedy(around))


def _remedy(around: GraphContext) -> Remedy:
    graph = around.graph
    convs = [node for node in graph.nodes if isinstance(node.op, ConvFprop)]
    inputs = set(graph.inputs)
    mixed = [node for node in convs if _mixed(graph, node, inputs)]
    known = all(isinstance(node.op, ConvFprop | Pointwise) for node in graph.nodes)
    if not around.target.is_gfx9 or not mixed or not known:
        return Remedy.COPIED
    if not all(_simple(graph, node) for node in convs):
        return Remedy.COPIED
    if all(_all_last(graph, node) for node in graph.nodes):
        return Remedy.CHANNELS_LAST
    # Strided ones are decomposed all the same.
    strides = {s for node in mixed if isinstance(node.op, ConvFprop) for s in node.op.stride}
    padded = all(_padded_along_rows(node.op) for node in convs if isinstance(node.op, ConvFprop))
    return Remedy.DIRECT if strides == {1} and padded else Remedy.COPIED


def _padded_along_rows(op: ConvFprop) -> bool:
    """Whether there is padding in front of each row, if there is any.

    Without, the kernel of `Remedy.DIRECT` leaves out what is in front of and behind the rows.
    """
    return op.pre_padding[-1] > 0 or not any((*op.pre_padding, *op.post_padding))


def _fits(spec: TensorSpec, order: Iterable[int]) -> bool:
    """Whether the dims that have an extent are in this order."""
    live = [axis for axis in spec.layout.order if spec.dims[axis] > 1]
    return live == [axis for axis in order if spec.dims[axis] > 1]


def _last(spec: TensorSpec) -> bool:
    """Whether a tensor is channels-last, or may be said to be."""
    return _fits(spec, (0, *range(2, len(spec.dims)), 1))


def _first(spec: TensorSpec) -> bool:
    """Whether a tensor is channels-first, or may be said to be."""
    return _fits(spec, range(len(spec.dims)))


def _mixed(graph: FrozenGraph, node: FrozenNode, inputs: Container[int]) -> bool:
    """Whether a channels-last filter may meet a channels-first input."""
    x, w = (graph.tensors[node.inputs[port]] for port in ("x", "w"))
    computed = node.inputs["x"] not in inputs or bool(x.layout.broadcast)
    return _last(w) and not _first(w) and (computed or not _last(x))


def _simple(graph: FrozenGraph, node: FrozenNode) -> bool:
    """Whether the convolution is two-dimensional, of one group, in floats of 16 or 32 bits."""
    x, w = (graph.tensors[node.inputs[port]] for port in ("x", "w"))
    kinds = {x.data_type, w.data_type}
    plain = len(kinds) == 1 and all(t.is_float and t.bits in (16, 32) for t in kinds)
    return plain and len(x.dims) == 4 and x.dims[1] == w.dims[1]


def _all_last(graph: FrozenGraph, node: FrozenNode) -> bool:
    """Whether a node's tensors are channels-last; broadcast ones may be laid out otherwise."""
    specs = [graph.tensors[uid] for uid in (*node.inputs.values(), *node.outputs.values())]
    if isinstance(node.op, Pointwise):
        specs = [spec for spec in specs if spec.dims == specs[-1].dims]
    return all(map(_last, specs))


def _node(context: NodeContext) -> bool:
    """Whether a filter is copied: unless it and its input are surely channels-last."""
    if not isinstance(context.op, ConvFprop):
        return False
    x, w = context.operands["x"], context.operands["w"]
    kinds = [context.kind(port) for port in ("x", "w")]
    if multiply_type(context.target, context.compute, *kinds) is not kinds[1] or w.broadcast:
        return False  # a copy in any case
    given = x.argument and not x.broadcast
    if not w.order or w.channels_first or (given and x.channels_last and w.channels_last):
        return False
    return remedy(context.around) is Remedy.COPIED


def _flags(around: GraphContext, nodes: Sequence[NodeContext]) -> Iterator[str]:
    if remedy(around) is Remedy.DIRECT:
        yield DIRECT


WORKAROUND = Workaround(
    id="W-050",
    title="Convolution of a channels-first input with a channels-last filter",
    symptom="wrong numbers",
    targets=GPU,
    instead="the filter is materialised; or convolutions are no matmul over patches",
    node=_node,
    flags=_flags,
)
