# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matrix multiplication."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, prod
from typing import NamedTuple

from ...graph_api.dtypes import DataType
from ..cpu_machine import cpu_machine
from ..node_context import NodeContext
from . import info
from .blocking import BLOCKED, blocking
from .dots import DOTS, dots, fits_dots
from .gemm_cost import TILED, raggedness
from .matmul_cost import GEMM, UNTILED, Product, product_costs
from .multiply_types import multiply_type, up_to_float
from .op_info import Dims, Marks, OpInfo, Refusal
from .rows import ROWS, rows
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

# Nanoseconds on one core of an Intel Xeon with AVX-512 (docs/design/0007-strategies.md): packing an
# element of an operand into tiles.
_PACK = {"near": 0.4, "far": 1.25}
# Packed, a larger operand than this does not stay in the caches until it is used.
_NEAR = 2  # times L2


# Of blocks: a multiply-add; an element of the right operand, by rows, by columns, and more by
# columns that do not fill the last panel; one of the result in a pass.
_IN_BLOCKS, _PACK_ROWS, _PACK_COLUMNS, _PAD_COLUMNS, _PASS = 0.024, 0.15, 0.38, 1.0, 0.3
# Where they were measured, with rows of the left operand in one piece each: with less work tiles
# are not always beaten.  Other vectors have estimates of their own.
_BLOCKED_ROWS, _BLOCKED_DEPTH = 16, 192


# Of dot products, and of rows: the two dispatches; an element of the longer operand, which is read
# once.  Of dot products: an element of the vectors of sums, one of what is transposed, and a
# multiply-add, by how many times as long the target's vectors are as those that fill k.
_DISPATCHED, _SEEN, _SUM, _TURNED = 4000.0, {"near": 0.11, "far": 0.21}, 0.3, 1.25
_IN_DOTS = {1: 0.0275, 2: 0.03, 4: 0.05}
# Of rows: a multiply-add; where they were measured, in rows and in vectors of columns.
_IN_ROWS, _FEW, _VECTORS = 0.04, 16, 4


class _Read(NamedTuple):
    """What the larger operand costs without tiles.

    Attributes
    ----------
    row, rows : float
        An element for one row of the smaller operand, and for several at least.
    multiply_add : float
        Of several rows.
    """

    row: float
    rows: float
    multiply_add: float


# By whether its elements along k are neighbours, and whether it is larger than the cache.
_UNTILED = {
    (True, "near"): _Read(0.63, 0.25, 0.06),
    (True, "far"): _Read(0.63, 0.33, 0.075),
    (False, "near"): _Read(0.15, 0.3, 0.06),
    (False, "far"): _Read(0.75, 1.0, 0.16),
}


def _costs(context: NodeContext) -> dict[str, float]:
    """Return estimates in microseconds.

    Tiles cost reading and writing both operands once more, which a constant is spared.  Without
    tiles the larger operand is read in place, in each pass over a few rows of the smaller one.
    In blocks that cost is the right operand's only; dot products and rows have none.
    """
    if _blockable(context) and _has_short_vectors(context):
        return _costs_of_short_vectors(context)
    others = {
        BLOCKED: _blocked_cost(context),
        DOTS: _dots_cost(context),
        ROWS: _rows_cost(context),
    }
    known = {name: cost / 1e3 for name, cost in others.items() if cost is not None}
    if not _untileable(context) and not known:
        return {}
    a, b = stored(context, "a"), stored(context, "b")
    batch, (m, k), n = prod(context.dims("c")[:-2]), context.dims("a")[-2:], context.dims("b")[-1]
    machine = cpu_machine(context.target)
    rows, along = (m, b.strides[-2]) if m <= n else (n, a.strides[-1])
    length = max(m, n)
    elements, lanes = length * k, machine.lanes
    where = _where(context, elements)
    packed = sum(k * extent for x, extent in ((a, m), (b, n)) if not x.constant)
    tiles = 1 << (rows - 1).bit_length() if rows < lanes else -(-rows // lanes) * lanes
    tiled = packed * _PACK[where] + tiles * elements * TILED
    found = {GEMM: batch * tiled / 1e3, **known}
    if not _untileable(context):
        return found
    read = _UNTILED[along == 1, where]
    ragged = raggedness(context.target, length, k)
    several = max(read.rows, rows * read.multiply_add) * ragged
    # A matrix by rows times a vector is as quick without full vectors; others are not.
    single = read.row if n == 1 and along == 1 else read.row * ragged
    untiled = elements * (single if rows == 1 else several)
    return {**found, UNTILED: batch * untiled / 1e3}


def _has_short_vectors(context: NodeContext) -> bool:
    return not cpu_machine(context.target).has_avx512


def _costs_of_short_vectors(context: NodeContext) -> dict[str, float]:
    """Return estimates in microseconds of the strategies that fit."""
    a, b, virtual = stored(context, "a"), stored(context, "b"), context.spec("c").virtual
    how = (a.strides[-1] == 1, b.strides[-2] == 1), (a.constant, b.constant), virtual
    batch, (m, k), n = prod(context.dims("c")[:-2]), context.dims("a")[-2:], context.dims("b")[-1]
    costs = product_costs(context.target, Product(batch, m, k, n, *how))
    own = product_costs(context.target, Product(*_as_one(context), *how))
    found = {GEMM: costs[GEMM], **{name: own[name] for name in _OWN if name in own}}
    return {**found, UNTILED: costs[UNTILED]} if _untileable(context) else found


def _blocked_cost(context: NodeContext) -> float | None:
    """Return what blocks take, in nanoseconds; None where nothing is known of that.

    The right operand is packed, and what follows reads the result from memory.
    """
    if not _blockable(context):
        return None
    a, b = stored(context, "a"), stored(context, "b")
    count, m, k, n = _as_one(context)
    if a.strides[-1] != 1 or m < _BLOCKED_ROWS or k < _BLOCKED_DEPTH:
        return None
    blocks = blocking(context.target, m, n, k)
    width = blocks.panels * blocks.panel
    steps = blocks.overhead * m * width * k * _IN_BLOCKS
    columns, ragged = b.strides[-2] == 1 < n, width != n
    pack = _PACK_COLUMNS + ragged * _PAD_COLUMNS if columns else _PACK_ROWS
    packed = 0 if b.constant else pack * n * k
    return count * (steps + packed + _PASS * m * n * (context.spec("c").virtual + ragged))


def _dots_cost(context: NodeContext) -> float | None:
    """Return what dot products take, in nanoseconds; None where nothing is known of that.

    That is where the longer operand does not lie along k: it would be transposed.
    """
    if not _along_k(context):
        return None
    count, m, k, n = _as_one(context)
    along = [stored(context, "b").strides[-2] == 1, stored(context, "a").strides[-1] == 1]
    long, short = along if m <= n else along[::-1]
    repeated = count > 1 and any(prod(context.dims(port)[:-2]) != count for port in "ab")
    if not long or repeated:
        return None
    lanes = cpu_machine(context.target).lanes
    filled = dots(context.target, m, n, k).lanes
    elements = max(m, n) * k
    seen = elements * _SEEN[_where(context, elements)]
    steps = max(m * n * k * _IN_DOTS[min(lanes // filled, 4)], seen)
    turned = 0 if short else min(m, n) * k * _TURNED
    return _DISPATCHED + count * (steps + turned + m * n * filled * _SUM)


def _rows_cost(context: NodeContext) -> float | None:
    """Return what rows take, in nanoseconds; None where nothing is known of that."""
    if not _blockable(context):
        return None
    count, m, k, n = _as_one(context)
    by_rows = stored(context, "b").strides[-1] == 1
    if not by_rows or m > _FEW or n < _VECTORS * cpu_machine(context.target).lanes:
        return None
    passes = -(-m // rows(context.target, m, n, k).rows)
    seen = passes * n * k * _SEEN[_where(context, n * k)]
    passed = _PASS * m * n * context.spec("c").virtual
    return _DISPATCHED + count * (max(m * n * k * _IN_ROWS, seen) + passed)


def _as_one(context: NodeContext) -> tuple[int, int, int, int]:
    """Return count, m, k and n; rows of all matrices that meet a single one are those of one."""
    a, b = context.dims("a"), context.dims("b")
    count, (m, k), n = prod(context.dims("c")[:-2]), a[-2:], b[-1]
    return (1, count * m, k, n) if prod(b[:-2]) == 1 else (count, m, k, n)


def _where(context: NodeContext, elements: int) -> str:
    """Return whether an operand stays in the caches until it is used again."""
    return "far" if 4 * elements > _NEAR * cpu_machine(context.target).l2_bytes else "near"


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
    return context.target.is_cpu and not context.dynamic and _in_float(context)


def _along_k(context: NodeContext) -> bool:
    return _blockable(context) and fits_dots(context.dims("a")[-1])


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
        own = _instead(context, UNTILED)[1:]
        least = {
            name: sum(min(cost[name], *(cost.get(one, inf) for one in own)) for cost in costs)
            for name in (GEMM, UNTILED)
        }
        return min(least, key=least.__getitem__)

    untiled = _untileable(context) and context.around.once(_rule, find) == UNTILED
    costs, usual = _costs(context), UNTILED if untiled else GEMM
    if not costs:
        return usual
    return min(_instead(context, usual), key=lambda name: costs.get(name, inf))


def _instead(context: NodeContext, usual: str) -> tuple[str, ...]:
    """Return what a strategy for all of a graph is compared with in one matmul, itself first.

    For AVX-512 the estimates of blocks and of what has no tiles are not of one measurement.
    """
    blocks = usual == GEMM or _has_short_vectors(context)
    return (usual, *(_OWN if blocks else _OWN[1:]))


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
                why="operands multiplied in float, fixed dims, on the CPU",
                portable=False,
            ),
            Strategy(
                name=DOTS,
                help="a vector of sums along k for each element of the result, added up at the "
                "end; operands that lie along k are read in place",
                fits=_along_k,
                why="operands multiplied in float, fixed dims, a depth of whole vectors of 4 at "
                "least, on the CPU",
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
                why="operands multiplied in float, fixed dims, on the CPU",
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
