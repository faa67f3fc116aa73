# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matrix multiplication."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, prod

from ...graph_api.dtypes import DataType
from ..node_context import NodeContext
from . import info
from .blocking import BLOCKED
from .dots import DOTS, fits_dots
from .matmul_cost import GEMM, UNTILED, Product, product_costs
from .multiply_types import multiply_type, up_to_float
from .op_info import Dims, Marks, OpInfo, Refusal
from .rows import ROWS
from .split_k import SPLIT_K, fits_split_k, prefers_split_k
from .stored import stored
from .strategy import NO_TILES, Strategies, Strategy

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


# ---------------------------------------------------------------------------- strategies

# What reads operands as they lie, whatever the graph's flags are.
_OWN = (BLOCKED, DOTS, ROWS)


def _costs(context: NodeContext) -> dict[str, float]:
    """Return estimates in microseconds of the strategies that fit, where something is known."""
    if not _blockable(context):
        return {}
    a, b, virtual = stored(context, "a"), stored(context, "b"), context.spec("c").virtual
    ways = (a.strides[-1] == 1, b.strides[-2] == 1), (a.constant, b.constant)
    how = *ways, virtual, not _in_float(context)
    batch, (m, k), n = prod(context.dims("c")[:-2]), context.dims("a")[-2:], context.dims("b")[-1]
    costs = product_costs(context.target, Product(batch, m, k, n, *how))
    own = product_costs(context.target, Product(*_as_one(context), *how))
    found = {GEMM: costs[GEMM], **{name: own[name] for name in _OWN if name in own}}
    return {**found, UNTILED: costs[UNTILED]} if _untileable(context) else found


def _as_one(context: NodeContext) -> tuple[int, int, int, int]:
    """Return count, m, k and n; rows of all matrices that meet a single one are those of one."""
    a, b = context.dims("a"), context.dims("b")
    count, (m, k), n = prod(context.dims("c")[:-2]), a[-2:], b[-1]
    return (1, count * m, k, n) if prod(b[:-2]) == 1 else (count, m, k, n)


def _untileable(context: NodeContext) -> bool:
    """Whether the graph can do without tiles: the flag holds for all of it.

    Its products are matmuls of floats only.
    """

    def find() -> bool:
        nodes = [NodeContext(context.around, node) for node in context.graph.nodes]
        return all(n.named("matmul") and _in_float(n) for n in nodes if _multiplies(n))

    return context.target.is_cpu and not context.dynamic and context.around.once(_untileable, find)


def _multiplies(context: NodeContext) -> bool:
    """Whether a node is a matmul, a convolution or made of such."""
    dims = {port: context.dims(port) for port in (*context.node.inputs, *context.node.outputs)}
    return info(context.op.NAME).work(context.op, dims)[0] > 0


def _blockable(context: NodeContext) -> bool:
    if not context.target.is_cpu or context.dynamic:
        return False
    narrow = {*map(context.kind, context.node.inputs)} == {DataType.BFLOAT16}
    return _in_float(context) or (narrow and context.compute is DataType.FLOAT)


def _along_k(context: NodeContext) -> bool:
    return _blockable(context) and fits_dots(context.target, context.dims("a")[-1])


def _in_float(context: NodeContext) -> bool:
    """Whether operands are multiplied in float32: as they are, or as copies that are (W-151)."""
    if not up_to_float(context, *context.node.inputs):
        return False
    kinds = map(context.kind, context.node.inputs)
    return multiply_type(context.target, DataType.FLOAT, *kinds) is DataType.FLOAT


def _rule(context: NodeContext) -> str:
    """Return the default strategy.

    With tiles or without, whichever is cheaper for all matmuls of the graph together, or what is
    cheaper still for this one.
    """
    if prefers_split_k(context):
        return SPLIT_K

    def find() -> str:
        nodes = [NodeContext(context.around, node) for node in context.graph.nodes]
        costs = [_costs(n) for n in nodes if n.named("matmul")]
        least = {
            name: sum(min(cost[name], *(cost.get(one, inf) for one in _OWN)) for cost in costs)
            for name in (GEMM, UNTILED)
        }
        return min(least, key=least.__getitem__)

    untiled = _untileable(context) and context.around.once(_rule, find) == UNTILED
    costs, usual = _costs(context), UNTILED if untiled else GEMM
    if not costs:
        return usual
    return min((usual, *_OWN), key=lambda name: costs.get(name, inf))


INFO = OpInfo(
    work=_work,
    dynamic=lambda context, marks: (),
    dynamic_gfx9=_dynamic_gfx9,
    strategies=Strategies(
        (
            Strategy(
                name=GEMM,
                help="one matmul, or a batch of them, in the operands' common type",
            ),
            Strategy(
                name=UNTILED,
                help="the same, with operands read as they lie in memory, not packed into tiles",
                fits=_untileable,
                why="operands multiplied in float, fixed dims, on the CPU, in graphs with no "
                "convolution, attention or other product than such matmuls",
                flags=(NO_TILES,),
            ),
            Strategy(
                name=BLOCKED,
                help="the right operand packed into panels, multiplied in blocks for the target's "
                "registers and caches",
                fits=_blockable,
                why="operands multiplied in float, or of bfloat16, fixed dims, on the CPU",
                portable=False,
            ),
            Strategy(
                name=DOTS,
                help="a vector of sums along k for each element of the result, added up at the "
                "end, or every few vectors; operands that lie along k are read in place",
                fits=_along_k,
                why="operands multiplied in float, or of bfloat16, fixed dims, a depth of whole "
                "vectors of 4 at least, or of several vectors, on the CPU",
                portable=False,
            ),
            Strategy(
                name=SPLIT_K,
                help="products of a vector and a matrix, summed over parts of k, then over the "
                "parts; on gfx9 two kernels of many waves instead of one of few",
                fits=fits_split_k,
                why="one row, no batch, float compute, fixed dims, k with two factors of 8 to 32",
            ),
            Strategy(
                name=ROWS,
                help="the right operand read once by rows, a few at a time, for sums that stay in "
                "the first cache",
                fits=_blockable,
                why="operands multiplied in float, or of bfloat16, fixed dims, on the CPU",
                portable=False,
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
        _rule,
        _costs,
    ),
)
