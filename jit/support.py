# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which frozen graphs the IREE engine serves: rules, decided without compiler or torch-mlir.

A graph that passes is compiled for real in the tests, for every sample problem and target; what
the compiler cannot do right is declined by a rule that names it.  What one op (or family of ops)
cannot do stands in its module in `ops`, with its rules.  Every op takes every data type on every
target: ``jit/emit/narrow.py`` does what the compiler cannot.

Code for all sizes of a dynamic dim is compiled once and really run in the tests, at sizes 1, odd,
prime and around tiles.  The rest is served with a plan for each size
(``Graph.build(exact=True)``).
"""

from __future__ import annotations

from collections.abc import Iterator

from ..graph_api.dtypes import DataType
from ..graph_api.dynamic_dim import DERIVED
from ..graph_api.errors import Problem
from ..graph_api.frozen import FrozenGraph
from ..graph_api.ops import OPS
from .node_context import GraphContext, NodeContext
from .ops import info
from .ops.op_info import Marks, Refusal, problem
from .target import Target

__all__ = ["RULES", "problems"]

RULES: dict[str, str] = {
    "IREE-01": "the op has a lowering",
    "IREE-04": "ragged tensors are not served yet",
    "IREE-DYN-01": "an extent that varies with a dynamic dim is that dim itself",
    "IREE-DYN-02": "the op has code for all sizes of a dynamic dim",
    "IREE-DYN-03": "dynamic are only those dims of an operand that the op's code leaves open",
    "IREE-DYN-04": "tensors with dynamic dims have a type of at least 8 bits",
    "IREE-DYN-05": "on gfx9 the op's code for all sizes is of a form that was checked by emulation",
    "IREE-DYN-06": "the target is one for which code for all sizes was checked",
}

_HINT = "build(exact=True) makes a plan for each size, build(buckets=...) for some"


def problems(graph: FrozenGraph, target: Target) -> Iterator[Problem]:
    """Yield every reason not to serve a graph for a target; nothing yielded is a promise."""
    around = GraphContext(graph, target)
    for node in graph.nodes:
        context = NodeContext(around, node)
        if node.op.NAME not in OPS:
            yield problem(node, "IREE-01", "", node.op.NAME, f"one of {', '.join(OPS)}")
            continue
        for port, uid in (*node.inputs.items(), *node.outputs.items()):
            if graph.tensors[uid].ragged_offset_uid is not None:
                wanted = "a tensor with fixed dims"
                yield problem(node, "IREE-04", port, "a ragged tensor", wanted)
        yield from _dynamic_problems(context)
        yield from info(node.op.NAME).declines(context)


def _dynamic_problems(context: NodeContext) -> Iterator[Problem]:
    """Yield why a node with dynamic dims is not served by one code for all sizes."""
    node, target, tensors = context.node, context.target, context.graph.tensors
    ports = {**node.inputs, **node.outputs}
    marks = {port: tensors[uid].dynamic for port, uid in ports.items() if tensors[uid].dynamic}
    if not marks:
        return
    if target.is_gfx9:
        for port, got, wanted in _gfx9_refusals(context, marks):
            yield problem(node, "IREE-DYN-05", port, got, wanted, _HINT)
    elif not target.is_cpu:
        wanted = "the CPU or gfx9"
        yield problem(node, "IREE-DYN-06", "", f"dynamic dims for {target}", wanted, _HINT)
    for port, names in marks.items():
        if DERIVED in names:
            wanted = "a fixed extent, or a dynamic dim as it is"
            got = f"dim {names.index(DERIVED)}, which varies with a dynamic dim"
            yield problem(node, "IREE-DYN-01", port, got, wanted, _HINT)
        kind = context.kind(port)
        if kind.bits < 8:
            yield problem(node, "IREE-DYN-04", port, kind.json, "a type of at least 8 bits", _HINT)
    refused = info(node.op.NAME).dynamic
    if refused is None:
        able = ", ".join(op for op in OPS if info(op).dynamic)
        yield problem(node, "IREE-DYN-02", "", node.op.NAME, f"one of {able}", _HINT)
        return
    for port, axis in refused(context, marks):
        got = f"{marks[port][axis]!r} as dim {axis}"
        yield problem(node, "IREE-DYN-03", port, got, "a fixed extent there", _HINT)


_EMULATED = (DataType.HALF, DataType.BFLOAT16, DataType.FLOAT)


def _gfx9_refusals(context: NodeContext, marks: Marks) -> Iterator[Refusal]:
    """Yield why a node with dynamic dims is not served on gfx9.

    Served is what was checked by emulation: pointwise ops, matmuls with an open number of rows,
    and reductions and norms of rows whose length is fixed, alone and fused with one another (sizes
    1 to 65).  Several defects of the compiler depend on sizes that open code does not know
    (docs/design/0002-gfx9-forms.md).
    """
    node, refused = context.node, info(context.op.NAME).dynamic_gfx9
    if refused is None:
        able = ", ".join(op for op in OPS if info(op).dynamic_gfx9)
        yield "", f"{node.op.NAME} with dynamic dims", f"one of {able}"
        return
    for port in (*node.inputs, *node.outputs):
        spec = context.spec(port)
        if spec.data_type not in _EMULATED:
            wanted = f"one of {', '.join(t.json for t in _EMULATED)}"
            yield port, spec.data_type.json, wanted
        if spec.runtime_scalar:
            yield port, "a scalar read at execution", "a tensor, or a number"
    if context.compute is not DataType.FLOAT:
        yield "compute_data_type", context.compute.json, "float"
    yield from refused(context, marks)
