# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is known of a graph that breaks rules, for files and pictures of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .frozen import FrozenGraph, FrozenNode
from .tensor import Tensor, TensorSpec
from .validate import Resolution, resolve
from .values import stored

if TYPE_CHECKING:
    from .building import GraphBuilder, Node

__all__ = ["sketch"]


def sketch(graph: GraphBuilder) -> FrozenGraph:
    """Return a graph in the form of a frozen one, with all its nodes, in the order of adding.

    No rule holds for it: it may be drawn and written, and neither compiled nor run.  Dims and
    strides that are not known are empty; a data type that is not known is ``UNSET``.
    """
    found = resolve(graph)
    graph.assign_uids()
    nodes = tuple(_node(graph, i, node, found) for i, node in enumerate(graph.nodes))
    tensors = {tensor.uid: _tensor(tensor, found) for tensor in graph.tensors}
    touched = {uid for n in nodes for uid in (*n.inputs.values(), *n.outputs.values())}
    for node in graph.nodes:  # tensors of another graph have broken GRAPH-04
        for tensor in (*node.inputs.values(), *node.outputs.values()):
            tensors.setdefault(tensor.uid, _tensor(tensor, found))
    written = {uid for node in nodes for uid in node.outputs.values()}
    buffers = [uid for uid in tensors if uid in touched and not tensors[uid].virtual]
    return FrozenGraph(
        name=graph.name,
        io_data_type=graph.io_data_type,
        intermediate_data_type=graph.intermediate_data_type,
        compute_data_type=graph.compute_data_type,
        nodes=nodes,
        tensors=tensors,
        # A virtual tensor that nobody writes is an input: the picture shows where it comes in.
        inputs=tuple(
            uid
            for uid in tensors
            if uid in touched and uid not in written and tensors[uid].value is None
        ),
        outputs=tuple(uid for uid in buffers if uid in written),
        unused=tuple(uid for uid in tensors if uid not in touched),
        preferred_engine_id=graph.preferred_engine_id,
        is_override_shape_enabled=graph.is_override_shape_enabled,
    )


def _node(graph: GraphBuilder, number: int, node: Node, found: Resolution) -> FrozenNode:
    return FrozenNode(
        label=node.name or f"{node.op.NAME}_{number}",
        name=node.name,
        op=found.ops.get(id(node), node.op),
        inputs={port: tensor.uid for port, tensor in node.inputs.items()},
        outputs={port: tensor.uid for port, tensor in node.outputs.items()},
        compute_data_type=found.compute.get(id(node), graph.compute_data_type),
        source=node.op,
        at=node.at,
    )


def _tensor(tensor: Tensor, found: Resolution) -> TensorSpec:
    view = found.views.get(id(tensor))
    data_type = tensor.data_type if view is None else view.data_type
    dims = (None if view is None else view.dims) or tensor.dims or ()
    strides = (None if view is None else view.strides) or tensor.strides or ()
    value = tensor.value
    if value is not None and (fitting := stored(value, data_type)) is not None:
        value = fitting  # else it is as it was given: that may be what is wrong
    return TensorSpec(
        uid=tensor.uid,
        name=tensor.name,
        data_type=data_type,
        dims=tuple(dims),
        strides=tuple(strides),  # of another rank, where that is what is wrong
        virtual=tensor.virtual,
        value=value,
        alignment=tensor.alignment,
        runtime_scalar=tensor.runtime_scalar,
        ragged_offset_uid=tensor.ragged_offset_uid,
    )
