# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An FX graph of ATen ops as a module in the torch dialect."""

from __future__ import annotations

from typing import Any

from ..torch_import import importer

__all__ = ["module_text"]


def module_text(graph: Any) -> str:
    """Return the module of an FX graph of tensors; each op's location is the name of its node.

    Raises
    ------
    Exception
        Whatever torch-mlir's importer raises: it has no common base.
    """
    from torch_mlir.extras.fx_importer import ContextCache
    from torch_mlir.ir import Location

    class Named(ContextCache):  # type: ignore[misc]
        __slots__ = ()

        def get_node_location(self, node: Any) -> Any:
            return Location.name(node.name, context=self._c)

    found = importer()
    found._cc = Named(found._c, py_attr_tracker=found._py_attr_tracker)
    found.import_stateless_graph(graph, func_name="main")
    return str(found.module.operation.get_asm(enable_debug_info=True))
