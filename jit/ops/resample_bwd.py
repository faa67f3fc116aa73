# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradients of pooling and resizing."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ...graph_api.errors import Problem
from ...graph_api.ops.resample_bwd import ResampleBwd
from ..node_context import NodeContext
from .op_info import OpInfo, problem
from .resample import MOST_TERMS, flags, resize_declines, work

__all__ = ["INFO"]


def _declines(context: NodeContext) -> Iterator[Problem]:
    op = context.op
    assert isinstance(op, ResampleBwd)
    if op.resizes:
        yield from resize_declines(context, "dx", "dy")
        return
    dims = zip(op.window, op.stride, context.dims("dy")[2:], strict=True)
    over = prod(1 if n == 1 else -(-w // s) for w, s, n in dims)
    if over > MOST_TERMS:
        wanted = f"at most {MOST_TERMS} windows over an element"
        yield problem(context.node, "IREE-POOL-02", "window", f"{over} of them", wanted)


INFO = OpInfo(work=work("dy"), adds_up=True, cpu_efficiency=0.02, declines=_declines, flags=flags)
