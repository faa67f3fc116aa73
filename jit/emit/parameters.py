# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Constants of a graph as globals of the module, whose contents the runtime is given.

The compiler moves what follows from globals alone, such as packing a filter, into code that runs
once, when the module is loaded.
"""

from __future__ import annotations

from typing import Any

from torch_mlir import ir

from ...graph_api.constants import SCOPE
from ...graph_api.tensor import TensorSpec
from . import narrow
from .builder import Builder
from .layout import argument
from .structured import from_builtin, load_casts

__all__ = ["declare", "read"]


def declare(context: Any, number: int, spec: TensorSpec) -> None:
    """Emit the global of the constant with a number, at the insertion point."""
    context.allow_unregistered_dialects = True  # torch-mlir knows nothing of IREE's
    load_casts(context)
    kind = _kind(spec)
    ir.Operation.create(
        "util.global",
        attributes={
            "sym_name": ir.StringAttr.get(_name(number)),
            "sym_visibility": ir.StringAttr.get("private"),
            "type": ir.TypeAttr.get(kind),
            "initial_value": ir.Attribute.parse(
                f'#flow.parameter.named<"{SCOPE}"::"{number}"> : {kind}'
            ),
        },
    )


def read(b: Builder, number: int, spec: TensorSpec) -> Any:
    """Return a constant as it lies in memory, as an argument would be."""
    load = ir.Operation.create(
        "util.global.load",
        results=[_kind(spec)],
        attributes={"global": ir.FlatSymbolRefAttr.get(_name(number))},
    )
    return from_builtin(b, load.result, *argument(spec)).ssa


def _name(number: int) -> str:
    return f"constant_{number}"


def _kind(spec: TensorSpec) -> Any:
    shape, data_type = argument(spec)
    dims = "".join(f"{extent}x" for extent in shape)
    return ir.Type.parse(f"tensor<{dims}{narrow.storage(data_type)}>")
