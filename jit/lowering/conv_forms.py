"""How IREE is told to compile a graph's convolutions for gfx9: one form for the whole graph.

IREE 3.13 computes wrong numbers where an image lies channels-first and its filter channels-last
(the rows, columns and channels of a filter are taken for those of the image in another order), and
it lets values between two convolutions lie channels-first whatever their strides say, for they
have no memory that a user sees.  Three forms avoid that; all were found right by emulation.

This module decides from the graph alone and imports neither torch-mlir nor the compiler, since
the flags are part of the cache key.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from ...graph_api.frozen import FrozenGraph, FrozenNode
from ...graph_api.ops.conv_fprop import ConvFprop
from ...graph_api.ops.pointwise import Pointwise
from ...graph_api.tensor import TensorSpec
from ..target import Target

__all__ = ["FLAGS", "ConvForm", "conv_form"]


class ConvForm(Enum):
    """What is done where an image may lie channels-first and the filter lies channels-last."""

    COPIED = "the filter is copied, by two kernels"
    CHANNELS_LAST = "every convolution is turned into a channels-last one before it is fused"
    DIRECT = "convolutions are not decomposed into a matrix product over patches"


FLAGS: dict[ConvForm, tuple[str, ...]] = {
    ConvForm.COPIED: (),
    ConvForm.CHANNELS_LAST: (
        "--iree-preprocessing-pass-pipeline="
        "builtin.module(iree-preprocessing-backward-data-conv-pipeline,"
        "util.func(iree-preprocessing-convert-conv-to-channels-last))",
    ),
    # Bound to a process, not to a session: the command line tool compiles such graphs.
    ConvForm.DIRECT: ("--iree-codegen-llvmgpu-use-direct-convolution",),
}
"""Flags of iree-compile for each form."""


def conv_form(graph: FrozenGraph, target: Target) -> ConvForm:
    """Return the form of a graph's convolutions."""
    convs = [node for node in graph.nodes if isinstance(node.op, ConvFprop)]
    mixed = [node for node in convs if _mixed(graph, node)]
    if not target.is_gfx9 or not mixed:
        return ConvForm.COPIED
    known = all(isinstance(node.op, ConvFprop | Pointwise) for node in graph.nodes)
    if not known or not all(_simple(graph, node) for node in convs):
        return ConvForm.COPIED
    if all(_all_last(graph, node) for node in graph.nodes):
        return ConvForm.CHANNELS_LAST
    # Strided ones are decomposed all the same.
    strides = {s for node in mixed if isinstance(node.op, ConvFprop) for s in node.op.stride}
    return ConvForm.DIRECT if strides == {1} else ConvForm.COPIED


def _fits(spec: TensorSpec, order: Iterable[int]) -> bool:
    """Whether the dims that have an extent lie in this order."""
    live = [axis for axis in spec.layout.order if spec.dims[axis] > 1]
    return live == [axis for axis in order if spec.dims[axis] > 1]


def _last(spec: TensorSpec) -> bool:
    """Whether a tensor lies, or may be said to lie, channels-last."""
    return _fits(spec, (0, *range(2, len(spec.dims)), 1))


def _first(spec: TensorSpec) -> bool:
    """Whether a tensor lies, or may be said to lie, channels-first."""
    return _fits(spec, range(len(spec.dims)))


def _mixed(graph: FrozenGraph, node: FrozenNode) -> bool:
    """Whether a channels-last filter may meet a channels-first image."""
    x, w = (graph.tensors[node.inputs[port]] for port in ("x", "w"))
    computed = node.inputs["x"] not in graph.inputs
    return _last(w) and not _first(w) and (computed or not _last(x))


def _simple(graph: FrozenGraph, node: FrozenNode) -> bool:
    """Whether the convolution is two-dimensional, of one group, in floats of 16 or 32 bits."""
    x, w = (graph.tensors[node.inputs[port]] for port in ("x", "w"))
    kinds = {x.data_type, w.data_type}
    plain = len(kinds) == 1 and all(t.is_float and t.bits in (16, 32) for t in kinds)
    return plain and len(x.dims) == 4 and x.dims[1] == w.dims[1]


def _all_last(graph: FrozenGraph, node: FrozenNode) -> bool:
    """Whether a node's tensors lie channels-last; those that are broadcast may lie as they like."""
    specs = [graph.tensors[uid] for uid in (*node.inputs.values(), *node.outputs.values())]
    if isinstance(node.op, Pointwise):
        specs = [spec for spec in specs if spec.dims == specs[-1].dims]
    return all(map(_last, specs))
