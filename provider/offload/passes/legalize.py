# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Step f, the part on MLIR: Torch's tensors become MLIR's own, and graphs are executed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from torch_mlir import ir

from ....jit.emit.structured import load_casts
from .describe import LITERAL, functions
from .running import run

__all__ = ["legalize"]

_TENSOR = re.compile(r"!torch\.v?tensor<\[([\d,?]*)\],(\w+)>")


def legalize(module: Any, options: Mapping[str, Any]) -> None:
    """Turn executables into ``tensor.empty`` and ``hipdnn.execute``, and convert types."""
    load_casts(module.context)
    for function in functions(module):
        for block in function.regions[0].blocks:
            for op in [one.operation for one in block.operations]:
                if op.name == "torch.operator" and str(op.attributes["name"]) == _EXECUTABLE:
                    _execute(op)
                elif op.name == LITERAL:
                    _constant(op)
    run(module, "torch-func-backend-type-conversion,canonicalize")
    run(module, "func.func(torch-finalizing-backend-type-conversion),canonicalize")


_EXECUTABLE = '"hipdnn.executable"'


def _execute(op: Any) -> None:
    with ir.InsertionPoint(op), op.location:
        ins = [_cast("to_builtin_tensor", value, builtin(value.type)) for value in op.operands]
        kinds = [builtin(result.type) for result in op.results]
        outs = [ir.Operation.create("tensor.empty", results=[kind]).result for kind in kinds]
        made = execute(op.attributes["graph"], ins, outs, kinds)
        for old, new in zip(op.results, made.results, strict=True):
            old.replace_all_uses_with(_cast("from_builtin_tensor", new, old.type))
    op.erase()


def execute(graph: Any, ins: list[Any], outs: list[Any], results: list[Any]) -> Any:
    """Return a new ``hipdnn.execute`` at the insertion point."""
    return ir.Operation.create(
        "hipdnn.execute",
        results=results,
        operands=[*ins, *outs],
        attributes={
            "graph": graph,
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(ins), len(outs)]),
        },
    )


def _constant(op: Any) -> None:
    kind = builtin(op.results[0].type)
    attribute = op.attributes["value"]
    if attribute.type != kind:  # signed integers lose their sign
        spelled = str(attribute)
        attribute = ir.Attribute.parse(spelled[: -len(str(attribute.type))] + str(kind))
    with ir.InsertionPoint(op), op.location:
        made = ir.Operation.create("arith.constant", [kind], attributes={"value": attribute})
        op.results[0].replace_all_uses_with(
            _cast("from_builtin_tensor", made.result, op.results[0].type)
        )
    op.erase()


def _cast(name: str, value: Any, kind: Any) -> Any:
    return ir.Operation.create(f"torch_c.{name}", results=[kind], operands=[value]).result


def builtin(kind: Any) -> Any:
    """Return MLIR's own type for one of Torch's tensors."""
    found = _TENSOR.fullmatch(str(kind))
    if found is None:
        return kind
    element = re.sub(r"^[su]i", "i", found[2])
    extents = "".join(f"{n}x" for n in found[1].split(",") if n)
    return ir.Type.parse(f"tensor<{extents}{element}>")
