# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A frozen graph as one Torch-dialect module with one destination-passing function.

``main`` takes the outputs (mutable tensors, overwritten), then the inputs, in the graph's
canonical order.  Every op carries the location ``n<k>`` of the node it came from, so that a
compiler diagnostic can name the graph's nodes; user names never enter the IR.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import func

from ...graph_api.dtypes import DataType
from ...graph_api.errors import CompileError
from ...graph_api.frozen import FrozenGraph, FrozenNode
from ..code_plan import CodePlan, plan_code
from ..compiler.client import Compiler
from ..emit import narrow, parameters
from ..emit.builder import Builder, T, Value
from ..emit.dims import Dim, sizes
from ..emit.layout import argument, contents, store, to_logical
from ..emit.scatter import zero
from ..target import Target
from . import lowering

__all__ = ["lower_graph"]


def lower_graph(
    graph: FrozenGraph,
    target: Target,
    plan: CodePlan | None = None,
    compiler: Compiler | None = None,
) -> str:
    """Return the module as text, with locations.

    ``plan`` decides how; by default it is the one without any choice of the user.  ``compiler``
    checks the functions of custom ops.

    Raises
    ------
    CompileError
        With stage ``"lower"`` and the node, when torch-mlir's verifier rejects what we emitted.
    """
    with ir.Context() as context, ir.Location.unknown():
        T.register_dialect(context)
        module = ir.Module.create()
        builder = Builder(target, compiler)
        with ir.InsertionPoint(module.body):
            _emit_function(builder, graph, plan or plan_code(graph, target))
        try:
            module.operation.verify()
        except ir.MLIRError as error:
            first = error.error_diagnostics[0]
            raise CompileError(
                f"the IR for graph {graph.name!r} is not valid; this is a bug of hipdnn-iree",
                stage="lower",
                node=_node_of(graph, str(first.location)),
                diagnostics=[d.message for d in error.error_diagnostics],
            ) from None
        return str(module.operation.get_asm(enable_debug_info=True))


def _node_of(graph: FrozenGraph, location: str) -> str:
    for k, node in enumerate(graph.nodes):
        if f'"n{k}"' in location:
            return node.label
    return ""


def _lowered(b: Builder, node: FrozenNode, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Return a node's results; whatever goes wrong becomes an error that names the node."""
    try:
        return lowering(node.op.NAME)(b, node, inputs)
    except CompileError as error:
        if error.node:
            raise
        raise CompileError(
            error.message,
            stage=error.stage,
            node=node.label,
            diagnostics=error.diagnostics,
            reproducer=error.reproducer,
        ) from error
    except (RuntimeError, MemoryError, OverflowError) as error:  # of MLIR's bindings, or NumPy
        said = str(error) or type(error).__name__
        raise CompileError(
            "the node cannot be expressed in IR", stage="lower", node=node.label, diagnostics=[said]
        ) from error


def _contents(
    b: Builder, graph: FrozenGraph, node: FrozenNode, slots: Mapping[int, Any], port: str
) -> tuple[Value, tuple[int, ...]]:
    """Return what the memory of an output at a port of a node holds (`Builder.contents`)."""
    uid = node.outputs[port]
    return contents(b, graph.tensors[uid], slots[uid])


def _emit_function(b: Builder, graph: FrozenGraph, plan: CodePlan) -> None:
    arguments = [(uid, True) for uid in graph.outputs] + [(uid, False) for uid in graph.arguments]
    for number, uid in enumerate(graph.constants):
        parameters.declare(ir.Context.current, number, graph.tensors[uid])
    types = [
        b.number_type(graph.tensors[uid].data_type)
        if graph.tensors[uid].runtime_scalar
        else b.type(*argument(graph.tensors[uid]), mutable=output)
        for uid, output in arguments
    ]
    function = func.FuncOp("main", ir.FunctionType.get(types, []))
    function.attributes["torch.assume_strict_symbolic_shapes"] = ir.UnitAttr.get()
    with ir.InsertionPoint(function.add_entry_block()):
        slots = dict(zip((uid for uid, _ in arguments), function.arguments, strict=True))
        held = (parameters.read(b, n, graph.tensors[u]) for n, u in enumerate(graph.constants))
        slots.update(zip(graph.constants, held, strict=True))
        values: dict[int, Value] = {}
        zeros = {uid: zero() for uid in graph.outputs if graph.tensors[uid].layout.padded}
        for uid in graph.inputs:
            spec = graph.tensors[uid]
            if spec.runtime_scalar:
                values[uid] = b.number(slots[uid], spec.data_type, spec.dims)
                continue
            given = Value(slots[uid], *argument(spec))
            for axis, extent in enumerate(given.shape):
                if isinstance(extent, Dim):
                    read = partial(T.AtenSizeIntOp, slots[uid], b.constant(axis))
                    b.extents.setdefault(extent.factors[0], read)
            values[uid] = to_logical(b, given, spec)
        for k, node in enumerate(graph.nodes):
            b.node_plan = decided = plan.nodes[k]
            b.contents = partial(_contents, b, graph, node, slots)
            b.results = {port: sizes(graph.tensors[uid]) for port, uid in node.outputs.items()}
            with b.at(f"n{k}"):
                for uid in node.inputs.values():
                    spec = graph.tensors[uid]
                    if spec.value is not None and uid not in values:
                        plain = narrow.plain(spec.data_type)
                        values[uid] = b.literal(spec.value, plain, spec.dims)
                inputs = {port: values[uid] for port, uid in node.inputs.items()}
                for port in decided.materialised:
                    halves = decided.widened and inputs[port].dtype is DataType.HALF
                    given = b.convert(inputs[port], DataType.FLOAT) if halves else inputs[port]
                    inputs[port] = b.materialise(given)
                for port, value in _lowered(b, node, inputs).items():
                    if port not in node.outputs:
                        continue
                    uid = node.outputs[port]
                    spec, layout = graph.tensors[uid], decided.layouts[port]
                    result = b.convert(value, spec.data_type)
                    if decided.copied_results:
                        result = b.materialise(result)
                    if not spec.virtual and port in decided.copied_outputs:
                        result = b.copy(result)
                    values[uid] = result = replace(
                        result,
                        order=layout.order,
                        repeated=layout.broadcast,
                        argument=layout.argument,
                    )
                    if not spec.virtual:
                        if port in decided.settled_outputs:
                            result = b.materialise(result)
                        store(b, result, spec, slots[uid], zeros.get(uid))
        func.ReturnOp([])
