# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The vocabulary of FlatBuffers schemas as Python data: tables, their slots, the types of slots.

A `Table` is written once, as data, and read by the reader, the writer and the tests.  Types are
few: those that hipDNN's schemas use.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple

__all__ = ["Era", "Kind", "Record", "Slot", "Step", "Struct", "Table", "Type"]


class Era(Enum):
    """Which version of hipDNN's wire format; ``Era("n25")``.

    N25 is the format of November 2025: the node has no compute type, and its attributes stand in
    other slots.  NODE is the newest one, named after the node that changed.
    """

    N25 = "n25"
    NODE = "node"


class Kind(Enum):
    """What a slot holds, or what its offset points to."""

    SCALAR = "scalar"
    INLINE = "struct"
    STRING = "string"
    SCALARS = "vector of scalars"
    BYTES = "vector of bytes"
    STRINGS = "vector of strings"
    TABLES = "vector of tables"
    UNION = "union"


@dataclass(frozen=True, slots=True)
class Type:
    """A scalar: its ``struct`` format, its size (which is its alignment), and its name in fbs."""

    format: str
    size: int
    name: str


BOOL = Type("<B", 1, "bool")
BYTE = Type("<b", 1, "byte")
UBYTE = Type("<B", 1, "ubyte")
INT = Type("<i", 4, "int")
UINT = Type("<I", 4, "uint")
LONG = Type("<q", 8, "long")
FLOAT = Type("<f", 4, "float")
DOUBLE = Type("<d", 8, "double")


@dataclass(frozen=True, slots=True)
class Struct:
    """A struct: fields at fixed offsets, all present.

    Attributes
    ----------
    name : str
        Name in hipDNN's schema.
    format : str
        ``struct`` format, with its padding.
    size, align : int
        Bytes.
    fields : tuple of str
        Names in order; a struct of one field named ``""`` reads as its plain value.
    """

    name: str
    format: str
    size: int
    align: int
    fields: tuple[str, ...] = ("",)


@dataclass(frozen=True, slots=True)
class Slot:
    """One field of a table; a union takes two slots, of which this is the second.

    Attributes
    ----------
    name : str
        Name in hipDNN's schema.
    kind : Kind
    type : Type, Struct, Table or None
        Of the scalar, of the vector's items, or of the struct.
    default : object
        What an absent slot means; None for ``= null`` and for absent strings, vectors and unions.
    enum : mapping of int to object
        Known codes of an enumeration and what they stand for; empty for plain numbers.
    members : mapping of int to Table or Struct
        Of a union, by code.
    since : Era
        First era that has the slot.
    note : bool
        Whether the slot has no bearing on what is computed, so that its value may be ignored.
    id : int
        Slot number, which `Table` fills in.
    """

    name: str
    kind: Kind
    type: Type | Struct | Table | None = None
    default: Any = None
    enum: Mapping[int, Any] = field(default_factory=dict)
    members: Mapping[int, Any] = field(default_factory=dict)
    since: Era = Era.N25
    note: bool = False
    id: int = -1

    @property
    def size(self) -> int:
        """Bytes that the slot takes inside its table."""
        return self.type.size if isinstance(self.type, Type | Struct) and self.inline else 4

    @property
    def align(self) -> int:
        """Alignment of the slot inside its table."""
        if self.inline and isinstance(self.type, Struct):
            return self.type.align
        return self.size

    @property
    def table(self) -> Table:
        """The table of a vector's items."""
        assert isinstance(self.type, Table)
        return self.type

    @property
    def is_bool(self) -> bool:
        """Whether it is a truth value."""
        return self.type is BOOL and self.kind is Kind.SCALAR

    @property
    def inline(self) -> bool:
        """Whether the table holds the value itself, not an offset."""
        return self.kind in (Kind.SCALAR, Kind.INLINE)


class Step(NamedTuple):
    """What the reader does for a slot, with everything looked up beforehand."""

    id: int
    name: str
    kind: Kind
    unpack: Callable[..., tuple[Any, ...]]
    size: int
    align: int
    default: Any
    slot: Slot


class Table:
    """A table of the schema: its name and its slots in order of their ids.

    Parameters
    ----------
    name : str
        Name in hipDNN's schema.
    slots : Slot
        In order; each has the id after its predecessor's (a union takes two).
    older : Table, optional
        Form of an earlier era, which a buffer holds that has not this one's last slot, but the
        last one of the older version.
    """

    __slots__ = ("known", "name", "older", "plan", "slots")

    def __init__(self, name: str, *slots: Slot, older: Table | None = None) -> None:
        self.name = name
        self.older = older
        numbered: list[Slot] = []
        following = 0
        for slot in slots:
            numbered.append(replace(slot, id=following + (slot.kind is Kind.UNION)))
            following = numbered[-1].id + 1
        self.slots = tuple(numbered)
        self.known = following  # the number of slots that have a meaning, types of unions included
        self.plan = tuple(map(_step, numbered))

    @property
    def last(self) -> int:
        """Id of the last slot."""
        return self.known - 1

    def __repr__(self) -> str:
        return f"Table({self.name})"


def _step(slot: Slot) -> Step:
    fixed = slot.type.format if isinstance(slot.type, Type | Struct) else "<I"
    return Step(
        slot.id,
        slot.name,
        slot.kind,
        struct.Struct(fixed).unpack_from,
        slot.size,
        slot.align,
        slot.default,
        slot,
    )


class Record(dict[str, Any]):
    """A table that was read, or that is to be written: values by the schema's names.

    Tables are records, vectors are tuples, strings are ``str``, vectors of bytes ``bytes``;
    enumerations are members, and plain codes where the code is unknown.  A union ``u`` is its
    value under ``u`` and its code under ``u_type``.  Absent means the default.
    """

    __slots__ = ("table",)

    def __init__(self, table: Table, /, **values: Any) -> None:
        super().__init__(values)
        self.table = table


# ---------------------------------------------------------------------------- slots, in short


def scalar(name: str, type: Type, default: Any = 0, *, since: Era = Era.N25) -> Slot:
    """Return a slot of a number; ``default=None`` for ``= null``."""
    return Slot(name, Kind.SCALAR, type, default, since=since)


def flag(name: str, default: bool | None = False, *, since: Era = Era.N25) -> Slot:
    """Return a slot of a truth value."""
    return Slot(name, Kind.SCALAR, BOOL, default, since=since)


def enumeration(
    name: str, values: type[Enum], default: Any, *, since: Era = Era.N25, type: Type = BYTE
) -> Slot:
    """Return a slot of an enumeration whose members have a ``wire`` code."""
    codes = {member.wire: member for member in values}  # type: ignore[attr-defined]
    return Slot(name, Kind.SCALAR, type, default, codes, since=since)


def string(name: str, *, note: bool = False) -> Slot:
    """Return a slot of a text."""
    return Slot(name, Kind.STRING, note=note)


def scalars(name: str, type: Type, *, since: Era = Era.N25) -> Slot:
    """Return a slot of numbers; of ``UBYTE`` they are read as bytes."""
    kind = Kind.BYTES if type is UBYTE else Kind.SCALARS
    return Slot(name, kind, type, since=since)


def strings(name: str) -> Slot:
    """Return a slot of texts."""
    return Slot(name, Kind.STRINGS)


def tables(name: str, table: Table) -> Slot:
    """Return a slot of tables."""
    return Slot(name, Kind.TABLES, table)


def inline(name: str, struct: Struct, *, since: Era = Era.N25) -> Slot:
    """Return a slot of a struct."""
    return Slot(name, Kind.INLINE, struct, since=since)


def union(name: str, members: Mapping[int, Table | Struct]) -> Slot:
    """Return a slot of a union; its type code is in the slot before."""
    return Slot(name, Kind.UNION, members=members)
