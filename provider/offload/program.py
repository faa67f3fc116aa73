# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A torch-dialect function as data: what the offload pipeline decides on, without MLIR.

A worker process reads the module and describes it (`passes.describe`); everything that is decided
of ops, which are supported, what belongs together, what a region computes, rests on this
description, so that nothing of MLIR is touched in the host process.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...graph_api.dtypes import DataType
from ...graph_api.errors import Problem

__all__ = ["Function", "Op", "Operand", "Ref", "Refused", "Remark", "TensorType", "Value", "refs"]


@dataclass(frozen=True, slots=True)
class Ref:
    """An operand that is a value of the function, by its number."""

    value: int


Operand = Ref | bool | int | float | str | None | tuple["Operand", ...]
"""A value, or a constant: the Python number, text, None or tuple that it stands for."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """Dims and element type of a value tensor; rank 0 has no dims."""

    dims: tuple[int, ...]
    data_type: DataType

    @property
    def graph_dims(self) -> tuple[int, ...]:
        """The dims of the tensor in a hipDNN graph, which has at least one."""
        return self.dims or (1,)


_BY_SPELLING = {t.value.mlir: t for t in DataType if t.value.mlir}
_TENSOR = re.compile(r"!torch\.vtensor<\[([\d,]*)\],(\w+)>")


@dataclass(frozen=True, slots=True)
class Value:
    """A value of a function.

    Attributes
    ----------
    text : str
        Its type as MLIR spells it.
    type : TensorType or None
        None for what is no tensor of static dims and a type that hipDNN has.
    number : bool, int or float, optional
        The element of a constant tensor with one element.
    constant : bool
        Whether it is a constant tensor.
    """

    text: str
    type: TensorType | None
    number: bool | int | float | None = None
    constant: bool = False

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Value:
        text, number = record["type"], record.get("number")
        return cls(text, _tensor(text), _number(number), record.get("constant", False))


def _number(value: Any) -> bool | int | float | None:
    return float(value) if isinstance(value, str) else value


def _tensor(text: str) -> TensorType | None:
    found = _TENSOR.fullmatch(text)
    if found is None or found[2] not in _BY_SPELLING:
        return None
    return TensorType(tuple(int(d) for d in found[1].split(",") if d), _BY_SPELLING[found[2]])


@dataclass(frozen=True, slots=True)
class Op:
    """An op of a function that is no constant.

    Attributes
    ----------
    place : int
        Its place in the block.
    name : str
        ``aten.add.Tensor``; of a ``torch.operator`` what it calls, such as ``onnx.Conv``.
    operands : tuple
    results : tuple of int
        The values that it makes.
    location : str
        What the module says of where it comes from: the name of an ONNX or FX node, else line and
        column.
    """

    place: int
    name: str
    operands: tuple[Operand, ...]
    results: tuple[int, ...]
    location: str

    @property
    def reads(self) -> tuple[int, ...]:
        """The values among its operands, those in lists included, each once."""
        return tuple(dict.fromkeys(refs(self.operands)))


def refs(operand: Operand) -> Iterator[int]:
    """Yield the values in an operand."""
    if isinstance(operand, Ref):
        yield operand.value
    elif isinstance(operand, tuple):
        for one in operand:
            yield from refs(one)


@dataclass(frozen=True, slots=True)
class Function:
    """A function with a body of one block, or a region.

    Attributes
    ----------
    name : str
    arguments, returned : tuple of int
        Values.
    ops : tuple of Op
        In order, constants left out.
    values : tuple of Value
        By number.
    """

    name: str
    arguments: tuple[int, ...]
    returned: tuple[int, ...]
    ops: tuple[Op, ...]
    values: tuple[Value, ...]

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Function:
        """Return the function for a worker's record."""
        ops = (
            Op(
                place=one["place"],
                name=one["name"],
                operands=tuple(map(_operand, one["operands"])),
                results=tuple(one["results"]),
                location=one["location"],
            )
            for one in record["ops"]
        )
        return cls(
            name=record["name"],
            arguments=tuple(record["arguments"]),
            returned=tuple(record["returned"]),
            ops=tuple(ops),
            values=tuple(map(Value.of, record["values"])),
        )

    def makers(self) -> dict[int, Op]:
        """Return the op that makes each value."""
        return {value: op for op in self.ops for value in op.results}

    def users(self) -> dict[int, list[Op]]:
        """Return the ops that read each value."""
        found: dict[int, list[Op]] = {}
        for op in self.ops:
            for value in op.reads:
                found.setdefault(value, []).append(op)
        return found

    def part(self, name: str, ops: Sequence[Op], users: Mapping[int, Sequence[Op]]) -> Function:
        """Return some of the ops as a function: it takes what they lack and returns what is used.

        Results are those that other ops or the function's end read; ``users`` are those of this
        function, which is asked for many parts.
        """
        made = {value for op in ops for value in op.results}
        needed = dict.fromkeys(v for op in ops for v in op.reads if v not in made)
        chosen = {op.place for op in ops}
        returned = set(self.returned)

        def leaves(value: int) -> bool:
            return value in returned or any(
                user.place not in chosen for user in users.get(value, ())
            )

        return Function(
            name=name,
            arguments=tuple(v for v in needed if self.values[v].number is None),
            returned=tuple(v for op in ops for v in op.results if leaves(v)),
            ops=tuple(ops),
            values=self.values,
        )


def _operand(record: Any) -> Operand:
    if isinstance(record, list):
        return tuple(map(_operand, record))
    if isinstance(record, dict):
        # A float that JSON has no spelling for, or a value.
        return float(record["float"]) if "float" in record else Ref(record["value"])
    plain: Operand = record
    return plain


@dataclass(frozen=True, kw_only=True, slots=True)
class Refused:
    """Why an op is not served.

    Attributes
    ----------
    op : str
        Its name.
    problem : Problem
        The rule, what was found and what is wanted.
    """

    op: str
    problem: Problem

    @property
    def rule(self) -> str:
        """Id of the rule."""
        return self.problem.rule

    @property
    def reason(self) -> str:
        """What was found and what is wanted, in words."""
        port = f"{self.problem.port}: " if self.problem.port else ""
        return f"{port}{self.problem.reason}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Remark(Refused):
    """Why an op is not part of a region.

    Attributes
    ----------
    location : str
        As of `Op`.
    function : str
        The function that it stands in.
    """

    location: str
    function: str = ""

    def __str__(self) -> str:
        where = f" at {self.location}" if self.location else ""
        return f"{self.op}{where}: [{self.rule}] {self.reason}"

    def as_dict(self) -> dict[str, str]:
        """Return the JSON form."""
        return {
            "function": self.function,
            "op": self.op,
            "node": self.location,
            "rule": self.rule,
            "reason": self.reason,
        }
