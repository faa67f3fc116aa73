# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ONNX ops that torch-mlir does not convert, or converts wrongly, as ops that it does.

An expansion is a function of the node as a `Writer` sees it.  All extents are known by then.  One
that does not honour an input or attribute says so by `Unserved`, and the node is declined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod

from ...graph_api.dtypes import DataType
from . import expand_attention, expand_operands
from .model import Model, Node
from .node_writer import Unserved, Writer

__all__ = ["EXPANSIONS", "expanded", "trimmed"]


def expanded(model: Model) -> Model:
    """Return the model with every node that has an expansion expanded; labels stay.

    Raises
    ------
    Unserved
        If a node has what its expansion does not honour.
    """
    if not any((node.domain, node.op) in EXPANSIONS for node in model.nodes):
        return model
    values, constants = dict(model.values), dict(model.constants)
    nodes: list[Node] = []
    for node in model.nodes:
        expansion = EXPANSIONS.get((node.domain, node.op))
        if expansion is None:
            nodes.append(node)
            continue
        writer = Writer(node, values, constants, nodes, model.opsets.get("", 18))
        found = expansion(writer)
        if found is None:
            nodes.append(node)
            continue
        for name, made in zip(node.outputs, found, strict=False):
            if name and made:
                writer.named(made, name)
    return replace(model, nodes=tuple(nodes), values=values, constants=constants)


def trimmed(model: Model) -> Model:
    """Return the model where nodes that are expanded lack outputs that nobody reads.

    ONNX Runtime 1.23 may know no rank of these.
    """
    read = {name for node in model.nodes for name in node.reads} | set(model.outputs)
    nodes = [
        replace(node, outputs=tuple(n if n in read else "" for n in node.outputs))
        if (node.domain, node.op) in EXPANSIONS
        else node
        for node in model.nodes
    ]
    return replace(model, nodes=tuple(nodes))


def _rms(w: Writer, x: str, scale: str, axis: int, epsilon: float) -> str:
    kind = w.type(x)
    rank = len(w.dims(x))
    axes = range(axis % rank, rank)
    wide = w.cast(x, DataType.FLOAT) if kind is not DataType.DOUBLE else x
    mean = w.mean(w.pointwise("Mul", wide, wide), list(axes))
    root = w.pointwise("Sqrt", w.pointwise("Add", mean, w.scalar(epsilon, mean)))
    return w.pointwise("Mul", w.cast(w.pointwise("Div", wide, root), kind), scale)


def _rms_normalization(w: Writer) -> list[str]:
    w.unwanted(1, 2)
    w.must_be("stash_type", 1)
    epsilon = w.number("epsilon", 1e-5)
    return [_rms(w, w.input(0), w.input(1), w.integer("axis", -1), epsilon)]


def _skip_rms(w: Writer) -> list[str]:
    w.unwanted(1, 2)
    total = w.pointwise("Add", w.input(0), w.input(1))
    if w.input(3):
        total = w.pointwise("Add", total, w.input(3))
    return [_rms(w, total, w.input(2), -1, w.number("epsilon", 1e-5)), "", "", total]


def _skip_layer_norm(w: Writer) -> list[str]:
    w.unwanted(1, 2)
    total = w.pointwise("Add", w.input(0), w.input(1))
    if w.input(4):
        total = w.pointwise("Add", total, w.input(4))
    operands = [total, w.input(2), *([w.input(3)] if w.input(3) else [])]
    epsilon = w.number("epsilon", 1e-12)
    return [
        w.op("LayerNormalization", operands, w.dims(total), axis=-1, epsilon=epsilon),
        "",
        "",
        total,
    ]


def _lp_normalization(w: Writer) -> list[str]:
    """Rows whose norm is 0 stay as they are: they are 0."""
    x, p = w.input(0), w.integer("p", 2)
    axis = w.integer("axis", -1) % len(w.dims(x))
    dims = [1 if k == axis else d for k, d in enumerate(w.dims(x))]
    norm = w.reduce("ReduceL1" if p == 1 else "ReduceL2", x, [axis], dims)
    zero = w.pointwise("Equal", norm, w.scalar(0, norm), DataType.BOOLEAN)
    safe = w.op("Where", [zero, w.scalar(1, norm), norm], dims, w.type(norm))
    return [w.pointwise("Div", x, safe)]


def _counts(w: Writer, place: int, dims: Sequence[int]) -> str:
    """Return an integer input less its zero point, which is two inputs behind, as floats.

    Their products and sums are exact as long as no float has to round an integer.  ``dims`` are
    those of a zero point of each channel.
    """
    wide = w.cast(w.input(place), DataType.FLOAT)
    zero = w.input(place + 2)
    if not zero:
        return wide
    return w.pointwise("Sub", wide, w.cast(_by_channel(w, place + 2, dims), DataType.FLOAT))


def _by_channel(w: Writer, place: int, dims: Sequence[int]) -> str:
    """Return an input that is one number, or one of each channel."""
    value = w.input(place)
    if prod(w.dims(value)) == 1:
        return w.reshape(value, (1,) * len(dims))
    if w.dims(value) != (prod(dims),):
        raise Unserved(f"input {place}", list(w.dims(value)), f"1 or {prod(dims)} numbers")
    return w.reshape(value, dims)


def _requantised(w: Writer, y: str, channels: Sequence[int]) -> str:
    """Return sums of products as integers of the result's type.

    Scales are multiplied and divided as ONNX Runtime does it: once, before the sums are.
    """
    one = (1,) * len(channels)
    a, b, c = (
        w.cast(_by_channel(w, place, dims), DataType.FLOAT)
        for place, dims in ((1, one), (4, channels), (6, one))
    )
    scale = w.pointwise("Div", w.pointwise("Mul", a, b), c)
    kind = w.type(w.input(7))
    zero = w.cast(_by_channel(w, 7, one), DataType.FLOAT)
    moved = w.pointwise("Add", w.pointwise("Round", w.pointwise("Mul", y, scale)), zero)
    low, high = (0, 255) if kind is DataType.UINT8 else (-128, 127)
    kept = w.pointwise("Min", w.pointwise("Max", moved, w.scalar(low, y)), w.scalar(high, y))
    return w.cast(kept, kind)


def _qlinear_matmul(w: Writer) -> list[str]:
    columns = (w.dims(w.input(3))[-1],)
    y = w.matmul(_counts(w, 0, (1,)), _counts(w, 3, columns))
    return [_requantised(w, y, columns)]


def _qlinear_conv(w: Writer) -> list[str]:
    count, *rest = w.dims(w.input(3))
    ones = (1,) * len(rest)
    operands = [_counts(w, 0, (1, *ones)), _counts(w, 3, (count, *ones))]
    if w.input(8):
        operands.append(w.cast(w.input(8), DataType.FLOAT))
    dims = w.dims(w.output(0))
    y = w.op("Conv", operands, dims, DataType.FLOAT, **w.node.attributes)
    return [_requantised(w, y, (1, count, *ones[1:]))]


def _matmul_nbits(w: Writer) -> list[str]:
    """Unpack weights of a few bits, the lowest first in each byte, and multiply."""
    w.absent(4)
    w.must_be("bits", 2, 4, 8)
    columns, rows = w.integer("N"), w.integer("K")
    block, bits = w.integer("block_size"), w.integer("bits", 4)
    x, packed, scales, zeros = (w.input(n) for n in range(4))
    kind = w.type(x)
    blocks = -(-rows // block)

    def numbers(value: str, count: int) -> str:
        """Return (columns, count) of packed bytes: floats hold them exactly."""
        each = prod(w.dims(value)) // columns
        rest = w.reshape(w.cast(value, kind), (columns, each, 1))
        found = []
        for _ in range(8 // bits - 1):
            higher = w.pointwise("Floor", w.scaled(rest, 2.0**-bits))
            found.append(w.pointwise("Sub", rest, w.scaled(higher, 2.0**bits)))
            rest = higher
        joined = w.concat([*found, rest], -1)
        return w.slice(w.reshape(joined, (columns, each * 8 // bits)), 1, 0, count)

    by_block = (columns, blocks, 1)
    if not zeros:
        shift = w.scalar(2.0 ** (bits - 1), x)
    elif w.type(zeros) is DataType.UINT8:
        shift = w.reshape(numbers(zeros, blocks), by_block)
    else:
        shift = w.reshape(zeros, by_block)
    whole = w.reshape(numbers(packed, blocks * block), (columns, blocks, block))
    scaled = w.pointwise("Mul", w.pointwise("Sub", whole, shift), w.reshape(scales, by_block))
    weights = w.slice(w.reshape(scaled, (columns, blocks * block)), 1, 0, rows)
    y = w.matmul(x, w.transpose(weights, (1, 0)))
    return [w.pointwise("Add", y, w.input(5)) if w.input(5) else y]


EXPANSIONS: Mapping[tuple[str, str], Callable[[Writer], list[str] | None]] = {
    **expand_attention.EXPANSIONS,
    **expand_operands.EXPANSIONS,
    ("", "LpNormalization"): _lp_normalization,
    ("", "QLinearConv"): _qlinear_conv,
    ("", "QLinearMatMul"): _qlinear_matmul,
    ("", "RMSNormalization"): _rms_normalization,
    ("", "SimplifiedLayerNormalization"): _rms_normalization,
    ("com.microsoft", "MatMulNBits"): _matmul_nbits,
    ("com.microsoft", "SimplifiedLayerNormalization"): _rms_normalization,
    ("com.microsoft", "SkipLayerNormalization"): _skip_layer_norm,
    ("com.microsoft", "SkipSimplifiedLayerNormalization"): _skip_rms,
}
"""(domain, op) -> what writes it with other ops and returns its outputs, empty for none.

None in their place: the node stays as it is.
"""
