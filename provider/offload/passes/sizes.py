# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sizes in place of extents that a module in the torch dialect leaves open."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from torch_mlir import ir

from .describe import functions
from .running import run

__all__ = ["fix_sizes"]

_TENSOR = re.compile(r"!torch\.vtensor<\[[^\]]*\],(\w+)>")
_REFINE = "torch-shape-refinement-pipeline,func.func(torch-scalarize-shapes),canonicalize"


def fix_sizes(module: Any, options: Mapping[str, Any]) -> None:
    """Give the arguments of a function dims, and all that follows from them its own.

    ``options`` has the name of the ``function``, and the ``dims`` of each argument; None for one
    that stays as it is.
    """
    for function in functions(module):
        blocks = list(function.regions[0].blocks)
        name = ir.StringAttr(function.attributes["sym_name"]).value
        if name != options["function"] or len(blocks) != 1:
            continue
        for argument, dims in zip(blocks[0].arguments, options["dims"], strict=True):
            found = _TENSOR.fullmatch(str(argument.type))
            if dims is not None and found is not None:
                text = f"!torch.vtensor<[{','.join(map(str, dims))}],{found[1]}>"
                argument.set_type(ir.Type.parse(text))
        _set_type(function, blocks[0])
        run(module, _REFINE)
        (block,) = function.regions[0].blocks
        last = block.operations[len(block.operations) - 1].operation
        for place in range(len(last.operands)):
            owner = last.operands[place].owner
            if not isinstance(owner, ir.Block) and _is_cast(owner.operation):
                last.operands[place] = owner.operation.operands[0]
        _set_type(function, block)


def _is_cast(op: Any) -> bool:
    return bool(op.name == "torch.tensor_static_info_cast")


def _set_type(function: Any, block: Any) -> None:
    """Give a function the types of its arguments and of what it returns."""
    end = block.operations[len(block.operations) - 1].operation
    inputs = [argument.type for argument in block.arguments]
    made = ir.FunctionType.get(inputs, [value.type for value in end.operands])
    function.attributes["function_type"] = ir.TypeAttr.get(made)
