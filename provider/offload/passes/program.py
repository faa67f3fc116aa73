# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A finished module as records: what the executor runs."""

from __future__ import annotations

import base64
import re
from typing import Any

import numpy as np
from torch_mlir import ir

from .describe import functions

__all__ = ["program"]

_MEMREF = re.compile(r"memref<((?:\d+x)*)(\w+)(?:, strided<\[[\d, ]*\]>)?>")


def program(module: Any) -> dict[str, Any]:
    """Return arguments, steps and results of each function with a body, and constants.

    What the executor has no step for is a record with the name of the op.
    """
    constants = {}
    found = []
    for op in [one.operation for one in module.body.operations]:
        if op.name == "memref.global" and "initial_value" in op.attributes:
            name = ir.StringAttr(op.attributes["sym_name"]).value
            constants[name] = _constant(op.attributes["initial_value"])
    for function in functions(module):
        blocks = list(function.regions[0].blocks)
        if blocks:
            name = ir.StringAttr(function.attributes["sym_name"]).value
            found.append({"name": name, "blocks": len(blocks), **_block(blocks[0])})
    return {"functions": found, "constants": constants}


def _constant(attribute: Any) -> dict[str, Any]:
    kind = ir.ShapedType(attribute.type)
    dense = ir.DenseElementsAttr(attribute)
    element = str(kind.element_type)
    array = np.array(dense)
    return {
        "dims": list(kind.shape),
        "element": element,
        "data": base64.b64encode(np.ascontiguousarray(array).tobytes()).decode(),
    }


def _block(block: Any) -> dict[str, Any]:
    numbers: dict[Any, int] = {}
    kinds: list[Any] = []

    def of(value: Any) -> int:
        if value not in numbers:
            numbers[value] = len(kinds)
            kinds.append(_kind(value.type))
        return numbers[value]

    arguments = [of(argument) for argument in block.arguments]
    *body, end = [op.operation for op in block.operations]
    steps = []
    for op in body:
        step: dict[str, Any] = {
            "op": op.name,
            "operands": [of(value) for value in op.operands],
            "results": [of(value) for value in op.results],
        }
        if op.name == "hipdnn.execute":
            step["graph"] = op.attributes["graph"].value
            step["ins"] = ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])[0]
        elif op.name == "memref.get_global":
            step["name"] = ir.FlatSymbolRefAttr(op.attributes["name"]).value
        steps.append(step)
    returned = [of(value) for value in end.operands]
    return {"arguments": arguments, "steps": steps, "returned": returned, "values": kinds}


def _kind(kind: Any) -> Any:
    """Return extents and element type of a buffer; None for what is none."""
    found = _MEMREF.fullmatch(str(kind))
    if found is None:
        return None
    return [[int(n) for n in found[1].split("x") if n], found[2]]
