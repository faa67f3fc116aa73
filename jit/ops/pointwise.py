# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pointwise modes."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ...graph_api.enums import PointwiseMode
from ...graph_api.ops.pointwise import Pointwise
from ..node_context import Layout, NodeContext
from .counts import COSTS
from .op_info import Dims, Marks, OpInfo, dynamic_axes

__all__ = ["INFO"]

_ROUNDING = (PointwiseMode.CEIL, PointwiseMode.FLOOR)


def _work(op: object, dims: Dims) -> tuple[int, int]:
    assert isinstance(op, Pointwise)
    return 0, COSTS.get(op.mode, 1) * prod(dims["out_0"])


def _dynamic(context: NodeContext, marks: Marks) -> Iterator[tuple[str, int]]:
    assert isinstance(context.op, Pointwise)
    if context.op.mode is PointwiseMode.GEN_INDEX:
        yield from dynamic_axes(marks, "in_0")


def _layout(context: NodeContext) -> Layout | None:
    """Return the operand's where it is passed on: by identity, and rounding of integers."""
    assert isinstance(context.op, Pointwise)
    kinds = {context.kind("in_0"), context.kind("out_0")}
    rounded = context.op.mode in _ROUNDING and context.compute.is_integer
    if context.op.mode is not PointwiseMode.IDENTITY and not (rounded and context.compute in kinds):
        return None
    return context.operands["in_0"] if len(kinds) == 1 else None


INFO = OpInfo(
    work=_work, fuses=True, dynamic=_dynamic, dynamic_gfx9=lambda context, marks: (), layout=_layout
)
