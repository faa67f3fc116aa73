"""Step a, the part on MLIR: ``torch.operator "onnx.*"`` becomes aten ops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch_mlir import ir

from ....jit.compiler.inprocess import Refused
from .describe import functions
from .running import run

__all__ = ["convert"]

_OPSET = "torch.onnx_meta.opset_version"


def convert(module: Any, options: Mapping[str, Any]) -> None:
    """Convert ONNX ops, by the opset version that their function says.

    torch-mlir's pass wants a version of every function; one without ONNX ops needs none.

    Raises
    ------
    Refused
        For ONNX ops in a function without a version.
    """
    added = []
    for function in functions(module):
        if _OPSET in function.attributes:
            continue
        if 'torch.operator "onnx.' in str(function):
            name = ir.StringAttr(function.attributes["sym_name"]).value
            said = f"function {name!r} has ONNX ops and no attribute {_OPSET} = 17 : si64"
            raise Refused("compile", said)
        kind = ir.IntegerType.get_signed(64)
        function.attributes[_OPSET] = ir.IntegerAttr.get(kind, 1)
        added.append(function)
    run(module, "func.func(convert-torch-onnx-to-torch)")
    for function in added:
        del function.attributes[_OPSET]
