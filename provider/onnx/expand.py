"""ONNX ops that torch-mlir does not convert, or converts wrongly, as ops that it does.

An expansion is a function of the node as a `Writer` sees it.  All extents are known by then.  One
that does not honour an input or attribute says so by `Unserved`, and the node is declined.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod, sqrt

from ...graph_api.dtypes import DataType
from .model import Attribute, Constant, Model, Node, Value

__all__ = ["EXPANSIONS", "Unserved", "Writer", "expanded"]


class Unserved(Exception):  # noqa: N818 - an answer, not a defect
    """An input or attribute that an expansion does not honour: port, found, wanted."""

    def __init__(self, port: str, got: object, wanted: str) -> None:
        super().__init__(f"{port}: {got}")
        self.port, self.got, self.wanted = port, str(got), wanted


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


class Writer:
    """Writes nodes in place of one; values are known by name.

    Parameters
    ----------
    node : Node
        The node that is expanded.
    values, constants, nodes
        Of the model that is made; added to.
    opset : int
        Version of ONNX's own ops.
    """

    def __init__(
        self,
        node: Node,
        values: dict[str, Value],
        constants: dict[str, Constant],
        nodes: list[Node],
        opset: int,
    ) -> None:
        self.node, self.opset = node, opset
        self._values, self._constants, self._nodes = values, constants, nodes
        self._count = 0

    # ------------------------------------------------------------------ the node

    def input(self, place: int) -> str:
        """Return an input by place; empty where it is left out."""
        names = self.node.inputs
        return names[place] if place < len(names) else ""

    def output(self, place: int) -> str:
        """Return an output by place; empty where nobody wants it."""
        names = self.node.outputs
        return names[place] if place < len(names) else ""

    def integer(self, name: str, default: int = 0) -> int:
        """Return an attribute that is an integer."""
        found = self.node.attributes.get(name, default)
        if not isinstance(found, int):
            raise Unserved(name, found, "an integer")
        return found

    def number(self, name: str, default: float = 0.0) -> float:
        """Return an attribute that is a number."""
        found = self.node.attributes.get(name, default)
        if not isinstance(found, int | float):
            raise Unserved(name, found, "a number")
        return float(found)

    def absent(self, *places: int) -> None:
        """Refuse inputs that are given."""
        for place in places:
            if self.input(place):
                raise Unserved(f"input {place}", self.input(place), "left out")

    def unwanted(self, *places: int) -> None:
        """Refuse outputs that are wanted."""
        for place in places:
            if self.output(place):
                raise Unserved(f"output {place}", self.output(place), "left out")

    def must_be(self, name: str, *allowed: Attribute) -> None:
        """Refuse an attribute that is given and has none of some values."""
        found = self.node.attributes.get(name)
        if found is not None and found not in allowed:
            raise Unserved(name, found, " or ".join(map(str, allowed)))

    def integers(self, name: str) -> list[int]:
        """Return the elements of a constant of integers."""
        found = self._constants.get(name)
        if found is None or found.data_type not in (DataType.INT32, DataType.INT64):
            raise Unserved(name or "input", "no constant", "a constant of integers")
        code = "i" if found.data_type is DataType.INT32 else "q"
        return list(struct.unpack(f"<{prod(found.dims)}{code}", found.data))

    # ------------------------------------------------------------------ values

    def dims(self, name: str) -> tuple[int, ...]:
        """Return the dims of a value."""
        return self._values[name].shape

    def type(self, name: str) -> DataType:
        """Return the element type of a value."""
        found = self._values[name].data_type
        assert found is not None
        return found

    def op(
        self,
        op: str,
        inputs: Sequence[str],
        dims: Sequence[int],
        kind: DataType | None = None,
        **attributes: Attribute,
    ) -> str:
        """Add a node and return its one result, of the first input's type by default."""
        self._count += 1
        name = f"{self.node.label}/{self._count}"
        self._values[name] = Value(name, kind or self.type(inputs[0]), tuple(dims))
        self._nodes.append(
            replace(
                self.node,
                op=op,
                domain="",
                inputs=tuple(inputs),
                outputs=(name,),
                attributes=attributes,
                odd=(),
            )
        )
        return name

    def named(self, value: str, name: str) -> None:
        """Give a value the name of an output."""
        last = self._nodes[-1]
        if last.outputs == (value,):
            self._nodes[-1] = replace(last, outputs=(name,))
        else:
            self._nodes.append(
                replace(
                    self.node,
                    op="Identity",
                    domain="",
                    inputs=(value,),
                    outputs=(name,),
                    attributes={},
                    odd=(),
                )
            )

    def constant(self, values: Sequence[float], dims: Sequence[int], kind: DataType) -> str:
        """Return a constant."""
        self._count += 1
        name = f"{self.node.label}/c{self._count}"
        letters = {DataType.FLOAT: "f", DataType.HALF: "e", DataType.DOUBLE: "d"}
        letters |= {DataType.INT64: "q", DataType.INT32: "i", DataType.UINT8: "B"}
        if kind is DataType.BFLOAT16:
            data = b"".join(struct.pack("<f", v)[2:] for v in values)
        elif kind is DataType.BOOLEAN:
            data = bytes(map(bool, values))
        else:
            whole = kind.value.kind != "float"
            packed = [int(v) for v in values] if whole else values
            data = struct.pack(f"<{len(values)}{letters[kind]}", *packed)
        self._constants[name] = Constant(kind, tuple(dims), data)
        self._values[name] = Value(name, kind, tuple(dims))
        return name

    def shape(self, values: Sequence[int]) -> str:
        """Return a constant list of integers."""
        return self.constant(values, (len(values),), DataType.INT64)

    def scalar(self, value: float, like: str) -> str:
        """Return a constant without dims, of another value's type."""
        return self.constant([value], (), self.type(like))

    # ------------------------------------------------------------------ ops

    def pointwise(self, op: str, a: str, b: str = "", kind: DataType | None = None) -> str:
        """Return an element-wise op of one or two values, which are broadcast."""
        if not b:
            return self.op(op, [a], self.dims(a), kind)
        return self.op(op, [a, b], _broadcast(self.dims(a), self.dims(b)), kind)

    def scaled(self, a: str, factor: float) -> str:
        """Return a value times a number."""
        return a if factor == 1 else self.pointwise("Mul", a, self.scalar(factor, a))

    def matmul(self, a: str, b: str) -> str:
        """Return the matrix product."""
        left, right = self.dims(a), self.dims(b)
        batch = _broadcast(left[:-2], right[:-2])
        return self.op("MatMul", [a, b], (*batch, left[-2], right[-1]))

    def transpose(self, a: str, order: Sequence[int]) -> str:
        """Return a value with its dims in another order."""
        return self.op("Transpose", [a], [self.dims(a)[k] for k in order], perm=tuple(order))

    def reshape(self, a: str, dims: Sequence[int]) -> str:
        """Return a value with other dims."""
        if self.dims(a) == tuple(dims):
            return a
        return self.op("Reshape", [a, self.shape(dims)], dims)

    def expand(self, a: str, dims: Sequence[int]) -> str:
        """Return a value broadcast to some dims."""
        return self.op("Expand", [a, self.shape(dims)], dims)

    def concat(self, parts: Sequence[str], axis: int) -> str:
        """Return values joined along an axis."""
        dims = list(self.dims(parts[0]))
        axis %= len(dims)
        dims[axis] = sum(self.dims(p)[axis] for p in parts)
        return parts[0] if len(parts) == 1 else self.op("Concat", parts, dims, axis=axis)

    def slice(self, a: str, axis: int, start: int, end: int, step: int = 1) -> str:
        """Return some of the entries along an axis."""
        dims = list(self.dims(a))
        axis %= len(dims)
        if (start, end, step) == (0, dims[axis], 1):
            return a
        dims[axis] = -(-(end - start) // step)
        names = [self.shape([n]) for n in (start, end, axis, step)]
        return self.op("Slice", [a, *names], dims)

    def mean(self, a: str, axes: Sequence[int]) -> str:
        """Return the mean along axes, which stay with extent 1."""
        dims = [1 if k in axes else d for k, d in enumerate(self.dims(a))]
        return self.reduce("ReduceMean", a, axes, dims)

    def reduce(self, op: str, a: str, axes: Sequence[int], dims: Sequence[int]) -> str:
        """Return a reduction; axes are an attribute or an input, by the op's version."""
        since = 13 if op == "ReduceSum" else 18
        if self.opset >= since:
            return self.op(op, [a, self.shape(axes)], dims, keepdims=1)
        return self.op(op, [a], dims, axes=tuple(axes), keepdims=1)

    def cast(self, a: str, kind: DataType) -> str:
        """Return a value in another type."""
        if self.type(a) is kind:
            return a
        return self.op("Cast", [a], self.dims(a), kind, to=_ONNX[kind])


_ONNX = {
    DataType.FLOAT: 1,
    DataType.UINT8: 2,
    DataType.INT8: 3,
    DataType.INT32: 6,
    DataType.INT64: 7,
    DataType.BOOLEAN: 9,
    DataType.HALF: 10,
    DataType.DOUBLE: 11,
    DataType.BFLOAT16: 16,
}


def _broadcast(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    rank = max(len(a), len(b))
    left, right = ((1,) * (rank - len(d)) + tuple(d) for d in (a, b))
    return tuple(y if x == 1 else x for x, y in zip(left, right, strict=True))


# ------------------------------------------------------------------------ normalisations


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


# ------------------------------------------------------------------------ rotary embedding


def _rotate(w: Writer, x: str, cos: str, sin: str, interleaved: bool) -> str:
    """Rotate all of the last dim of (B, S, H, D) by angles of (B or 1, S, 1, D/2)."""
    *outer, size = w.dims(x)
    half = size // 2
    if interleaved:
        parts = w.reshape(x, (*outer, half, 2))
        one, two = (w.reshape(w.slice(parts, -1, k, k + 1), (*outer, half)) for k in (0, 1))
    else:
        one, two = w.slice(x, -1, 0, half), w.slice(x, -1, half, size)

    def mixed(op: str, a: str, b: str) -> str:
        return w.pointwise(op, w.pointwise("Mul", a, cos), w.pointwise("Mul", b, sin))

    real, other = mixed("Sub", one, two), mixed("Add", two, one)
    if not interleaved:
        return w.concat([real, other], -1)
    pairs = [w.reshape(v, (*outer, half, 1)) for v in (real, other)]
    return w.reshape(w.concat(pairs, -1), (*outer, size))


def _rotary(
    w: Writer, x: str, positions: str, cos: str, sin: str, *, heads: int, rotated: int
) -> str:
    """Rotate x of (B, H, S, D) or (B, S, H * D)."""
    dims = w.dims(x)
    if len(dims) == 4:
        turned = w.transpose(x, (0, 2, 1, 3))
    else:
        if not heads and rotated:
            heads = dims[2] // (w.dims(cos)[-1] * 2) if rotated == w.dims(cos)[-1] * 2 else 0
        heads = heads or dims[2] // (w.dims(cos)[-1] * 2)
        turned = w.reshape(x, (*dims[:2], heads, dims[2] // heads))
    _, length, heads, size = w.dims(turned)
    rotated = rotated or size
    angles = []
    for table in (cos, sin):
        found = table
        if positions:
            at = w.dims(positions)
            if at == (1,) or len(at) == 1:
                raise Unserved("position_ids", list(at), "positions of each token")
            found = w.op("Gather", [table, positions], (*at, w.dims(table)[-1]), axis=0)
        elif len(w.dims(table)) == 2:
            found = w.reshape(w.slice(table, 0, 0, length), (1, length, w.dims(table)[-1]))
        if w.dims(found)[-1] != rotated // 2:
            raise Unserved("cos_cache", list(w.dims(table)), f"{rotated // 2} angles")
        angles.append(w.reshape(found, (*w.dims(found)[:2], 1, rotated // 2)))
    interleaved = bool(w.integer("interleaved"))
    made = _rotate(w, w.slice(turned, -1, 0, rotated), angles[0], angles[1], interleaved)
    if rotated < size:
        made = w.concat([made, w.slice(turned, -1, rotated, size)], -1)
    if len(dims) == 4:
        return w.transpose(made, (0, 2, 1, 3))
    return w.reshape(made, dims)


def _rotary_embedding(w: Writer) -> list[str]:
    return [
        _rotary(
            w,
            w.input(0),
            w.input(3),
            w.input(1),
            w.input(2),
            heads=w.integer("num_heads"),
            rotated=w.integer("rotary_embedding_dim"),
        )
    ]


def _contrib_rotary(w: Writer) -> list[str]:
    w.must_be("is_packed_batching", 0)
    w.must_be("scale", 1.0)
    return [
        _rotary(
            w,
            w.input(0),
            w.input(1),
            w.input(2),
            w.input(3),
            heads=w.integer("num_heads"),
            rotated=w.integer("rotary_embedding_dim"),
        )
    ]


# ------------------------------------------------------------------------ attention


def _heads(w: Writer, x: str, heads: int) -> str:
    """Return (B, S, H * D) as (B, H, S, D)."""
    batch, length, size = w.dims(x)
    return w.transpose(w.reshape(x, (batch, length, heads, size // heads)), (0, 2, 1, 3))


def _joined(w: Writer, x: str) -> str:
    """Return (B, H, S, D) as (B, S, H * D)."""
    batch, heads, length, size = w.dims(x)
    return w.reshape(w.transpose(x, (0, 2, 1, 3)), (batch, length, heads * size))


def _repeated(w: Writer, x: str, heads: int) -> str:
    """Return (B, G, S, D) with each of its heads repeated."""
    batch, groups, length, size = w.dims(x)
    if groups == heads:
        return x
    wide = w.expand(
        w.reshape(x, (batch, groups, 1, length, size)),
        (batch, groups, heads // groups, length, size),
    )
    return w.reshape(wide, (batch, heads, length, size))


def _causal(w: Writer, length: int, keys: int, offset: int, kind: DataType) -> str:
    """Return 0 where a query sees a key, else minus infinity."""
    seen = [0.0 if j <= i + offset else float("-inf") for i in range(length) for j in range(keys)]
    return w.constant(seen, (length, keys), kind)


def _masked_softmax(w: Writer, scores: str, *, robust: bool) -> str:
    """Return the softmax; ``robust``: a row of minus infinities gives zeros."""
    if not robust:
        return w.op("Softmax", [scores], w.dims(scores), axis=-1)
    dims = (*w.dims(scores)[:-1], 1)
    lowest = w.scalar(-3e38 if w.type(scores) is not DataType.HALF else -65504.0, scores)
    most = w.reduce("ReduceMax", scores, [len(dims) - 1], dims)
    safe = w.op("Max", [most, lowest], dims)
    powers = w.pointwise("Exp", w.pointwise("Sub", scores, safe))
    total = w.reduce("ReduceSum", powers, [len(dims) - 1], dims)
    none = w.pointwise("Equal", total, w.scalar(0, total), DataType.BOOLEAN)
    divisor = w.op("Where", [none, w.scalar(1, total), total], dims, w.type(total))
    return w.pointwise("Div", powers, divisor)


def _attention(w: Writer) -> list[str]:
    w.absent(6)
    w.must_be("softmax_precision", 1, 10, 16, 11)
    w.must_be("left_window_size", -1)
    w.must_be("right_window_size", -1)
    q, k, v = (w.input(n) for n in range(3))
    flat = len(w.dims(q)) == 3
    if flat:
        kv = w.integer("kv_num_heads")
        q = _heads(w, q, w.integer("q_num_heads"))
        k, v = _heads(w, k, kv), _heads(w, v, kv)
    past = w.input(4)
    if past:
        k, v = w.concat([past, k], 2), w.concat([w.input(5), v], 2)
    present = k, v
    heads, size = w.dims(q)[1], w.dims(q)[3]
    scale = sqrt(w.number("scale") or 1 / sqrt(size))
    wide_k, wide_v = _repeated(w, k, heads), _repeated(w, v, heads)
    scores = w.matmul(w.scaled(q, scale), w.transpose(w.scaled(wide_k, scale), (0, 1, 3, 2)))
    mode = w.integer("qk_matmul_output_mode")
    stages = {0: scores}
    kind, (length, keys) = w.type(scores), w.dims(scores)[-2:]
    mask, robust = w.input(3), False
    cap = w.number("softcap")
    if cap:
        scores = w.scaled(w.pointwise("Tanh", w.scaled(scores, 1 / cap)), cap)
    stages[2 if w.node.version < 24 else 1] = scores
    if mask:
        if w.dims(mask)[-1] != keys:
            raise Unserved("attn_mask", list(w.dims(mask)), f"a mask for {keys} keys")
        if w.type(mask) is DataType.BOOLEAN:
            none, hidden = w.scalar(0, scores), w.scalar(float("-inf"), scores)
            mask = w.op("Where", [mask, none, hidden], w.dims(mask), kind)
        robust = True
        scores = w.pointwise("Add", scores, w.cast(mask, kind))
    if w.integer("is_causal"):
        offset = w.dims(past)[2] if past else 0
        scores = w.pointwise("Add", scores, _causal(w, length, keys, offset, kind))
    stages[1 if w.node.version < 24 else 2] = scores
    weights = _masked_softmax(w, scores, robust=robust)
    stages[3] = weights
    y = w.matmul(weights, wide_v)
    if w.output(3) and cap and mode in (1, 2):
        raise Unserved("qk_matmul_output_mode", mode, "0 or 3 with a softcap")
    return [_joined(w, y) if flat else y, *present, stages[mode] if w.output(3) else ""]


def _multi_head_attention(w: Writer) -> list[str]:
    w.absent(3, 4, 6, 7)
    w.unwanted(1, 2, 3)
    heads = w.integer("num_heads")
    if any(len(w.dims(w.input(n))) != 3 for n in range(3) if w.input(n)) or not w.input(2):
        raise Unserved("query", "packed or of another rank", "query, key and value of rank 3")
    q, k, v = (_heads(w, w.input(n), heads) for n in range(3))
    scale = w.number("scale") or 1 / sqrt(w.dims(q)[3])
    scores = w.scaled(w.matmul(q, w.transpose(k, (0, 1, 3, 2))), scale)
    if w.input(5):
        scores = w.pointwise("Add", scores, w.input(5))
    if w.integer("unidirectional"):
        length, keys = w.dims(scores)[-2:]
        mask = _causal(w, length, keys, keys - length, w.type(scores))
        scores = w.pointwise("Add", scores, mask)
    weights = _masked_softmax(w, scores, robust=bool(w.input(5)))
    return [_joined(w, w.matmul(weights, v))]


def _group_query_attention(w: Writer) -> list[str]:
    w.absent(3, 4, 9, 10, 11, 12, 13)
    w.must_be("local_window_size", -1)
    w.must_be("softcap", 0.0)
    w.must_be("smooth_softmax", 0, -1)
    w.must_be("qk_output", 0)
    w.unwanted(3)
    heads, groups = w.integer("num_heads"), w.integer("kv_num_heads")
    q, k, v = (w.input(n) for n in range(3))
    if not k or not v or any(len(w.dims(n)) != 3 for n in (q, k, v)):
        raise Unserved("key", "packed or of another rank", "query, key and value of rank 3")
    length = w.dims(q)[1]
    if w.dims(k)[1] != length:
        raise Unserved("key", list(w.dims(k)), f"{length} keys, as there is no past")
    # Without a past all rows are full, or the mask would depend on what is known at execution.
    if set(w.integers(w.input(5))) != {length - 1}:
        raise Unserved("seqlens_k", w.integers(w.input(5)), f"{length - 1} in each row")
    if w.integer("do_rotary"):
        w_cos, w_sin = w.input(7), w.input(8)
        q, k = (
            _rotary(w, x, "", w_cos, w_sin, heads=n, rotated=2 * w.dims(w_cos)[-1])
            for x, n in ((q, heads), (k, groups))
        )
    q, k, v = _heads(w, q, heads), _heads(w, k, groups), _heads(w, v, groups)
    present = k, v
    scale = w.number("scale") or 1 / sqrt(w.dims(q)[3])
    wide_k, wide_v = _repeated(w, k, heads), _repeated(w, v, heads)
    scores = w.scaled(w.matmul(q, w.transpose(wide_k, (0, 1, 3, 2))), scale)
    scores = w.pointwise("Add", scores, _causal(w, length, length, 0, w.type(scores)))
    y = w.matmul(_masked_softmax(w, scores, robust=False), wide_v)
    return [_joined(w, y), *present]


# ------------------------------------------------------------------------ quantised


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
    ("", "Attention"): _attention,
    ("", "LpNormalization"): _lp_normalization,
    ("", "QLinearMatMul"): _qlinear_matmul,
    ("", "RMSNormalization"): _rms_normalization,
    ("", "RotaryEmbedding"): _rotary_embedding,
    ("", "SimplifiedLayerNormalization"): _rms_normalization,
    ("com.microsoft", "GroupQueryAttention"): _group_query_attention,
    ("com.microsoft", "MatMulNBits"): _matmul_nbits,
    ("com.microsoft", "MultiHeadAttention"): _multi_head_attention,
    ("com.microsoft", "RotaryEmbedding"): _contrib_rotary,
    ("com.microsoft", "SimplifiedLayerNormalization"): _rms_normalization,
    ("com.microsoft", "SkipLayerNormalization"): _skip_layer_norm,
    ("com.microsoft", "SkipSimplifiedLayerNormalization"): _skip_rms,
}
"""(domain, op) -> what writes it with other ops and returns its outputs, empty for none."""
