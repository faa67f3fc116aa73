# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Step i: buffers that a function allocates and returns become its last arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch_mlir import ir

from .describe import functions

__all__ = ["finalize"]


def finalize(module: Any, options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Promote each returned ``memref.alloc`` to an argument behind the others.

    A buffer that is returned several times is one argument for each of them: it is written once
    and copied to the others.  What is returned of another kind stays, in order, as do
    declarations and bodies of several blocks.

    Returns for each function how many results it had, and the places of those promoted.
    """
    found = {}
    for function in functions(module):
        blocks = list(function.regions[0].blocks)
        if len(blocks) == 1:
            name = ir.StringAttr(function.attributes["sym_name"]).value
            found[name] = _promote(function, blocks[0])
    return found


def _promote(function: Any, block: Any) -> dict[str, Any]:
    unknown = ir.Location.unknown()
    end = block.operations[len(block.operations) - 1].operation
    kept: list[int] = []
    promoted: set[Any] = set()
    for place in range(len(end.operands)):
        value = end.operands[place]
        alloc = _alloc(value)
        if alloc is None and value not in promoted:
            kept.append(place)
            continue
        argument = block.add_argument(value.type, unknown)
        if alloc is None:  # returned before
            with ir.InsertionPoint(end), end.location:
                ir.Operation.create("memref.copy", operands=[value, argument])
        else:
            value.replace_all_uses_with(argument)
            alloc.erase()
            promoted.add(argument)
    count = len(end.operands)
    returned = [end.operands[place] for place in kept]
    with ir.InsertionPoint(end), end.location:
        ir.Operation.create("func.return", operands=returned)
    end.erase()
    inputs = [argument.type for argument in block.arguments]
    made = ir.FunctionType.get(inputs, [value.type for value in returned])
    function.attributes["function_type"] = ir.TypeAttr.get(made)
    names = function.attributes
    if "arg_attrs" in names:
        known = list(ir.ArrayAttr(names["arg_attrs"]))
        known += [ir.DictAttr.get({})] * (len(inputs) - len(known))
        names["arg_attrs"] = ir.ArrayAttr.get(known)
    if "res_attrs" in names:
        known = list(ir.ArrayAttr(names["res_attrs"]))
        names["res_attrs"] = ir.ArrayAttr.get([known[place] for place in kept])
    return {"results": count, "promoted": [i for i in range(count) if i not in kept]}


def _alloc(value: Any) -> Any:
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.operation.name != "memref.alloc":
        return None
    op = owner.operation
    return op if not list(op.operands) else None
