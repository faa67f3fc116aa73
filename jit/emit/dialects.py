# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The module in other dialects: what torch-mlir's backends make of it, for people to look at.

Runs in the worker (`jit.compiler.tasks`), as passes may abort.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["DIALECTS", "perform"]

DIALECTS: dict[str, str] = {
    "linalg": "torch-backend-to-linalg-on-tensors-backend-pipeline",
    "tosa": "torch-backend-to-tosa-backend-pipeline",
    "stablehlo": "torch-backend-to-stablehlo-backend-pipeline",
}
"""Name -> pipeline of torch-mlir that ends in the dialect."""

_LEGALISE = "torchdynamo-export-to-torch-backend-pipeline"


def perform(source: bytes, options: Mapping[str, Any]) -> tuple[Mapping[str, Any], bytes]:
    """Return a module of ours in another dialect; ``main`` returns what it else writes.

    Raises
    ------
    Refused
        If a pass fails, with the diagnostics.
    """
    from torch_mlir import ir
    from torch_mlir.dialects import torch
    from torch_mlir.passmanager import PassManager

    from ..compiler.inprocess import Refused
    from .structured import load_casts

    with ir.Context() as context, ir.Location.unknown():
        torch.register_dialect(context)
        # Some passes report an error and go on as if nothing had been.
        context.emit_error_diagnostics = True
        messages: list[str] = []

        def hear(diagnostic: Any) -> bool:
            messages.append(f"{diagnostic.location}: {diagnostic.message}")
            return True

        context.attach_diagnostic_handler(hear)
        load_casts(context)
        module = ir.Module.parse(source)
        _return_results(module)
        for pipeline in (_LEGALISE, DIALECTS[options["dialect"]]):
            try:
                PassManager.parse(f"builtin.module({pipeline})").run(module.operation)
            except ir.MLIRError as error:
                texts = [f"{d.location}: {d.message}" for d in error.error_diagnostics]
                raise Refused("compile", pipeline, log="\n".join([*messages, *texts])) from None
        return {}, str(module).encode()


def _return_results(module: Any) -> None:
    """Turn the outputs, which are arguments to be overwritten, into results."""
    from torch_mlir import ir
    from torch_mlir.dialects import func

    (function,) = [op for op in module.body.operations if op.operation.name == "func.func"]
    block = function.regions[0].blocks[0]
    operations = [op.operation for op in block.operations]
    stores = [op for op in operations if op.name == "torch.overwrite.tensor.contents"]
    stored = {op.operands[1]: op.operands[0] for op in stores}
    slots = [argument for argument in block.arguments if argument in stored]
    values = [stored[slot] for slot in slots]
    with ir.InsertionPoint(operations[-1]), ir.Location.unknown():
        func.ReturnOp(values)
    for op in (*stores, operations[-1]):
        op.erase()
    for argument in reversed(slots):
        block.erase_argument(argument.arg_number)
    inputs = [argument.type for argument in block.arguments]
    made = ir.FunctionType.get(inputs, [value.type for value in values])
    function.attributes["function_type"] = ir.TypeAttr.get(made)
