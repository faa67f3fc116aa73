"""hipDNN's tables of the operations, made of the fields that the ops list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...ops import OPS
from ...ops.base import Op
from ...ops.fields import Absent, Field, Kind
from . import schema_types as s
from .schema_types import Slot, Table

__all__ = ["NODE_TABLES", "OPS_BY_CODE", "held"]


_HELD = {op: tuple(f for f in op.FIELDS if f.assumed is None) for op in OPS.values()}


def held(op: type[Op]) -> tuple[Field, ...]:
    """Return the fields that have a slot, in order of their slots, which have no gaps."""
    return _HELD[op]


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


def _table(op: type[Op]) -> Table:
    slots = [_SLOTS[field.kind](field) for field in held(op)]
    return Table(op.TYPE_NAME, *slots, *(_COSTS if op.COSTS else ()))


OPS_BY_CODE: dict[int, type[Op]] = {
    op.WIRE_CODE: op for op in OPS.values() if op.WIRE_CODE is not None
}
"""By code in hipDNN's union of node attributes."""

NODE_TABLES: dict[int, Table] = {code: _table(op) for code, op in OPS_BY_CODE.items()}
"""Table of the attributes, by the same code."""
