# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matrix multiplication."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ..node_context import NodeContext
from .op_info import Dims, Marks, OpInfo, Refusal
from .strategy import Strategies, Strategy

__all__ = ["INFO"]

TILE = 16
"""Extents of matrix instructions; other matmuls are compiled apart, by their sizes."""


def _work(op: object, dims: Dims) -> tuple[int, int]:
    return 2 * prod(dims["c"]) * dims["a"][-1], 0


def _dynamic_gfx9(context: NodeContext, marks: Marks) -> Iterator[Refusal]:
    a, b = context.spec("a"), context.spec("b")
    if marks.get("b") or any(marks["a"][axis] for axis in range(len(a.dims)) if axis != 0):
        port = "b" if marks.get("b") else "a"
        yield port, f"dynamic dims {list(marks[port])}", "dynamic rows of a only"
    if len(a.dims) != 2:
        yield "a", f"rank {len(a.dims)}", "rank 2"
    if a.layout.order != tuple(range(len(a.dims))):
        yield "a", f"strides {list(a.strides)}", "rows that lie in one piece"
    if any(n % TILE for n in b.dims[-2:]):
        yield "b", f"dims {list(b.dims)}", f"multiples of {TILE}"


INFO = OpInfo(
    work=_work,
    dynamic=lambda node, marks: (),
    dynamic_gfx9=_dynamic_gfx9,
    strategies=Strategies(
        (
            Strategy(
                name="gemm",
                help="one matmul, or a batch of them, in the operands' common type",
            ),
            Strategy(
                name="plain",
                help="one matmul op in the compute type: for comparison (on gfx9 some are compiled "
                "wrongly, W-070 and W-071)",
                fits=lambda context: not context.dynamic,
                why="fixed dims",
                tried=False,
            ),
        ),
        lambda context: "gemm",
    ),
)
