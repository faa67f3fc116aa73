"""Rows times the weights of their experts: a product per expert, of which each row takes one.

Shapes are fixed before the groups are known, so that each expert multiplies all rows: E times
the work of a grouped kernel, but in plain matrix products, whose epilogue takes what is wanted.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...graph_api.dtypes import DataType
from ...graph_api.enums import MoeGroupedMatmulMode as Mode
from ...graph_api.frozen import FrozenNode
from ...graph_api.ops.moe_grouped_matmul import MoeGroupedMatmul
from ..emit.builder import Builder, T, Value
from .accumulate import operands
from .products import products

__all__ = ["experts_of_rows", "lower"]

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
    if op.mode is Mode.GATHER:
        index = inputs["token_index"]
        rows = index.shape[1]
        token = taken(b, token, b.reshape(index, (rows,)))
    expert = experts_of_rows(b, inputs["first_token_offset"], token.shape[1], count)
    if op.mode is Mode.SCATTER:
        source, found = _sources(b, op, inputs, tokens)
        token = b.call(T.AtenIndexSelectOp, token.shape, token.dtype, token, 1, source)
        expert = b.call(T.AtenIndexSelectOp, (tokens,), I32, expert, 0, source)
        expert = b.where(found, expert, b.literal(-1, I32, ()))
    rows = token.shape[1]
    owner = b.reshape(expert, (1, rows, 1))
    result = b.literal(0, accumulate, (1, rows, n))
    for e in range(count):
        own = b.compare(T.AtenEqTensorOp, owner, b.literal(e, I32, ()))
        product = products(b, token, b.slice(weight, 0, e, e + 1), accumulate)
        result = b.where(own, product, result)
    return {"output": result}


def experts_of_rows(b: Builder, offsets: Value, rows: int, experts: int) -> Value:
    """Return each row's expert as int32, -1 for rows before the first group."""
    groups = offsets.shape[0]
    starts = b.reshape(offsets, (1, groups))
    begun = b.compare(T.AtenLeTensorOp, starts, b.reshape(line(b, rows), (rows, 1)))
    # Counted rather than looked for among the groups' numbers: those would be a table in memory,
    # which the emulator of gfx9 cannot read.
    ones = b.cast(begun, I32)
    count = b.call(T.AtenSumDimIntListOp, (rows, 1), I32, ones, [1], True, I32.value.torch_code)
    group = b.sub(b.reshape(count, (rows,)), b.literal(1, I32, ()))
    if groups == experts:
        return group
    wrapped = b.unary(T.AtenRemainderScalarOp, group, experts)
    return b.where(b.compare(T.AtenLtTensorOp, group, b.literal(0, I32, ())), group, wrapped)


def line(b: Builder, n: int) -> Value:
    """Return 0, 1, ... n - 1 as int32."""
    code = I32.value.torch_code
    return b.call(T.AtenArangeStartStepOp, (n,), I32, 0, n, 1, code, None, None, None)


def taken(b: Builder, x: Value, index: Value) -> Value:
    """Return rows of x (dims 1, rows, width); an index out of range takes the nearest row."""
    _, rows, width = x.shape
    inside = b.cast(b.unary(T.AtenClampOp, index, 0, rows - 1), I64)
    shape = (1, index.shape[0], width)
    return b.call(T.AtenIndexSelectOp, shape, x.dtype, x, 1, inside)


def _sources(
    b: Builder, op: MoeGroupedMatmul, inputs: Mapping[str, Value], tokens: int
) -> tuple[Value, Value]:
    """Return the row that each row of the output comes from, and whether there is one."""
    offsets = inputs["first_token_offset"]
    routed = min(inputs["token_index"].shape[1], tokens)
    index, ks = (
        b.reshape(b.slice(inputs[port], 1, 0, routed), (1, routed))
        for port in ("token_index", "token_ks")
    )
    target = b.add(b.unary(T.AtenMulScalarOp, index, op.top_k), ks)
    first = b.call(T.AtenAminOp, (1, 1), I32, b.reshape(offsets, (1, offsets.shape[0])), [1], True)
    numbers = b.reshape(line(b, routed), (1, routed))
    here = b.compare(T.AtenEqTensorOp, target, b.reshape(line(b, tokens), (tokens, 1)))
    grouped = b.compare(T.AtenLeTensorOp, first, numbers)
    here = b.compare(T.AtenLogicalAndOp, here, grouped)
    marks = b.cast(here, I32)
    source = b.call(T.AtenArgmaxOp, (tokens,), I64, marks, 1, False)
    return source, b.truth(b.call(T.AtenAmaxOp, (tokens,), I32, marks, [1], False))
