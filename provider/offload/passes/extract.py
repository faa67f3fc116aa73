# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A region as a function of its own: the text of a custom op."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from torch_mlir import ir

from .describe import functions, region_ops
from .outline import clone

__all__ = ["extract"]

_SCALAR = re.compile(r"!torch\.vtensor<\[\],(\w+)>")


def extract(module: Any, options: Mapping[str, Any]) -> list[str]:
    """Return the text of each region as a function of value tensors of at least one dim."""
    return [
        _function(region)
        for function in functions(module)
        if len(list(function.regions[0].blocks)) == 1
        for region in region_ops(function.regions[0].blocks[0])
    ]


def _function(region: Any) -> str:
    body = region.regions[0].blocks[0]
    *inner, end = [op.operation for op in body.operations]
    results = [_with_dim(value.type) for value in end.operands]
    with ir.Location.unknown():
        made = ir.Module.create()
        with ir.InsertionPoint(made.body):
            kinds = [_with_dim(argument.type) for argument in body.arguments]
            function = ir.Operation.create(
                "func.func",
                attributes={
                    "sym_name": ir.StringAttr.get("rest"),
                    "function_type": ir.TypeAttr.get(ir.FunctionType.get(kinds, results)),
                },
                regions=1,
            )
        unknown = ir.Location.unknown()
        block = function.regions[0].blocks.append(*kinds, arg_locs=[unknown] * len(kinds))
        with ir.InsertionPoint(block):
            pairs = zip(body.arguments, block.arguments, strict=True)
            known = {old: _viewed(new, old.type) for old, new in pairs}
            for op in inner:
                clone(op, known)
            values = [
                _viewed(known[value], kind)
                for value, kind in zip(end.operands, results, strict=True)
            ]
            ir.Operation.create("func.return", operands=values)
    return str(made)


def _with_dim(kind: Any) -> Any:
    """Return a tensor's type in a graph, where it has at least one dim."""
    found = _SCALAR.fullmatch(str(kind))
    return ir.Type.parse(f"!torch.vtensor<[1],{found[1]}>") if found else kind


def _viewed(value: Any, kind: Any) -> Any:
    if value.type == kind:
        return value
    int_ = ir.Type.parse("!torch.int")
    extents = [1] if _SCALAR.fullmatch(str(value.type)) else []
    numbers = [
        ir.Operation.create(
            "torch.constant.int",
            [int_],
            attributes={"value": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), n)},
        ).result
        for n in extents
    ]
    dims = ir.Operation.create(
        "torch.prim.ListConstruct", [ir.Type.parse("!torch.list<int>")], numbers
    ).result
    return ir.Operation.create("torch.aten.view", [kind], [value, dims]).result
