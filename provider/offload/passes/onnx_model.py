# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An ONNX model as a module of ``torch.operator "onnx.*"``: the worker's task of the import."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import torch

from ....jit.compiler.inprocess import Refused

__all__ = ["perform"]


def perform(source: bytes, options: Mapping[str, Any]) -> tuple[Mapping[str, Any], bytes]:
    """Return the text of a model whose weights are inputs.

    An op of another domain than ONNX's own keeps it: ``onnx.com.microsoft.Gelu``.

    Raises
    ------
    Refused
        If the importer has no form for something in the model.
    """
    import onnx
    from torch_mlir.extras import onnx_importer

    model = onnx.ModelProto.FromString(source)
    for node in model.graph.node:
        if node.domain not in ("", "ai.onnx"):
            node.op_type = f"{node.domain}.{node.op_type}"
    with ir.Context() as context, ir.Location.unknown():
        torch.register_dialect(context)
        info = onnx_importer.ModelInfo(model)
        module = info.create_module(context=context)
        try:
            importer = onnx_importer.NodeImporter.define_function(info.main_graph, module.operation)
            importer.import_all()
            module.operation.verify()
        except (onnx_importer.OnnxImportError, ir.MLIRError, UnboundLocalError) as error:
            raise Refused("compile", " ".join(str(error).split())[:600]) from None
        return {}, str(module.operation.get_asm(enable_debug_info=True)).encode()
