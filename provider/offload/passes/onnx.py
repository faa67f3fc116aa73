# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Step a, the part on MLIR: ``torch.operator "onnx.*"`` becomes aten ops."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from torch_mlir import ir

from ....jit.compiler.inprocess import Refused
from .describe import functions
from .running import run

__all__ = ["convert"]

_OPSET = "torch.onnx_meta.opset_version"
_HELD = "held."
_SCALARS = "func.func(torch-scalarize-shapes),canonicalize"
_NAME = re.compile(r'name = "(onnx\.[^"]*)"')


def convert(module: Any, options: Mapping[str, Any]) -> None:
    """Convert ONNX ops, by the opset version that their function says.

    torch-mlir's pass stops at an op that it has no conversion for; here such an op stays, and
    what is around it is converted.  The pass wants a version of every function; one without ONNX
    ops needs none.  Shapes and axes, which ONNX has as tensors, become numbers, so that what is
    claimed next can be decided by them.

    Raises
    ------
    Refused
        For ONNX ops in a function without a version.
    """
    added = []
    if next(_onnx_ops(module), None) is None:
        return
    for function in functions(module):
        if _OPSET in function.attributes:
            continue
        if next(_onnx_ops(function), None) is not None:
            name = ir.StringAttr(function.attributes["sym_name"]).value
            said = f"function {name!r} has ONNX ops and no attribute {_OPSET} = 17 : si64"
            raise Refused("compile", said)
        kind = ir.IntegerType.get_signed(64)
        function.attributes[_OPSET] = ir.IntegerAttr.get(kind, 1)
        added.append(function)
    while True:
        try:
            run(module, "func.func(convert-torch-onnx-to-torch)")
            break
        except Refused as refused:
            if not _hold(module, refused.log):
                raise
    for op in _onnx_ops(module, _HELD):
        op.attributes["name"] = ir.StringAttr.get(_called(op).removeprefix(_HELD))
    for function in added:
        del function.attributes[_OPSET]
    run(module, _SCALARS)


def _called(op: Any) -> str:
    return str(ir.StringAttr(op.attributes["name"]).value)


def _onnx_ops(root: Any, prefix: str = "onnx.") -> Iterator[Any]:
    for region in root.operation.regions:
        for block in region.blocks:
            for op in block.operations:
                inner = op.operation
                if inner.name == "torch.operator" and _called(inner).startswith(prefix):
                    yield inner
                yield from _onnx_ops(inner, prefix)


def _hold(module: Any, said: str) -> bool:
    """Rename the op that a conversion failed at, so that the next one leaves it alone."""
    found = _NAME.search(said)
    if found is None:
        return False
    where = said.partition(": ")[0]
    same = [op for op in _onnx_ops(module) if _called(op) == found[1]]
    here = [op for op in same if str(op.location) == where] or same
    for op in here:
        op.attributes["name"] = ir.StringAttr.get(_HELD + found[1])
    return bool(here)
