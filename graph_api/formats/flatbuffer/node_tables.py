# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""hipDNN's tables of the operations, made of the fields that the ops list.

Importing an op and making its table takes more than a millisecond, so that is done for those that
are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Generic, TypeVar

from ...ops import NAMES_BY_CODE, OPS
from ...ops.base import Op
from ...ops.fields import Absent, Field, Kind
from . import schema_types as s
from .schema_types import Slot, Table

__all__ = ["NODE_TABLES", "OPS_BY_CODE", "held"]


def held(op: type[Op]) -> tuple[Field, ...]:
    """Return the fields that have a slot, in order of their slots, which have no gaps."""
    return _held(op.NAME)


@cache  # asked for each node, of which there may be thousands
def _held(name: str) -> tuple[Field, ...]:
    return tuple(f for f in OPS[name].FIELDS if f.assumed is None)


def _tensor(field: Field) -> Slot:
    # One that is not optional is 0 when absent, which is a uid, too.
    return s.scalar(field.key, s.LONG, 0 if field.absent is Absent.REQUIRED else None)


def _enum(field: Field) -> Slot:
    assert field.enum is not None
    first = next(member for member in field.enum if member.wire == 0)
    return s.enumeration(field.key, field.enum, first)


def _flag(field: Field) -> Slot:
    return replace(s.flag(field.key), default=field.default)


def _width(field: Field) -> s.Type:
    return s.INT if field.bits == 32 else s.LONG


_SLOTS: dict[Kind, Callable[[Field], Slot]] = {
    Kind.TENSOR: _tensor,
    Kind.TENSORS: lambda field: s.scalars(field.key, s.LONG),
    Kind.INT: lambda field: s.scalar(field.key, _width(field), field.default),
    Kind.INTS: lambda field: s.scalars(field.key, _width(field)),
    Kind.FLOAT: lambda field: s.scalar(field.key, s.FLOAT, field.default),
    Kind.BOOL: _flag,
    Kind.TEXT: lambda field: s.string(field.key),
    Kind.BYTES: lambda field: s.scalars(field.key, s.UBYTE),
    Kind.ENUM: _enum,
}

_COSTS = (s.string("umd_flops", note=True), s.string("umd_bytes", note=True))
"""What some tables end in since hipDNN's newest schema: texts that are read and left at that."""


@cache
def _table(code: int) -> Table:
    op = OPS_BY_CODE[code]
    slots = [_SLOTS[field.kind](field) for field in held(op)]
    return Table(op.TYPE_NAME, *slots, *(_COSTS if op.COSTS else ()))


T = TypeVar("T")


class _ByCode(Mapping[int, T], Generic[T]):
    """Something for each code in hipDNN's union of node attributes, made when it is asked for."""

    def __init__(self, make: Callable[[int], T]) -> None:
        self._make = make

    def __getitem__(self, code: int) -> T:
        if code not in NAMES_BY_CODE:
            raise KeyError(code)
        return self._make(code)

    def __contains__(self, code: object) -> bool:
        return code in NAMES_BY_CODE

    def __iter__(self) -> Iterator[int]:
        return iter(NAMES_BY_CODE)

    def __len__(self) -> int:
        return len(NAMES_BY_CODE)


OPS_BY_CODE: Mapping[int, type[Op]] = _ByCode(lambda code: OPS[NAMES_BY_CODE[code]])
"""The op of each code."""

NODE_TABLES: Mapping[int, Table] = _ByCode(_table)
"""Table of the attributes of each code."""
