# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rows times the weights of their experts, all of them at once or in blocks of one expert.

Shapes are fixed before the groups are known.  With the strategy ``plain`` each expert multiplies
all rows: E times the work of a grouped kernel, but in plain matmuls, whose epilogue selects the
rows of the expert.  With ``blocks`` rows and weights are gathered into blocks for one batch of
matmuls.  (Rows sliced at run time, a matmul per expert, do not compile: W-035.)
"""

from __future__ import annotations

from collections.abc import Mapping

from ....graph_api.dtypes import DataType
from ....graph_api.enums import MoeGroupedMatmulMode as Mode
from ....graph_api.frozen import FrozenNode
from ....graph_api.ops.moe_grouped_matmul import MoeGroupedMatmul
from ...emit.builder import Builder, T, Value
from ...emit.gather import gather
from ...ops.experts import BLOCKS, block_rows
from ..accumulate import operands
from ..batched_matmul import batched_matmul
from .moe_blocks import assign_blocks, gather_rows
from .moe_rows import clamped_rows, experts_of_rows, iota

__all__ = ["lower"]

I32, I64 = DataType.INT32, DataType.INT64


def lower(b: Builder, node: FrozenNode, inputs: Mapping[str, Value]) -> Mapping[str, Value]:
    """Emit output = token · weight[expert], row by row."""
    op = node.op
    assert isinstance(op, MoeGroupedMatmul)
    token, weight, accumulate = operands(
        b, inputs["token"], inputs["weight"], node.compute_data_type
    )
    _, tokens, _ = token.shape
    count, _, n = weight.shape
    if b.strategy == BLOCKS:
        return {"output": _in_blocks(b, op, inputs, token, weight, accumulate)}
    if op.mode is Mode.GATHER:
        index = inputs["token_index"]
        rows = index.shape[1]
        token = clamped_rows(b, token, b.reshape(index, (rows,)))
    expert = experts_of_rows(b, inputs["first_token_offset"], token.shape[1], count)
    if op.mode is Mode.SCATTER:
        source, found = _sources(b, op, inputs, tokens)
        token = gather(b, token, 1, source)
        expert = b.call(T.AtenIndexSelectOp, (tokens,), I32, expert, 0, source)
        expert = b.where(found, expert, b.literal(-1, I32, ()))
    rows = token.shape[1]
    owner = b.reshape(expert, (1, rows, 1))
    result = b.literal(0, accumulate, (1, rows, n))
    for e in range(count):
        own = b.compare(T.AtenEqTensorOp, owner, b.literal(e, I32, ()))
        y = batched_matmul(b, token, b.slice(weight, 0, e, e + 1), accumulate)
        result = b.where(own, y, result)
    return {"output": result}


def _in_blocks(
    b: Builder,
    op: MoeGroupedMatmul,
    inputs: Mapping[str, Value],
    token: Value,
    weight: Value,
    accumulate: DataType,
) -> Value:
    """Return the result from one batch of matmuls, each of a block of rows and its weights."""
    (_, tokens, k), (experts, _, n) = token.shape, weight.shape
    offsets = inputs["first_token_offset"]
    rows = inputs["token_index"].shape[1] if op.mode is Mode.GATHER else tokens
    size = block_rows(rows, offsets.shape[0], k, n)
    at = assign_blocks(b, offsets, rows, experts, size)
    source = at.row
    if op.mode is Mode.GATHER:
        index = b.reshape(inputs["token_index"], (rows,))
        index = b.call(T.AtenIndexSelectOp, source.shape, I32, index, 0, source)
        source = b.cast(b.unary(T.AtenClampOp, index, 0, tokens - 1), I64)
    # Unused slots hold the row of another expert; their results are not read.
    x = gather_rows(b, b.reshape(token, (tokens, k)), source)
    blocks = at.expert.shape[0]
    y = batched_matmul(
        b, b.reshape(x, (blocks, size, k)), _matrices(b, weight, at.expert), accumulate
    )
    slot, owned = at.slot, at.owned
    if op.mode is Mode.SCATTER:
        row, found = _sources(b, op, inputs, tokens)
        slot = b.call(T.AtenIndexSelectOp, (tokens,), I64, slot, 0, row)
        marks = b.call(T.AtenIndexSelectOp, (tokens,), I32, b.cast(owned, I32), 0, row)
        owned = b.compare(T.AtenLogicalAndOp, found, b.truth(marks))
    y = b.reshape(y, (1, blocks * size, n))
    count = slot.shape[0]
    y = b.call(T.AtenIndexSelectOp, (1, count, n), accumulate, y, 1, slot)
    return b.where(b.reshape(owned, (1, count, 1)), y, b.literal(0, accumulate, ()))


def _matrices(b: Builder, weight: Value, expert: Value) -> Value:
    """Return the weights of each block, gathered in memory order, a matrix at a time."""
    columns = weight.order == (0, 2, 1)
    stored = b.permute(weight, (0, 2, 1)) if columns else weight
    experts, outer, inner = stored.shape
    found = gather_rows(b, b.reshape(stored, (experts, outer * inner)), expert)
    found = b.reshape(found, (expert.shape[0], outer, inner))
    return b.permute(found, (0, 2, 1)) if columns else found


def _sources(
    b: Builder, op: MoeGroupedMatmul, inputs: Mapping[str, Value], tokens: int
) -> tuple[Value, Value]:
    """Return the row that each row of the output comes from, and whether there is one."""
    offsets = inputs["first_token_offset"]
    routed = min(inputs["token_index"].shape[1], tokens)
    # In 64 bits: what is far outside must not come back in by an overflow.
    index, ks = (
        b.cast(b.reshape(b.slice(inputs[port], 1, 0, routed), (1, routed)), I64)
        for port in ("token_index", "token_ks")
    )
    target = b.add(b.unary(T.AtenMulScalarOp, index, op.top_k), ks)
    target = b.cast(b.unary(T.AtenClampOp, target, -1, tokens), I32)
    first = b.call(T.AtenAminOp, (1, 1), I32, b.reshape(offsets, (1, offsets.shape[0])), [1], True)
    numbers = b.reshape(iota(b, routed), (1, routed))
    here = b.compare(T.AtenEqTensorOp, target, b.reshape(iota(b, tokens), (tokens, 1)))
    grouped = b.compare(T.AtenLeTensorOp, first, numbers)
    here = b.compare(T.AtenLogicalAndOp, here, grouped)
    marks = b.cast(here, I32)
    source = b.call(T.AtenArgmaxOp, (tokens,), I64, marks, 1, False)
    return source, b.truth(b.call(T.AtenAmaxOp, (tokens,), I32, marks, [1], False))
