"""A frozen graph as one Torch-dialect module with one destination-passing function.

``main`` takes the outputs (mutable tensors, overwritten), then the inputs, in the graph's
canonical order.  Every op carries the location ``n<k>`` of the node it came from, so that a
compiler diagnostic can be told in terms of the graph; user names never enter the IR.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import UnionType

from torch_mlir import ir
from torch_mlir.dialects import func

from ...graph_api.dtypes import DataType
from ...graph_api.errors import CompileError
from ...graph_api.frozen import FrozenGraph, FrozenNode
from ...graph_api.ops.conv_fprop import ConvFprop, ConvOp
from ...graph_api.ops.conv_wgrad import ConvWgrad
from ...graph_api.ops.layernorm import Layernorm
from ...graph_api.ops.matmul import Matmul
from ...graph_api.ops.pointwise import Pointwise
from ...graph_api.ops.reduction import Reduction
from ...graph_api.ops.rmsnorm import Rmsnorm
from ...graph_api.ops.slice import Slice
from ...graph_api.ops.transpose import Transpose
from ...graph_api.tensor import TensorSpec
from ..compiler.client import Compiler
from ..emit import narrow
from ..emit.builder import Builder, T, Value
from ..emit.dims import Dim
from ..emit.layout import argument, to_logical, to_memory
from ..target import Target
from . import lowering
from .conv_forms import ConvForm, conv_form
from .forms import choose

__all__ = ["lower_graph"]


def lower_graph(
    graph: FrozenGraph,
    target: Target,
    forms: Sequence[str] = (),
    compiler: Compiler | None = None,
) -> str:
    """Return the module as text, with locations.

    ``forms`` are those of ops that are not to have their default one, as in ``compiler.forms``.
    ``compiler`` checks the functions of custom ops.

    Raises
    ------
    SettingError
        If a form is unknown or does not fit.
    CompileError
        With stage ``"lower"`` and the node, when torch-mlir's verifier rejects what we emitted.
    """
    with ir.Context() as context, ir.Location.unknown():
        T.register_dialect(context)
        module = ir.Module.create()
        builder = Builder(target, compiler)
        builder.copies_filters = conv_form(graph, target) is ConvForm.COPIED
        with ir.InsertionPoint(module.body):
            _emit_function(builder, graph, choose(graph, target, forms))
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


def _order(
    node: FrozenNode, port: str, result: Value, inputs: Mapping[str, Value]
) -> tuple[int, ...]:
    """Return the memory order that a result is expected to have, or () when that is open.

    The compiler moves transposes through convolutions and elementwise ops, so that a result lies
    as its image, or as its full-sized operands do when they agree.
    """
    like = node.op.LIKE.get(port)
    if like is not None:
        return inputs[like].order
    orders = {v.order for v in inputs.values() if v.shape == result.shape}
    return orders.pop() if len(orders) == 1 else ()


def _may_fold(node: FrozenNode, result: Value, inputs: Mapping[str, Value]) -> bool:
    """Whether the compiler might find that a result is one of the graph's inputs.

    x + 0, x AND x, or a choice between x and x do, and any chain of ops that only move elements;
    IREE crashes when an output is an input.
    """
    if _moves(node):
        return True
    return isinstance(node.op, Pointwise) and any(
        v.dtype is result.dtype and v.shape == result.shape for v in inputs.values()
    )


def _moves(node: FrozenNode) -> bool:
    """Whether a node only moves elements: reshape, transpose, slice, concatenate, pad."""
    return not isinstance(node.op, Pointwise) and not node.op.computes()


def _apart(b: Builder, graph: FrozenGraph, node: FrozenNode, value: Value) -> Value:
    """Return a moved value, copied where IREE 3.13 would move it into a convolution wrongly.

    On gfx9 the padding of a convolution is fused with parts that are joined, and then the border
    is never written; and joined parts are transposed before they are joined, so that their order
    is not known to who chooses the convolution's form.  Both found by emulation.
    """
    joins = _moves(node) and not isinstance(node.op, Slice | Transpose)
    if b.target.is_gfx9 and joins and any(isinstance(n.op, ConvOp) for n in graph.nodes):
        return b.materialise(value)
    return value


def _widened(graph: FrozenGraph, uid: int) -> bool:
    """Whether a tensor is float32 that pointwise nodes make of narrower inputs.

    IREE 3.13 for gfx9 fuses them into a convolution, which then asks for more LDS than there is.
    """
    if graph.tensors[uid].data_type is not DataType.FLOAT:
        return False
    makers = {out: node for node in graph.nodes for out in node.outputs.values()}
    todo = [uid]
    while todo:
        at = todo.pop()
        maker = makers.get(at)
        if maker is None and at != uid and graph.tensors[at].data_type.bits < 32:
            return True
        if maker is not None and isinstance(maker.op, Pointwise):
            todo += maker.inputs.values()
    return False


def _made_of(graph: FrozenGraph, uid: int, ops: type | UnionType) -> bool:
    """Whether pointwise nodes make a tensor of what such an op results in."""
    makers = {out: node for node in graph.nodes for out in node.outputs.values()}
    todo = [uid]
    while todo:
        maker = makers.get(todo.pop())
        if maker is not None and isinstance(maker.op, ops):
            return True
        if maker is not None and isinstance(maker.op, Pointwise):
            todo += maker.inputs.values()
    return False


def _convolved(graph: FrozenGraph, uid: int) -> bool:
    """Whether a tensor is the image of a convolution.

    IREE 3.13 for gfx9 refuses its own code where a gradient of the filter reads it as well.
    """
    return any(isinstance(n.op, ConvFprop) and n.inputs["x"] == uid for n in graph.nodes)


_NORMS = Layernorm | Rmsnorm
_PRODUCTS = Matmul | ConvOp


def _operand(b: Builder, graph: FrozenGraph, node: FrozenNode, port: str, value: Value) -> Value:
    """Return an operand, copied where IREE 3.13 fails on what it would fuse with the node.

    On the CPU it fuses sums over rows with the packing of a product's tiles, and a norm with their
    unpacking, and then refuses its own code, whose vectors or stack frame are too large (256 rows
    of 512).
    """
    uid, fails = node.inputs[port], False
    if b.target.is_gfx9:
        fails = isinstance(node.op, ConvOp) and _widened(graph, uid)
        fails |= isinstance(node.op, ConvWgrad) and _convolved(graph, uid)
    elif b.target.is_cpu and isinstance(node.op, _PRODUCTS):
        fails = _made_of(graph, uid, _NORMS | Reduction)
    elif b.target.is_cpu:
        fails = isinstance(node.op, _NORMS) and port == "x" and _made_of(graph, uid, _PRODUCTS)
    return b.materialise(value) if fails else value


def _settled(b: Builder, graph: FrozenGraph, value: Value, spec: TensorSpec) -> Value:
    """Return an output, copied where its memory order would be folded into a convolution wrongly.

    IREE 3.13 for gfx9 mixes up the spatial dims of a convolution whose result lies with a later
    spatial dim outside an earlier one, such as (N, C, W, H); found by emulation.
    """
    spatial = [axis for axis in spec.layout.order if axis >= 2]
    convolves = any(isinstance(node.op, ConvOp) for node in graph.nodes)
    if b.target.is_gfx9 and convolves and spatial != sorted(spatial):
        return b.materialise(value)
    return value


def _emit_function(b: Builder, graph: FrozenGraph, forms: Sequence[str]) -> None:
    arguments = [(uid, True) for uid in graph.outputs] + [(uid, False) for uid in graph.inputs]
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
        values: dict[int, Value] = {}
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
            b.form = forms[k]
            with b.at(f"n{k}"):
                for uid in node.inputs.values():
                    spec = graph.tensors[uid]
                    if spec.value is not None and uid not in values:
                        plain = narrow.plain(spec.data_type)
                        values[uid] = b.literal(spec.value, plain, spec.dims)
                inputs = {
                    port: _operand(b, graph, node, port, values[uid])
                    for port, uid in node.inputs.items()
                }
                for port, value in lowering(node.op.NAME)(b, node, inputs).items():
                    if port in node.outputs:
                        uid = node.outputs[port]
                        spec = graph.tensors[uid]
                        result = _apart(b, graph, node, b.convert(value, spec.data_type))
                        order = value.order if _moves(node) else _order(node, port, result, inputs)
                        values[uid] = replace(result, order=order)
                        if not spec.virtual:
                            if _may_fold(node, values[uid], inputs):
                                values[uid] = replace(b.copy(values[uid]), order=order)
                            stored = _settled(b, graph, values[uid], spec)
                            T.OverwriteTensorContentsOp(to_memory(b, stored, spec).ssa, slots[uid])
        func.ReturnOp([])
