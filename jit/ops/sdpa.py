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
from ..cpu_machine import cpu_machine
from ..node_context import NodeContext
from ..workarounds import strikes
from . import attention
from .attention import PER_HEAD, fuses, key_count
from .counts import COSTS
from .op_info import Dims, Marks, OpInfo, dynamic_axes, problem
from .strategy import Strategies, Strategy

__all__ = ["INFO"]

# Matrices of a batch that are multiplied one by one.
_MOST_HEADS = 16
# Nanoseconds on one core of an AMD EPYC (Zen 5): what is done once, and for each key head by
# itself; a multiply-add of a batch without tiles, where keys or features do not fill vectors so
# many times as long, and one of a head by itself (docs/design/0007-strategies.md).
_CALL, _HEAD, _BATCHED, _ALONE = 10e3, 8e3, {32: 0.016, 16: 0.027}, 0.02
_RAGGED_KEYS, _RAGGED_FEATURES = 6.0, 1.5


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


def _rule(context: NodeContext) -> str:
    """Return the default strategy."""
    if context.target.is_gfx9 and _fused(context):
        return "fused"

    def find() -> bool:
        nodes = (NodeContext(context.around, node) for node in context.graph.nodes)
        attentions = [node for node in nodes if isinstance(node.op, AttentionOp)]
        if not all(isinstance(node.op, Sdpa) and _few_heads(node) for node in attentions):
            return False
        costs = [_costs(node) for node in attentions]
        batched, alone = (sum(cost[name] for cost in costs) for name in ("composite", PER_HEAD))
        return alone < batched or context.around.has(Matmul | ConvOp)

    return PER_HEAD if context.around.once(_rule, find) else "composite"


def _costs(context: NodeContext) -> dict[str, float]:
    """Return estimates in microseconds where both strategies fit."""
    if not _few_heads(context):
        return {}
    lanes, (batch, _, _, features) = cpu_machine(context.target).lanes, context.dims("q")
    keys, heads = key_count(context.op, _dims(context)), context.dims("k")[1]
    multiply_adds = _work(context.op, _dims(context))[0] // 2
    ragged = _RAGGED_KEYS if keys % lanes else _RAGGED_FEATURES if features % lanes else 1.0
    each = _BATCHED[min(max(context.kind("q").bits, 16), 32)] * ragged
    return {
        "composite": (_CALL + multiply_adds * each) / 1e3,
        PER_HEAD: (_CALL + batch * heads * _HEAD + multiply_adds * _ALONE) / 1e3,
    }


def _dims(context: NodeContext) -> Dims:
    return {port: context.dims(port) for port in context.node.inputs}


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
