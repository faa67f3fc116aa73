# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scaled dot-product attention."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import NamedTuple

from ...graph_api.dtypes import DataType
from ...graph_api.enums import AttentionImplementation, PointwiseMode
from ...graph_api.errors import Problem
from ...graph_api.ops.attention import AttentionOp
from ...graph_api.ops.conv_fprop import ConvOp
from ...graph_api.ops.matmul import Matmul
from ...graph_api.ops.sdpa import Sdpa
from ..cpu_machine import cpu_machine
from ..node_context import NodeContext
from ..workarounds import strikes
from . import attention
from .attention import PER_HEAD, fuses, key_count, keys_of
from .blocking import BLOCKED, blocking
from .counts import COSTS
from .multiply_types import up_to_float
from .op_info import Dims, Marks, OpInfo, dynamic_axes, problem
from .strategy import Strategies, Strategy

__all__ = ["INFO"]

# Matrices of a batch that are multiplied one by one.
_MOST_HEADS = 16


class _Rates(NamedTuple):
    """Nanoseconds on one core (docs/design/0007-strategies.md).

    Attributes
    ----------
    call, call_in_blocks, head : float
        What is done once, and for each key head by itself.
    batched, batched_narrow : float
        A multiply-add of a batch without tiles, in 32 and in 16 bits.
    ragged_keys, ragged_features : float
        How many times as long it takes where keys or features do not fill vectors.
    alone, in_blocks : float
        A multiply-add of a head by itself, and in blocks.
    read, read_alone, packed : float
        An element of k and v in a batch (of 16 bits half of it), by heads by themselves and in
        blocks.
    score, peeled_score : float
        A score of the softmax, and one where keys do not fill vectors and loops are peeled (W-141).
    """

    call: float
    call_in_blocks: float
    head: float
    batched: float
    batched_narrow: float
    ragged_keys: float
    ragged_features: float
    alone: float
    in_blocks: float
    read: float
    read_alone: float
    packed: float
    score: float
    peeled_score: float


# An AMD EPYC of Zen 5, blocks as in convolutions there, and what heads by themselves read of an
# Intel Xeon: 8 heads of one query and 1500 keys take 0.67 ms, 0.18 in a batch.  Vectors of 8: an
# EPYC of Zen 3.
_AVX512 = _Rates(
    call=10e3, call_in_blocks=10e3, head=8e3, batched=0.016, batched_narrow=0.04, ragged_keys=6.0,
    ragged_features=1.5, alone=0.02, in_blocks=0.01, read=0.17, read_alone=0.8, packed=0.9,
    score=2.0, peeled_score=5.0,
)  # fmt: skip
_AVX2 = _Rates(
    call=10e3, call_in_blocks=20e3, head=20e3, batched=0.06, batched_narrow=0.06, ragged_keys=1.0,
    ragged_features=1.5, alone=0.038, in_blocks=0.03, read=0.4, read_alone=2.0, packed=1.2,
    score=3.0, peeled_score=15.0,
)  # fmt: skip


def _work(op: object, dims: Dims) -> tuple[int, int]:
    scores = prod(dims["q"][:3]) * key_count(op, dims)
    # Scale, maximum, difference, exp, sum, and the division by the sum.
    return 2 * scores * (dims["q"][3] + dims["v"][3]), scores * (COSTS[PointwiseMode.EXP] + 5)


def _declines(context: NodeContext) -> Iterator[Problem]:
    yield from attention.declines(context)
    op, node = context.op, context.node
    assert isinstance(op, Sdpa)
    if op.implementation is not AttentionImplementation.AUTO:
        yield problem(node, "IREE-SDPA-02", "implementation", op.implementation.json, "AUTO")
    kind = context.kind("q")
    if op.mma_core_mode not in (DataType.UNSET, kind):
        wanted = f"unset, or {kind.json} as q's"
        yield problem(node, "IREE-SDPA-02", "mma_core_mode", op.mma_core_mode.json, wanted)
    pages = context.dims("page_table_k")[2] if "page_table_k" in node.inputs else 1
    keys = op.max_seq_len_kv or context.dims("k")[2] * pages
    if strikes("W-083", context.target, keys) and not fuses(context):
        hint = "pad k and v, and hide the rest: padding_mask with seq_len_kv, or attn_mask"
        wanted = "up to 256 keys, or a multiple of 64"
        yield problem(node, "IREE-SDPA-03", "k", f"{keys} keys", wanted, hint)


def _dynamic(context: NodeContext, marks: Marks) -> Iterator[tuple[str, int]]:
    op, node = context.op, context.node
    assert isinstance(op, AttentionOp)
    banded = op.band != (None, None, False) or op.alibi_mask
    bottom = getattr(node.source, "band", op.band)[2]
    for port, axis in dynamic_axes(marks, *(p for p in marks if p in node.inputs)):
        if port not in ("q", "k", "v", "attn_mask"):
            yield port, axis
        elif port != "attn_mask" and (axis in (1, 3) or (axis == 2 and (banded or bottom))):
            # W-024: a mask of dynamic size would be put on the stack.
            yield port, axis


def _fused(context: NodeContext) -> bool:
    crashes = strikes("W-092", context.target, context.dims("k")[2])
    return fuses(context) and not context.dynamic and not crashes


def _few_heads(context: NodeContext) -> bool:
    batch = context.dims("q")[0] * context.dims("k")[1]
    return context.target.is_cpu and batch <= _MOST_HEADS and not context.dynamic


def _as_blocks(context: NodeContext) -> bool:
    return context.target.is_cpu and up_to_float(context, "q", "k", "v") and not context.dynamic


def _rule(context: NodeContext) -> str:
    """Return the default strategy."""
    if context.target.is_gfx9 and _fused(context):
        return "fused"

    def find() -> str:
        nodes = (NodeContext(context.around, node) for node in context.graph.nodes)
        attentions = [node for node in nodes if isinstance(node.op, AttentionOp)]
        if not all(isinstance(node.op, Sdpa) for node in attentions):
            return "composite"
        costs = [_costs(node) for node in attentions]
        known = set.intersection(*({*cost} for cost in costs))
        if len(known) > 1 and context.around.has(Matmul | ConvOp):
            known.discard("composite")  # which leaves those without tiles
        totals = {name: sum(cost[name] for cost in costs) for name in sorted(known)}
        return min(totals, key=totals.__getitem__, default="composite")

    return context.around.once(_rule, find)


def _costs(context: NodeContext) -> dict[str, float]:
    """Return estimates in microseconds of the strategies that fit; empty where only one does."""
    target, q = context.target, context.dims("q")
    if not target.is_cpu or context.dynamic:
        return {}
    machine = cpu_machine(target)
    rates = _AVX512 if machine.has_avx512 else _AVX2
    (batch, heads, queries, features), keys = q, keys_of(context)
    key_heads, results = context.dims("k")[1], context.dims("v")[3]
    matrices, scores = batch * key_heads, batch * heads * queries * keys
    given = matrices * keys * (features + results)
    multiply_adds = scores * (features + results)
    rows = heads // key_heads * queries
    # A vector is multiplied as well with keys that do not fill vectors.
    ragged = keys % machine.lanes > 0 and rows > 1
    softmax = scores * (rates.peeled_score if ragged else rates.score)
    narrow = context.kind("q").bits <= 16
    share = 0.5 if narrow else 1.0
    slower = rates.ragged_keys if ragged else 1.0
    if features % machine.lanes:
        slower = max(slower, rates.ragged_features)
    each = (rates.batched_narrow if narrow else rates.batched) * slower
    read = given * share * rates.read
    costs = {"composite": rates.call + read + multiply_adds * each + softmax}
    if _few_heads(context):
        alone = matrices * rates.head + rates.read_alone * given + multiply_adds * rates.alone
        costs[PER_HEAD] = rates.call + alone + softmax
    if _as_blocks(context):
        steps = 0.0
        for columns, depth in ((keys, features), (results, keys)):
            blocks = blocking(target, rows, columns, depth)
            steps += blocks.overhead * rows * blocks.panels * blocks.panel * depth
        in_blocks = matrices * steps * rates.in_blocks + given * rates.packed
        costs[BLOCKED] = rates.call_in_blocks + in_blocks + scores * rates.score
    return {name: ns / 1e3 for name, ns in costs.items()} if len(costs) > 1 else {}


INFO = OpInfo(
    work=_work,
    declines=_declines,
    dynamic=_dynamic,
    flags=attention.flags,
    strategies=Strategies(
        (
            Strategy(
                name="composite",
                help="matmuls, masks, a softmax of rows and matmuls",
            ),
            Strategy(
                name=PER_HEAD,
                help="the same, with the matmuls of each key head by themselves, so that the "
                "graph's matmuls can be data-tiled (W-005: batches of tiled ones are mixed up in "
                "attention)",
                fits=_few_heads,
                why="up to 16 key heads in all batches, fixed dims, on the CPU",
            ),
            Strategy(
                name=BLOCKED,
                help="the same, with matmuls in blocks for the target's registers and caches",
                fits=_as_blocks,
                why="operands of floats of up to 32 bits, float compute, fixed dims, on the CPU",
                portable=False,
            ),
            Strategy(
                name="fused",
                help="one attention op; on gfx9 one kernel, on the CPU slow",
                fits=_fused,
                why="q, k and v of one float type and as many heads of k as of v, no mask but a "
                "full or causal one, no statistics, float compute, fixed dims; on gfx9 two keys",
            ),
            Strategy(
                name="plain",
                help="the same op: for comparison",
                fits=_fused,
                why="what 'fused' is for",
                tried=False,
            ),
        ),
        _rule,
        _costs,
    ),
)
