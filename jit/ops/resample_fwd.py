# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pooling and resizing."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ...graph_api.errors import Problem
from ...graph_api.ops.resample_fwd import ResampleFwd
from ..node_context import NodeContext
from .op_info import Marks, OpInfo, dynamic_axes, problem
from .resample import MOST_TERMS, flags, resize_declines, work

__all__ = ["INFO"]


def _declines(context: NodeContext) -> Iterator[Problem]:
    op = context.op
    assert isinstance(op, ResampleFwd)
    if op.resizes:
        yield from resize_declines(context, "x", "y")
        return
    whole = not op.padded
    pairs = zip(op.window, context.dims("y")[2:], strict=True)
    long = [w for w, n in pairs if not (whole and n == 1)]
    if (op.generate_index and prod(op.window) > MOST_TERMS) or max(long, default=0) > MOST_TERMS:
        hint = "pool in two steps" if not op.generate_index else ""
        wanted = f"at most {MOST_TERMS} neighbours"
        yield problem(context.node, "IREE-POOL-01", "window", list(op.window), wanted, hint)


def _dynamic(context: NodeContext, marks: Marks) -> Iterator[tuple[str, int]]:
    """Refuse all dynamic dims of what is resized, and the spatial ones of what is pooled."""
    assert isinstance(context.op, ResampleFwd)
    kept = () if context.op.resizes else (0, 1)
    yield from (found for found in dynamic_axes(marks, "x") if found[1] not in kept)


INFO = OpInfo(
    work=work("y"),
    adds_up=True,
    cpu_efficiency=0.02,
    declines=_declines,
    dynamic=_dynamic,
    flags=flags,
)
