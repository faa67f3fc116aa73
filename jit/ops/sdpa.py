# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scaled dot-product attention."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ...graph_api.dtypes import DataType
from ...graph_api.enums import AttentionImplementation, PointwiseMode
from ...graph_api.errors import Problem
from ...graph_api.ops.attention import AttentionOp
from ...graph_api.ops.conv_fprop import ConvOp
from ...graph_api.ops.matmul import Matmul
from ...graph_api.ops.sdpa import Sdpa
from ..node_context import NodeContext
from ..workarounds import strikes
from . import attention
from .attention import fuses, key_count, keys_of
from .attention_cost import COMPOSITE, Attention, attention_costs
from .counts import COSTS
from .op_info import Dims, Marks, OpInfo, dynamic_axes, problem
from .strategy import Strategies, Strategy

__all__ = ["INFO"]


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


def _rule(context: NodeContext) -> str:
    """Return the default strategy."""
    if context.target.is_gfx9 and _fused(context):
        return "fused"

    def find() -> str:
        nodes = (NodeContext(context.around, node) for node in context.graph.nodes)
        costs = [_costs(node) for node in nodes if isinstance(node.op, Sdpa)]
        known = set.intersection(*({*cost} for cost in costs))
        if len(known) > 1 and context.around.has(Matmul | ConvOp):
            known.discard(COMPOSITE)  # which leaves those without tiles
        totals = {name: sum(cost[name] for cost in costs) for name in sorted(known)}
        return min(totals, key=totals.__getitem__, default=COMPOSITE)

    return context.around.once(_rule, find)


def _costs(context: NodeContext) -> dict[str, float]:
    """Return estimates in microseconds of the strategies that fit; empty where only one does."""
    if not attention.fits_tiles(context):
        return {}
    q, k, v = (context.dims(port) for port in ("q", "k", "v"))
    k = (q[0], k[1], keys_of(context), k[3])  # as gathered from pages
    return attention_costs(context.target, Attention.of(q, k, v, context.kind("k")))


INFO = OpInfo(
    work=_work,
    declines=_declines,
    dynamic=_dynamic,
    flags=attention.flags,
    strategies=Strategies(
        (
            Strategy(
                name=COMPOSITE,
                help="matmuls, masks, a softmax of rows and matmuls",
            ),
            attention.IN_TILES,
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
