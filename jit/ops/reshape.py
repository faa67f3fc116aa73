# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reshape: a view of the operand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..node_context import Layout, NodeContext
from .counts import no_arithmetic
from .op_info import Marks, OpInfo, dynamic_axes

__all__ = ["INFO"]


def _layout(context: NodeContext) -> Layout:
    x = context.operands["x"]
    same = context.dims("x") == context.dims("y")
    return x if same else Layout((), x.broadcast)


def _dynamic(context: NodeContext, marks: Marks) -> Iterator[tuple[str, int]]:
    """Refuse dynamic dims that do not have the same elements before them in x and y."""
    x, y = (_stand(context.dims(port), marks.get(port, ())) for port in ("x", "y"))
    if x != y:
        yield from dynamic_axes(marks, "x")


def _stand(dims: Sequence[int], names: Sequence[str]) -> list[tuple[str, int]]:
    """Return each dynamic dim with how many elements the fixed dims before it have."""
    found, before = [], 1
    for n, name in zip(dims, names, strict=False):
        if name:
            found.append((name, before))
        else:
            before *= n
    return found


INFO = OpInfo(work=no_arithmetic, fuses=True, layout=_layout, dynamic=_dynamic)
