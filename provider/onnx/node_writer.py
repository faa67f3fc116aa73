# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writing ONNX nodes in place of one: values with known dims and types, by name."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace

from ...graph_api.dtypes import DataType
from .model import Attribute, Constant, Node, Value

__all__ = ["Unserved", "Writer"]


class Unserved(Exception):  # noqa: N818 - an answer, not a defect
    """An input or attribute that an expansion does not honour: port, found, wanted."""

    def __init__(self, port: str, got: object, wanted: str) -> None:
        super().__init__(f"{port}: {got}")
        self.port, self.got, self.wanted = port, str(got), wanted


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

    def is_constant(self, name: str) -> bool:
        """Whether the elements of a value are known."""
        return name in self._constants

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
