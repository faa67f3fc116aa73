# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Chains of nodes that a user of PyTorch writes as one call: matmul with bias, softmax.

A graph has no node for them.  Only what PyTorch's public functions do in one call is joined, so
that the engine is what such a user gets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ....graph_api.enums import PointwiseMode, ReductionMode
from ....graph_api.frozen import FrozenGraph, FrozenNode
from . import served_by
from .reduction import reduced_axes
from .torch_op import Kernel, NodeContext, TorchOp, dtype

__all__ = ["Piece", "around", "pieces"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """A call of the program: what surrounds it, how it is computed, and the uids of its tensors."""

    around: NodeContext
    served: TorchOp
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def around(
    graph: FrozenGraph, node: FrozenNode, knobs: Mapping[str, str] | None = None
) -> NodeContext:
    """Return a node with its tensors."""
    return NodeContext(
        op=node.op,
        label=node.label,
        compute=node.compute_data_type,
        inputs={port: graph.tensors[uid] for port, uid in node.inputs.items()},
        outputs={port: graph.tensors[uid] for port, uid in node.outputs.items()},
        knobs=knobs or {},
    )


def pieces(graph: FrozenGraph, knobs: Mapping[str, str]) -> list[Piece]:
    """Return the calls of a graph, in order; every op must be served."""
    uses = Counter(uid for node in graph.nodes for uid in node.inputs.values())
    inner = {u for u, count in uses.items() if graph.tensors[u].virtual and count == 1}
    made = {uid: node for node in graph.nodes for uid in node.outputs.values()}
    joined: dict[int, Piece] = {}
    gone: set[int] = set()  # nodes by what they write: several may have one name
    for node in graph.nodes:
        for join in (_biased, _softmax):
            found = join(graph, node, made, inner, uses)
            if found is not None and not gone & (members := {_first(n) for n in found[1]}):
                joined[_first(node)] = found[0]
                gone |= members
                break
    return [
        joined.get(_first(node)) or _single(graph, node, knobs)
        for node in graph.nodes
        if _first(node) not in gone
    ]


def _first(node: FrozenNode) -> int:
    return next(iter(node.outputs.values()))


def _single(graph: FrozenGraph, node: FrozenNode, knobs: Mapping[str, str]) -> Piece:
    served = served_by(node.op.NAME)
    assert served is not None
    return Piece(
        around=around(graph, node, knobs),
        served=served,
        inputs=tuple(node.inputs.values()),
        outputs=tuple(node.outputs.values()),
    )


Joined = tuple[Piece, list[FrozenNode]] | None


def _mode(node: FrozenNode | None, mode: PointwiseMode | ReductionMode) -> bool:
    return node is not None and getattr(node.op, "mode", None) is mode


def _biased(
    graph: FrozenGraph,
    node: FrozenNode,
    made: dict[int, FrozenNode],
    inner: set[int],
    uses: Counter[int],
) -> Joined:
    """Join a product with the addition of a number for each channel, or column."""
    if not _mode(node, PointwiseMode.ADD):
        return None
    first, second = node.inputs["in_0"], node.inputs["in_1"]
    for product, bias in ((first, second), (second, first)):
        source = made.get(product)
        served = None if source is None else served_by(source.op.NAME)
        if product not in inner or source is None or served is None:
            continue
        spec, given = graph.tensors[product], graph.tensors[bias].dims
        axis = served.bias_axis(spec.dims)
        if axis is None:
            continue
        wanted = tuple(d if i == axis else 1 for i, d in enumerate(spec.dims))
        full = (1,) * (len(spec.dims) - len(given)) + given
        same = source.compute_data_type is node.compute_data_type
        if full != wanted or not same or not node.compute_data_type.is_float:
            continue
        near = around(graph, source)
        surrounded = replace(
            near,
            inputs={**near.inputs, "bias": graph.tensors[bias]},
            outputs={next(iter(near.outputs)): graph.tensors[node.outputs["out_0"]]},
        )
        piece = Piece(
            around=surrounded,
            served=served,
            inputs=(*source.inputs.values(), bias),
            outputs=tuple(node.outputs.values()),
        )
        return piece, [source]
    return None


def _softmax(
    graph: FrozenGraph,
    node: FrozenNode,
    made: dict[int, FrozenNode],
    inner: set[int],
    uses: Counter[int],
) -> Joined:
    """Join max, sub, exp, sum and div over one dim."""
    if not _mode(node, PointwiseMode.DIV):
        return None
    exp = made.get(node.inputs["in_0"])
    total = made.get(node.inputs["in_1"])
    if exp is None or not _mode(exp, PointwiseMode.EXP) or not _mode(total, ReductionMode.ADD):
        return None
    shift = made.get(exp.inputs["in_0"])
    if shift is None or total is None or not _mode(shift, PointwiseMode.SUB):
        return None
    largest = made.get(shift.inputs["in_1"])
    if largest is None or not _mode(largest, ReductionMode.MAX):
        return None
    x, e = shift.inputs["in_0"], exp.outputs["out_0"]
    chain = [largest, shift, exp, total]
    if largest.inputs["x"] != x or total.inputs["x"] != e:
        return None
    made_here = {u for n in (largest, shift, total) for u in n.outputs.values()}
    private = made_here <= inner and uses[e] == 2 and graph.tensors[e].virtual
    types = {n.compute_data_type for n in (*chain, node)}
    axes = [reduced_axes(around(graph, n)) for n in (largest, total)]
    if not private or len(types) > 1 or axes[0] != axes[1] or len(axes[0]) != 1:
        return None
    surrounded = replace(around(graph, node), inputs={"x": graph.tensors[x]})
    axis = axes[0][0]

    def kernel(n: NodeContext, torch: Any) -> Kernel:
        def run(x: Any, *, out: Any = None) -> Any:
            return torch.softmax(x, axis, out=out)

        return Kernel(run=run, loads=(dtype(torch, n.internal),), takes_out=True)

    served = TorchOp(kernel=kernel, elementwise=True)
    outputs = tuple(node.outputs.values())
    return Piece(around=surrounded, served=served, inputs=(x,), outputs=outputs), chain
