# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From records to bytes: one forward pass, in which what a table refers to follows it.

FlatBuffers' own builders write backwards, children first; a reader sees no difference, as offsets
to children point forward either way.  Equal vtables are written once.
"""

from __future__ import annotations

import struct
from typing import Any

from ...errors import FormatError
from .schema_types import Era, Kind, Record, Slot, Struct, Type
from .wire_rules import problem

__all__ = ["write"]


def write(record: Record, *, era: Era = Era.NODE, identifier: bytes = b"") -> bytes:
    """Return a buffer with a record as its root.

    A slot whose value is the default is left out, as FlatBuffers does.

    Parameters
    ----------
    record : Record
    era : Era
        Slots that came later must have their defaults.
    identifier : bytes
        File identifier of four bytes, or none.

    Raises
    ------
    FormatError
        If a value is beyond the era (WIRE-13) or does not fit its slot (WIRE-14).
    """
    writer = _Writer(era)
    writer.out += bytes(4) + identifier
    root = writer.table(record, record.table.name)
    struct.pack_into("<I", writer.out, 0, root)
    writer.align(8)
    return bytes(writer.out)


class _Writer:
    def __init__(self, era: Era) -> None:
        self.era = era
        self.out = bytearray()
        self._vtables: dict[bytes, int] = {}

    def align(self, alignment: int, ahead: int = 0) -> None:
        """Pad until the offset ``ahead`` bytes from the end is aligned."""
        self.out += bytes(-(len(self.out) + ahead) % alignment)

    # ------------------------------------------------------------------------ tables

    def table(self, record: Record, where: str) -> int:
        """Write a table and what it refers to; return its position."""
        # (slot id, size, alignment, packed bytes or None for an offset, slot, value)
        parts: list[tuple[int, int, int, bytes | None, Slot, Any]] = []
        for step in record.table.plan:
            value = record.get(step.name, step.default)
            if step.kind is Kind.UNION:
                code = record.get(f"{step.name}_type", 0)
                if code:
                    parts.append((step.id - 1, 1, 1, bytes([code]), step.slot, None))
                    parts.append((step.id, 4, 4, None, step.slot, (code, value)))
            elif value is not None and value != step.default:
                slot = step.slot
                if slot.since is Era.NODE and self.era is Era.N25:
                    raise _beyond(where, slot.name, value, "the default, as the era has no field")
                packed = self._packed(slot, value, where) if slot.inline else None
                parts.append((step.id, step.size, step.align, packed, slot, value))
        parts.sort(key=lambda part: (-part[2], part[0]))
        position, slots = self._empty_table([(p[0], p[1], p[2]) for p in parts])
        for number, _, _, packed, slot, value in parts:
            at = slots[number]
            if packed is not None:
                self.out[at : at + len(packed)] = packed
            else:
                start = self._child(slot, value, where)
                struct.pack_into("<I", self.out, at, start - at)
        return position

    def _empty_table(self, parts: list[tuple[int, int, int]]) -> tuple[int, dict[int, int]]:
        """Write vtable and empty table; return the table's position and those of its slots."""
        largest = parts[0][2] if parts else 4
        offsets: dict[int, int] = {}
        size = 4
        for number, nbytes, alignment in parts:
            # After the head of four bytes, largest first: an offset that is a multiple of
            # eight less four keeps every field aligned.
            size += -(size - 4) % alignment
            offsets[number] = size
            size += nbytes
        size += -size % 4
        count = max(offsets, default=-1) + 1
        slots = [offsets.get(i, 0) for i in range(count)]
        vtable = struct.pack(f"<{count + 2}H", 4 + 2 * count, size, *slots)
        if vtable not in self._vtables:
            self.align(2)
            self._vtables[vtable] = len(self.out)
            self.out += vtable
        self.align(max(largest, 4), ahead=4)
        position = len(self.out)
        self.out += bytes(size)
        struct.pack_into("<i", self.out, position, position - self._vtables[vtable])
        return position, {number: position + offset for number, offset in offsets.items()}

    # ------------------------------------------------------------------------ values

    def _packed(self, slot: Slot, value: Any, where: str) -> bytes:
        if isinstance(slot.type, Struct):
            return _struct(slot.type, value, where, slot.name)
        assert isinstance(slot.type, Type)
        return _number(slot.type, getattr(value, "wire", value), where, slot.name)

    def _child(self, slot: Slot, value: Any, where: str) -> int:
        """Write what an offset points to; return its position."""
        kind = slot.kind
        if kind is Kind.UNION:
            code, member = value
            schema = slot.members[code]
            if isinstance(schema, Struct):
                packed = _struct(schema, member, where, slot.name)
                self.align(schema.align)
                self.out += packed
                return len(self.out) - len(packed)
            assert isinstance(member, Record)
            return self.table(member, where)
        if kind is Kind.STRING:
            return self._string(value)
        if kind is Kind.BYTES:
            return self._vector(len(value), 1, bytes(value))
        if kind is Kind.SCALARS:
            item = slot.type
            assert isinstance(item, Type)
            packed = b"".join(_number(item, v, where, slot.name) for v in value)
            return self._vector(len(value), item.size, packed)
        start = self._vector(len(value), 4, bytes(4 * len(value)))
        for i, item in enumerate(value):
            at = start + 4 + 4 * i
            child = (
                self._string(item)
                if kind is Kind.STRINGS
                else self.table(item, f"{slot.name}[{i}]")
            )
            struct.pack_into("<I", self.out, at, child - at)
        return start

    def _string(self, text: str) -> int:
        # A lone surrogate has no bytes in UTF-8; the reader would not take them either.
        data = text.encode("utf-8", "replace")
        return self._vector(len(data), 1, data + b"\0")

    def _vector(self, count: int, alignment: int, data: bytes) -> int:
        self.align(max(alignment, 4), ahead=4)
        start = len(self.out)
        self.out += struct.pack("<I", count) + data
        return start


def _number(kind: Type, value: Any, where: str, name: str) -> bytes:
    try:
        return struct.pack(kind.format, value)
    except (struct.error, OverflowError, TypeError):
        found = problem("WIRE-14", where, name, repr(value), f"a number of type {kind.name}")
        raise FormatError("the record cannot be written", [found]) from None


def _struct(kind: Struct, value: Any, where: str, name: str) -> bytes:
    values = [value] if kind.fields == ("",) else [value[field] for field in kind.fields]
    try:
        return struct.pack(kind.format, *values)
    except (struct.error, OverflowError, TypeError):
        found = problem("WIRE-14", where, name, repr(value), f"what a {kind.name} holds")
        raise FormatError("the record cannot be written", [found]) from None


def _beyond(where: str, name: str, value: object, wanted: str) -> FormatError:
    found = problem("WIRE-13", where, name, getattr(value, "json", repr(value)), wanted)
    return FormatError("the era of November 2025 cannot hold the graph", [found])
