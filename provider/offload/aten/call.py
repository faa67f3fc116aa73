# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An aten op as a builder sees it: operands by name, and the graph that it adds nodes to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from ....graph_api.dtypes import DataType
from ....graph_api.errors import Problem
from ....graph_api.tensor import Scalar, Tensor
from ..program import Function, Op, Operand, Ref, TensorType

if TYPE_CHECKING:
    from ....graph_api.graph import Graph

__all__ = [
    "RULES",
    "AtenOp",
    "Built",
    "Call",
    "Family",
    "Quantised",
    "Result",
    "Several",
    "Unsupported",
    "compute_type",
]

RULES: dict[str, str] = {
    "ATEN-01": "the op has a form as a hipDNN graph",
    "ATEN-02": "tensors have static dims without zeros, and an element type that hipDNN has",
    "ATEN-03": "operands that are no tensors are constants",
    "ATEN-04": "the value of the operand is one that the form of the op honours",
    "ATEN-05": "the result has the dims that the operands give",
}


class Unsupported(Exception):  # noqa: N818 - an answer, not a defect
    """Why an op is left where it is: the rule, what was found and what is wanted."""

    def __init__(self, rule: str, port: str, got: object, wanted: str, hint: str = "") -> None:
        self.problem = Problem(rule=rule, port=port, got=str(got), wanted=wanted, hint=hint)
        super().__init__(str(self.problem))


@dataclass(frozen=True, slots=True)
class Quantised:
    """A tensor of integers with scale and zero point, which torch types as one value."""

    tensor: Tensor
    scale: Scalar | Tensor
    zero_point: Scalar | Tensor
    axis: int | None = None


@dataclass(frozen=True, slots=True)
class Several:
    """A list of tensors as one value."""

    tensors: tuple[Tensor, ...]


Result = Tensor | Quantised | Several | None
Built = Result | Sequence[Result]


@dataclass(frozen=True, slots=True)
class AtenOp:
    """What the offload pipeline knows of an op.

    Attributes
    ----------
    operands : tuple of str
        Their names, in the order of the op's schema.
    build : callable
        Adds it to a graph and returns its results; `Unsupported` says why it cannot.  It is
        asked with the op alone before the op is claimed, so that what is claimed can be built.
    family : str
        One of `Family`: what it may share a region with.
    """

    operands: tuple[str, ...]
    build: Callable[[Call], Built]
    family: str


class Family:
    """Families of ops, by what they may share a region with."""

    POINTWISE = "elements"
    """Element by element: joins what makes its operands."""
    MOVEMENT = "movement"
    """Moves elements: joins what makes its operand, or what reads it."""
    MATMUL = "contraction"
    """Matmuls and convolutions: one in a region, in front of what is fused to it."""
    ROW = "row"
    """Norms, softmax, reductions: joins pointwise ops in front of it."""
    WINDOW = "window"
    """Pooling, resizing, scans: one in a region."""


class Call:
    """An op with its operands.

    Attributes
    ----------
    graph : Graph
    op : Op
    function : Function
    """

    def __init__(
        self,
        graph: Graph,
        function: Function,
        op: Op,
        names: Sequence[str],
        known: Mapping[int, Result],
    ) -> None:
        self.graph, self.function, self.op = graph, function, op
        self._known = known
        if len(names) != len(op.operands):
            got, wanted = f"{len(op.operands)} operands", f"{len(names)}: {', '.join(names)}"
            raise Unsupported("ATEN-04", "", got, wanted)
        self.names = tuple(names)
        self._operands = dict(zip(names, op.operands, strict=True))

    # ------------------------------------------------------------------ tensors

    def has(self, name: str) -> bool:
        """Whether an operand is there, and not None."""
        return self._operands[name] is not None

    def takes(self, name: str) -> bool:
        """Whether the op has an operand of this name."""
        return name in self._operands

    def is_value(self, name: str) -> bool:
        """Whether an operand is a value, and not a constant."""
        return isinstance(self._operands[name], Ref)

    def type(self, name: str) -> TensorType:
        """Return dims and element type of a tensor operand."""
        operand = self._operands[name]
        if not isinstance(operand, Ref):
            raise Unsupported("ATEN-04", name, _shown(operand), "a tensor")
        return self._type(operand.value, name)

    def _type(self, value: int, port: str) -> TensorType:
        found = self.function.values[value]
        if found.type is None or 0 in found.type.dims:
            wanted = "a tensor of static dims, none of them 0, of a type that hipDNN has"
            raise Unsupported("ATEN-02", port, found.text, wanted)
        return found.type

    def result(self, place: int = 0) -> TensorType:
        """Return dims and element type of a result."""
        return self._type(self.op.results[place], f"result {place}" if place else "result")

    def is_read(self, place: int) -> bool:
        """Whether a result is read by an op of the function, or returned."""
        value, function = self.op.results[place], self.function
        return value in function.returned or any(value in op.reads for op in function.ops)

    def tensor(self, name: str) -> Tensor:
        """Return a tensor operand; one without dims has dims (1,)."""
        self.type(name)
        operand = self._operands[name]
        assert isinstance(operand, Ref)
        return self._tensor(operand.value, name)

    def _tensor(self, value: int, port: str) -> Tensor:
        found = self._known.get(value)
        if isinstance(found, Tensor):
            return found
        number = self.function.values[value].number
        if number is None:
            raise Unsupported("ATEN-02", port, "no tensor", "a tensor of hipDNN's types")
        return self.graph.scalar(number, data_type=self._type(value, port).data_type)

    def quantised(self, name: str) -> Quantised:
        """Return an operand that has a scale and a zero point."""
        operand = self._operands[name]
        found = self._known.get(operand.value) if isinstance(operand, Ref) else None
        if not isinstance(found, Quantised):
            raise Unsupported("ATEN-04", name, "another value", "a quantised tensor")
        return found

    def tensors(self, name: str) -> list[Tensor]:
        """Return the tensors of a list."""
        operand = self._operands[name]
        if not isinstance(operand, tuple) or not operand:
            raise Unsupported("ATEN-04", name, _shown(operand), "a list of tensors")
        found = []
        for i, one in enumerate(operand):
            if not isinstance(one, Ref):
                raise Unsupported("ATEN-04", f"{name}[{i}]", _shown(one), "a tensor")
            self._type(one.value, f"{name}[{i}]")
            found.append(self._tensor(one.value, f"{name}[{i}]"))
        return found

    def several(self, name: str) -> tuple[Tensor, ...]:
        """Return the tensors of a list that an op has made."""
        operand = self._operands[name]
        found = self._known.get(operand.value) if isinstance(operand, Ref) else None
        if not isinstance(found, Several):
            raise Unsupported("ATEN-04", name, "another value", "a list of tensors")
        return found.tensors

    def types(self, name: str) -> list[TensorType]:
        """Return dims and element types of the tensors of a list."""
        operand = self._operands[name]
        assert isinstance(operand, tuple)
        return [self._type(one.value, name) for one in operand if isinstance(one, Ref)]

    # ------------------------------------------------------------------ constants

    def constant(self, name: str) -> Any:
        """Return a constant operand as a Python value; lists are tuples."""
        operand = self._operands[name]
        if _open(operand):
            number = self._number(operand)
            if number is not None:
                return number
            wanted = "a constant"
            raise Unsupported("ATEN-03", name, "a value known at run time", wanted)
        return operand

    def _number(self, operand: Operand) -> bool | int | float | None:
        return self.function.values[operand.value].number if isinstance(operand, Ref) else None

    def operand(self, name: str) -> Tensor | Scalar:
        """Return an operand that is a tensor or a number, for a pointwise node."""
        operand = self._operands[name]
        return self.tensor(name) if isinstance(operand, Ref) else self.number(name)

    def number(self, name: str) -> bool | int | float:
        """Return a number."""
        found = self.constant(name)
        if not isinstance(found, bool | int | float):
            raise Unsupported("ATEN-04", name, _shown(found), "a number")
        if isinstance(found, float) and not isfinite(found):
            raise Unsupported("ATEN-04", name, found, "a finite number")
        return found

    def integer(self, name: str) -> int:
        """Return an integer."""
        found = self.constant(name)
        if not isinstance(found, int) or isinstance(found, bool):
            raise Unsupported("ATEN-04", name, _shown(found), "an integer")
        return found

    def flag(self, name: str) -> bool:
        """Return a truth value."""
        found = self.constant(name)
        if not isinstance(found, bool):
            raise Unsupported("ATEN-04", name, _shown(found), "true or false")
        return found

    def integers(self, name: str, count: int | None = None) -> tuple[int, ...]:
        """Return a list of integers; one that has a single entry counts for all ``count``."""
        found = self.constant(name)
        found = (found,) if isinstance(found, int) and not isinstance(found, bool) else found
        if not isinstance(found, tuple) or not all(type(n) is int for n in found):
            raise Unsupported("ATEN-04", name, _shown(found), "a list of integers")
        if count is not None and len(found) == 1:
            found *= count
        if count is not None and len(found) != count:
            raise Unsupported("ATEN-04", name, list(found), f"{count} integers")
        return found

    def axis(self, name: str, rank: int) -> int:
        """Return a dim, counted from the first one."""
        return self._counted(self.integer(name), rank, name)

    def axes(self, name: str, rank: int) -> tuple[int, ...]:
        """Return dims, counted from the first one; all of them for None or none."""
        found = self.integers(name) if self.has(name) else ()
        return tuple(sorted({self._counted(n, rank, name) for n in found})) or tuple(range(rank))

    def _counted(self, dim: int, rank: int, name: str) -> int:
        rank = max(rank, 1)
        if not -rank <= dim < rank:
            raise Unsupported("ATEN-04", name, dim, f"a dim of rank {rank}")
        return dim % rank

    def must_be(self, name: str, *allowed: object) -> None:
        """Refuse an operand that has another value than those that are honoured."""
        found = self.constant(name)
        if not any(found == one and type(found) is type(one) for one in allowed):
            wanted = " or ".join(_shown(one) for one in allowed)
            raise Unsupported("ATEN-04", name, _shown(found), wanted)

    def refuse(self, port: str, got: object, wanted: str) -> Unsupported:
        """Return why an operand's value is not honoured."""
        return Unsupported("ATEN-04", port, got, wanted)

    # ------------------------------------------------------------------ nodes

    @property
    def compute(self) -> DataType:
        """The type to compute the result in."""
        return compute_type(self.result().data_type)

    def pointwise(self, mode: str, *operands: Tensor | Scalar, **attributes: Any) -> Tensor:
        """Add an elementwise node that computes in the result's type, or a wider one."""
        attributes.setdefault("compute_data_type", self.compute)
        return self.graph.pointwise(*operands, mode=mode, **attributes)

    def shaped(self, tensor: Tensor, dims: Sequence[int]) -> Tensor:
        """Return a tensor with other dims and the same elements."""
        if tuple(tensor.dims or ()) == tuple(dims) and tensor.value is None:
            return tensor
        return self.graph.reshape(tensor, dim=tuple(dims))


def compute_type(*data_types: DataType) -> DataType:
    """Return the type in which values of some types are computed: FLOAT for narrow floats."""
    if DataType.DOUBLE in data_types:
        return DataType.DOUBLE
    if any(t.is_float for t in data_types):
        return DataType.FLOAT
    return max(data_types, key=lambda t: (not t.is_bool, t.bits))


def _open(operand: Operand) -> bool:
    """Whether an operand, or an entry of it, is a value."""
    if isinstance(operand, tuple):
        return any(map(_open, operand))
    return isinstance(operand, Ref)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(_shown, value))}]"
    return "a value of the function" if isinstance(value, Ref) else str(value)
