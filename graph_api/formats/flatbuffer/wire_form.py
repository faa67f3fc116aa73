"""How an operation stands on the wire: its code, and its table's fields with the op's names.

An op's file is one `WireForm`: the slots in hipDNN's order, each with the port or the parameter
of the op that it holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Any

from ...ops.base import Op
from . import schema_types as s
from .schema_types import Slot, Table, Type

__all__ = ["Field", "Role", "WireForm"]


class Role(Enum):
    """What of the op a field holds."""

    PORT = "uid of a tensor"
    PORTS = "uids of any number of tensors"
    PARAMETER = "parameter"
    NOTE = "nothing that is computed"


@dataclass(frozen=True, slots=True)
class Field:
    """One field: the name of the port or parameter, and the slot."""

    name: str
    role: Role
    slot: Slot


@dataclass(frozen=True)
class WireForm:
    """An op on the wire.

    Attributes
    ----------
    op : type
        The op; ``op.JSON.type`` is the name of the table.
    code : int
        In hipDNN's union of node attributes.
    fields : tuple of Field
        In order of their slots, which have no gaps.
    tacit : mapping of parameter to value
        Parameters of ours without a slot: what a reader takes them for.
    """

    op: type[Op]
    code: int
    fields: tuple[Field, ...]
    tacit: Mapping[str, object] = field(default_factory=dict)

    @cached_property
    def table(self) -> Table:
        """The schema of the attributes."""
        return Table(self.op.JSON.type, *(field.slot for field in self.fields))


def uids(*names: str, optional: bool = False) -> tuple[Field, ...]:
    """Return fields of tensors; one that is not optional is 0 when absent, which is a uid, too."""
    return tuple(uid(name, optional=optional) for name in names)


def uid(name: str, *, key: str = "", optional: bool = False) -> Field:
    """Return the field of a tensor; ``key`` where its name is not ``<port>_tensor_uid``."""
    slot = s.scalar(key or f"{name}_tensor_uid", s.LONG, None if optional else 0)
    return Field(name, Role.PORT, slot)


def uid_list(name: str, *, key: str = "") -> Field:
    """Return the field of a variadic port."""
    return Field(name, Role.PORTS, s.scalars(key or f"{name}_tensor_uid", s.LONG))


def longs(*names: str) -> tuple[Field, ...]:
    """Return fields of 64-bit integers."""
    return tuple(_parameter(name, s.scalars(name, s.LONG)) for name in names)


def ints(name: str) -> Field:
    """Return a field of 32-bit integers."""
    return _parameter(name, s.scalars(name, s.INT))


def number(name: str, type: Type, default: Any = 0, *, key: str = "") -> Field:
    """Return a field of one number; ``default=None`` for ``= null``."""
    return _parameter(name, s.scalar(key or name, type, default))


def floats(*names: str) -> tuple[Field, ...]:
    """Return fields of float32 numbers that may be missing."""
    return tuple(number(name, s.FLOAT, None) for name in names)


def flags(*names: str, default: bool | None = False) -> tuple[Field, ...]:
    """Return fields of truth values."""
    return tuple(_parameter(name, s.flag(name, default)) for name in names)


def mode(name: str, values: type[Enum], default: Enum, *, key: str = "") -> Field:
    """Return a field of an enumeration."""
    return _parameter(name, s.enumeration(key or name, values, default))


def text(name: str) -> Field:
    """Return a field of a text."""
    return _parameter(name, s.string(name))


def data(name: str) -> Field:
    """Return a field of bytes."""
    return _parameter(name, s.scalars(name, s.UBYTE))


def notes(*names: str) -> tuple[Field, ...]:
    """Return fields of texts with no bearing on the result, which are read and left at that."""
    return tuple(Field(n, Role.NOTE, replace(s.string(n), note=True)) for n in names)


COSTS = notes("umd_flops", "umd_bytes")
"""What some newest forms append: formulas for the cost of the op, for hipDNN's own use."""


def _parameter(name: str, slot: Slot) -> Field:
    return Field(name, Role.PARAMETER, slot)
