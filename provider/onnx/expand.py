"""ONNX ops that torch-mlir does not convert, or converts wrongly, as ops that it does.

An expansion is a function of the node as a `Writer` sees it.  All extents are known by then.  One
that does not honour an input or attribute says so by `Unserved`, and the node is declined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod

from ...graph_api.dtypes import DataType
from . import expand_attention
from .model import Model, Node
from .node_writer import Unserved, Writer

__all__ = ["EXPANSIONS", "expanded"]


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
        for name, made in zip(node.outputs, expansion(writer), strict=False):
            if name and made:
                writer.named(made, name)
    return replace(model, nodes=tuple(nodes), values=values, constants=constants)


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


def _qlinear_matmul(w: Writer) -> list[str]:
    """Dequantise, multiply, quantise; scales and zero points of tensors only."""
    a, b = (
        w.op(
            "DequantizeLinear",
            [w.input(n), w.input(n + 1), w.input(n + 2)],
            w.dims(w.input(n)),
            DataType.FLOAT,
        )
        for n in (0, 3)
    )
    for place in (1, 4, 6):
        if prod(w.dims(w.input(place))) != 1:
            raise Unserved(f"input {place}", list(w.dims(w.input(place))), "one scale")
        if w.type(w.input(place)) is not DataType.FLOAT:
            raise Unserved(f"input {place}", w.type(w.input(place)).json, "float")
    y = w.matmul(a, b)
    return [w.op("QuantizeLinear", [y, w.input(6), w.input(7)], w.dims(y), w.type(w.input(7)))]


def _matmul_nbits(w: Writer) -> list[str]:
    """Unpack 4-bit weights, two in a byte with the lower half first, and multiply."""
    w.absent(4, 5)
    w.must_be("bits", 4)
    columns, rows = w.integer("N"), w.integer("K")
    block = w.integer("block_size")
    x, packed, scales, zeros = (w.input(n) for n in range(4))
    kind = w.type(x)
    blocks = -(-rows // block)

    def halves(value: str, count: int) -> str:
        wide = w.cast(value, DataType.INT32)
        sixteen = w.constant([16], (), DataType.INT32)
        high = w.pointwise("Div", wide, sixteen)
        low = w.pointwise("Sub", wide, w.pointwise("Mul", high, sixteen))
        dims = (*w.dims(value), 1)
        both = w.concat([w.reshape(low, dims), w.reshape(high, dims)], -1)
        return w.reshape(w.cast(both, kind), (columns, blocks, count))

    numbers = halves(w.reshape(packed, (columns, blocks, block // 2)), block)
    if not zeros:
        shift = w.scalar(8, x)
    elif w.type(zeros) is DataType.UINT8:
        if blocks % 2:
            raise Unserved("zero_points", f"{blocks} blocks", "an even number of blocks")
        shift = w.reshape(halves(w.reshape(zeros, (columns, blocks // 2)), 1), (columns, blocks, 1))
    else:
        shift = w.reshape(zeros, (columns, blocks, 1))
    scaled = w.pointwise(
        "Mul", w.pointwise("Sub", numbers, shift), w.reshape(scales, (columns, blocks, 1))
    )
    weights = w.slice(w.reshape(scaled, (columns, blocks * block)), 1, 0, rows)
    return [w.matmul(x, w.transpose(weights, (1, 0)))]


EXPANSIONS: Mapping[tuple[str, str], Callable[[Writer], list[str]]] = {
    **expand_attention.EXPANSIONS,
    ("", "LpNormalization"): _lp_normalization,
    ("", "QLinearMatMul"): _qlinear_matmul,
    ("", "RMSNormalization"): _rms_normalization,
    ("", "SimplifiedLayerNormalization"): _rms_normalization,
    ("com.microsoft", "MatMulNBits"): _matmul_nbits,
    ("com.microsoft", "SimplifiedLayerNormalization"): _rms_normalization,
    ("com.microsoft", "SkipLayerNormalization"): _skip_layer_norm,
    ("com.microsoft", "SkipSimplifiedLayerNormalization"): _skip_rms,
}
"""(domain, op) -> what writes it with other ops and returns its outputs, empty for none."""
