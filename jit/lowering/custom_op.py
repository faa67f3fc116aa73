# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Custom ops: a function of torch-dialect ops, moved into ours op by op.

The text is read and checked by the worker first (`emit.function`); what comes back is parsed here
and its ops are moved, as objects, behind those that are there: no name can clash.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch_mlir import ir

from ...graph_api.dtypes import DataType
from ...graph_api.errors import GraphError, Problem
from ...graph_api.frozen import FrozenNode
from ...graph_api.mlir_text import fill, fits, tensor_type
from ...graph_api.ops.custom_op import CustomOp
from ..compiler.client import default_compiler
from ..emit.builder import Builder, T, Value
from ..options import WorkerOptions

__all__ = ["RULES", "lower"]

RULES: dict[str, str] = {
    "CALL-01": "a custom op's function takes an argument per input and returns a value per output",
    "CALL-02": "the types of a custom op's function are those of the tensors, logical dims first",
}

_NAME = "custom_op"

Type = tuple[tuple[int, ...], DataType]


def lower(b: Builder, node: FrozenNode, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Return the function's results; a GraphError reports what is wrong with it."""
    op = node.op
    assert isinstance(op, CustomOp)
    operands = list(inputs.values())
    text = _filled(op, [(v.shape, v.dtype) for v in operands])
    compiler = b.compiler or default_compiler(WorkerOptions())
    facts, checked = compiler.perform(
        "function",
        text.encode(),
        {"arguments": [tensor_type(v.shape, v.dtype) for v in operands]},
        label=f"the function of {node.label}",
        node=node.label,
    )
    problems = [Problem(node=node.label, **record) for record in facts["problems"]]
    if not problems:
        module = ir.Module.parse(checked)
        block = module.body.operations[0].regions[0].blocks[0]
        problems = list(_misfits(node, block, operands, op.results))
    if problems:
        told = [replace(problem, at=node.at) for problem in problems]
        raise GraphError(f"the function of custom op {node.label!r} cannot be used", told)
    if b.strikes("W-019", _names(block)):
        operands = [b.materialise(v) for v in operands]
    results = _inline(b, block, operands, op.results)
    # W-001: the function may return an operand unchanged.
    taken = {(v.shape, v.dtype) for v in operands}
    kept = [b.copy(v) if (v.shape, v.dtype) in taken else v for v in results]
    return dict(zip(node.outputs, kept, strict=True))


def _filled(op: CustomOp, operands: Sequence[Type]) -> str:
    """Return the text with the placeholders replaced (`ops.custom_op` checks them)."""
    sides = {"IN": operands, "OUT": op.results}

    def value(side: str, tensor: int, word: str, dim: int) -> str:
        if not side:
            return _NAME
        dims, data_type = sides[side][tensor]
        if word == "TYPE":
            return tensor_type(dims, data_type)
        return data_type.value.mlir if word == "DTYPE" else str(dims[dim])

    return fill(op.data.decode(), value)


def _misfits(
    node: FrozenNode, block: Any, operands: Sequence[Value], results: Sequence[Type]
) -> Iterator[Problem]:
    """Yield how the function's arguments and results differ from the node's tensors."""
    returned = block.operations[len(block.operations) - 1].operands
    for side, port, values, wanted in (
        ("takes", "inputs", block.arguments, [(v.shape, v.dtype) for v in operands]),
        ("returns", "outputs", returned, results),
    ):
        if len(values) != len(wanted):
            yield Problem(
                rule="CALL-01",
                node=node.label,
                port=port,
                got=f"a function that {side} {len(values)}",
                wanted=f"{len(wanted)}, one for each of the node's {port}",
            )
            continue
        for i, (value, (dims, data_type)) in enumerate(zip(values, wanted, strict=True)):
            if not fits(str(_precise(value).type), tensor_type(dims, data_type)):
                yield Problem(
                    rule="CALL-02",
                    node=node.label,
                    port=f"{port}[{i}]",
                    got=f"{_precise(value).type}, which the function {side}",
                    wanted=tensor_type(dims, data_type),
                    hint=f"{{{'IN' if port == 'inputs' else 'OUT'}{i}_TYPE}} stands for it",
                )


def _inline(
    b: Builder, block: Any, operands: Sequence[Value], results: Sequence[Type]
) -> list[Value]:
    """Move the ops of a block to the insertion point and return its results."""
    for argument, operand in zip(block.arguments, operands, strict=True):
        argument.replace_all_uses_with(_cast(operand.ssa, argument.type))
    *body, end = [op.operation for op in block.operations]
    point, here = ir.InsertionPoint.current, ir.Location.current
    for op in body:
        op.detach_from_parent()
        point.insert(op)
        _locate(op, here)
    values = []
    for ssa, (dims, data_type) in zip(end.operands, results, strict=True):
        values.append(Value(_cast(_precise(ssa), b.type(dims, data_type)), dims, data_type))
    return values


def _precise(ssa: Any) -> Any:
    """Return a value before its extents were forgotten."""
    owner = ssa.owner
    if isinstance(owner, ir.Block) or owner.name != "torch.tensor_static_info_cast":
        return ssa
    return owner.operands[0]


def _cast(ssa: Any, wanted: Any) -> Any:
    if ssa.type == wanted:
        return ssa
    return T.TensorStaticInfoCastOp(wanted, ssa).result


def _names(block: Any) -> Iterator[str]:
    """Yield the names of the ops of a block and of those inside them."""
    for op in block.operations:
        yield str(op.operation.name)
        for region in op.operation.regions:
            for inner in region.blocks:
                yield from _names(inner)


def _locate(op: Any, here: Any) -> None:
    """Give an op, and those inside it, the location that diagnostics name."""
    op.location = here
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                _locate(inner.operation, here)
