# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps g and h, the part on MLIR: tensors become buffers.

``hipdnn.execute`` is no registered op, so that MLIR's passes do not know which buffers it writes.
For them it is a ``linalg.generic`` of the same operands: its outputs are written and not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch_mlir import ir

from .describe import functions
from .legalize import execute
from .running import run

__all__ = ["bufferize", "eliminate_empty_tensors"]

_MARK = "hipdnn.graph"
_READ, _WRITTEN = "#linalg.iterator_type<reduction>", "#linalg.iterator_type<parallel>"


def eliminate_empty_tensors(module: Any, options: Mapping[str, Any]) -> None:
    """Let results be written where they are wanted."""
    _hide(module)
    run(module, "eliminate-empty-tensors")
    _show(module)


def bufferize(module: Any, options: Mapping[str, Any]) -> None:
    """Turn tensors into buffers, also those that functions take and return."""
    _hide(module)
    run(
        module,
        "one-shot-bufferize{bufferize-function-boundaries "
        "function-boundary-type-conversion=identity-layout-map}",
    )
    _show(module)
    run(module, "canonicalize")


def _ops(module: Any, name: str) -> Iterator[Any]:
    for function in functions(module):
        for block in function.regions[0].blocks:
            yield from [op.operation for op in block.operations if op.operation.name == name]


def _hide(module: Any) -> None:
    for op in _ops(module, "hipdnn.execute"):
        sizes = ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])
        with ir.InsertionPoint(op), op.location:
            made = _placeholder(op, list(sizes))
        for old, new in zip(op.results, made.results, strict=True):
            old.replace_all_uses_with(new)
        op.erase()


def _placeholder(op: Any, sizes: list[int]) -> Any:
    """Return a loop nest that stands for an execution.

    Each operand has loop dims of its own, so that none seems to be read where another is
    written; those of inputs are reduced.  The body yields what it was given of an input.
    """
    values = list(op.operands)
    kinds = [ir.ShapedType(value.type) for value in values]
    total = sum(kind.rank for kind in kinds)
    maps, iterators, first = [], [], 0
    for i, kind in enumerate(kinds):
        dims = ", ".join(f"d{first + j}" for j in range(kind.rank))
        loops = ", ".join(f"d{j}" for j in range(total))
        maps.append(f"affine_map<({loops}) -> ({dims})>")
        iterators += [_READ if i < sizes[0] else _WRITTEN] * kind.rank
        first += kind.rank
    made = ir.Operation.create(
        "linalg.generic",
        results=[result.type for result in op.results],
        operands=values,
        attributes={
            "indexing_maps": ir.Attribute.parse(f"[{', '.join(maps)}]"),
            "iterator_types": ir.Attribute.parse(f"[{', '.join(iterators)}]"),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get(sizes),
            _MARK: op.attributes["graph"],
        },
        regions=1,
    )
    block = made.regions[0].blocks.append(
        *(kind.element_type for kind in kinds), arg_locs=[op.location] * len(kinds)
    )
    with ir.InsertionPoint(block):
        given = [_yielded(block, kind, sizes[0]) for kind in kinds[sizes[0] :]]
        ir.Operation.create("linalg.yield", operands=given)
    return made


def _yielded(block: Any, kind: Any, inputs: int) -> Any:
    """Return a value of an output's element type that does not come from an output."""
    element = kind.element_type
    for argument in list(block.arguments)[:inputs]:
        if argument.type == element:
            return argument
    zero = (
        ir.IntegerAttr.get(element, 0)
        if isinstance(element, ir.IntegerType)
        else ir.FloatAttr.get(element, 0.0)
    )
    return ir.Operation.create("arith.constant", [element], attributes={"value": zero}).result


def _show(module: Any) -> None:
    for op in _ops(module, "linalg.generic"):
        if _MARK not in op.attributes:
            continue
        sizes = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
        values = list(op.operands)
        with ir.InsertionPoint(op), op.location:
            results = [result.type for result in op.results]
            made = execute(op.attributes[_MARK], values[: sizes[0]], values[sizes[0] :], results)
        for old, new in zip(op.results, made.results, strict=True):
            old.replace_all_uses_with(new)
        op.erase()
