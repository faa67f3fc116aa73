# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The functions of a module as records, which `provider.offload.program` reads back."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from torch_mlir import ir

__all__ = ["describe", "functions", "is_constant", "is_list", "location", "region_ops"]

LITERAL = "torch.vtensor.literal"
LIST = "torch.prim.ListConstruct"
GRAPH = '"hipdnn.graph"'


def describe(module: Any) -> dict[str, Any]:
    """Return each function with a body of one block, and each region in it, as records."""
    found: list[dict[str, Any]] = []
    odd: list[dict[str, Any]] = []
    regions: list[dict[str, Any]] = []
    for function in functions(module):
        name = ir.StringAttr(function.attributes["sym_name"]).value
        blocks = list(function.regions[0].blocks)
        if len(blocks) != 1:
            if blocks:
                odd.append({"name": name, "blocks": len(blocks)})
            continue
        found.append(_block(blocks[0], name))
        for op in region_ops(blocks[0]):
            record = _block(op.regions[0].blocks[0], name)
            labels = [location(inner.operation) for inner in op.regions[0].blocks[0].operations]
            regions.append({**record, "locations": sorted(set(labels))})
    return {"functions": found, "odd": odd, "regions": regions}


def functions(module: Any) -> list[Any]:
    """Return the functions of a module, declarations too."""
    return [op.operation for op in module.body.operations if op.operation.name == "func.func"]


def region_ops(block: Any) -> list[Any]:
    """Return the outlined regions of a block, in order."""
    return [op.operation for op in block.operations if _calls(op.operation) == GRAPH]


def _calls(op: Any) -> str:
    return str(op.attributes["name"]) if op.name == "torch.operator" else ""


def is_constant(op: Any) -> bool:
    """Whether an op makes a constant: a number, a text, none, or a tensor literal."""
    return bool(op.name.startswith("torch.constant.") or op.name == LITERAL)


def is_list(op: Any) -> bool:
    """Whether an op only makes a list of what it is given."""
    return bool(op.name == LIST)


def location(op: Any) -> str:
    """Return where an op comes from: names, else line and column, else nothing."""
    return _place(op.location)


_POSITION = re.compile(r'loc\(".*":(\d+):(\d+)\)')


def _place(where: Any) -> str:
    if isinstance(where, ir.NameLoc):
        return str(where.name_str)
    if isinstance(where, ir.FusedLoc):
        return ", ".join(dict.fromkeys(filter(None, map(_place, where.locations))))
    found = _POSITION.fullmatch(str(where))
    if found:
        return f"line {found[1]}, column {found[2]}"
    return "" if isinstance(where, ir.UnknownLoc) else str(where)[4:-1]


class _Numbering:
    """Values of a block, numbered as they are met."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}
        self.records: list[dict[str, Any]] = []

    def of(self, value: Any) -> int:
        if value not in self.numbers:
            self.numbers[value] = len(self.records)
            self.records.append({"type": str(value.type), **_literal(value)})
        return self.numbers[value]


def _owner(value: Any) -> Any:
    """Return the op that makes a value; None for an argument of a block."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) else owner.operation


def _literal(value: Any) -> dict[str, Any]:
    op = _owner(value)
    if op is None or op.name != LITERAL:
        return {}
    kind = ir.ShapedType(op.attributes["value"].type)
    number = None
    if kind.has_static_shape and math.prod(kind.shape) == 1:
        number = _element(op.attributes["value"])
    return {"constant": True} if number is None else {"constant": True, "number": number}


def _element(attribute: Any) -> Any:
    """Return the only element of a literal in JSON's terms; None where it cannot be read."""
    try:
        found = ir.DenseElementsAttr(attribute).get_splat_value()
    except (ValueError, TypeError):
        return None
    value = found.value if hasattr(found, "value") else None
    kind = str(ir.ShapedType(attribute.type).element_type)
    if kind == "i1":
        return bool(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _block(block: Any, name: str) -> dict[str, Any]:
    numbering = _Numbering()
    arguments = [numbering.of(argument) for argument in block.arguments]
    ops = []
    *body, end = [op.operation for op in block.operations]
    for place, op in enumerate(body):
        if is_constant(op) or is_list(op):
            continue
        ops.append(
            {
                "place": place,
                "name": (_calls(op) or op.name).strip('"').removeprefix("torch."),
                "operands": [_operand(value, numbering) for value in operands(op)],
                "results": [numbering.of(value) for value in op.results],
                "location": location(op),
            }
        )
    returned = [numbering.of(value) for value in end.operands]
    return {
        "name": name,
        "arguments": arguments,
        "returned": returned,
        "ops": ops,
        "values": numbering.records,
    }


def operands(op: Any) -> Iterator[Any]:
    """Yield the operands of an op, and what ops inside its regions read from outside."""
    yield from op.operands
    for region in op.regions:
        for block in region.blocks:
            own = set(block.arguments)
            for inner in block.operations:
                own.update(inner.operation.results)
            for inner in block.operations:
                yield from (v for v in operands(inner.operation) if v not in own)


def _operand(value: Any, numbering: _Numbering) -> Any:
    op = _owner(value)
    if op is None:
        return {"value": numbering.of(value)}
    if is_list(op):
        return [_operand(one, numbering) for one in op.operands]
    match op.name:
        case "torch.constant.none":
            return None
        case (
            "torch.constant.bool"
            | "torch.constant.int"
            | "torch.constant.str"
            | ("torch.constant.device")
        ):
            return op.attributes["value"].value
        case "torch.constant.float":
            found = op.attributes["value"].value
            return found if math.isfinite(found) else {"float": str(found)}
    return {"value": numbering.of(value)}
