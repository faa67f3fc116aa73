# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From bytes to records, trusting nothing: verification and reading are one pass.

Every offset, size and count is checked against the buffer before it is followed.  What is read
is counted, so that a small buffer whose parts share each other cannot become much work: time and
memory are linear in the buffer's length.  Offsets only point forward, and the schema has no table
that contains itself, so that depth is bounded by the schema.
"""

from __future__ import annotations

import struct
from typing import Any

from ...errors import FormatError, Problem
from .schema_types import Kind, Record, Slot, Step, Struct, Table, Type
from .wire_rules import problem, refuse

__all__ = ["MAX_BYTES", "MAX_PROBLEMS", "MAX_TABLES", "Reader"]

MAX_BYTES = 64 << 20
MAX_TABLES = 100_000
MAX_PROBLEMS = 100
"""At most so many problems of a well-formed buffer are kept."""

# Honest buffers share vtables, which count once, and sometimes short strings.
_SHARING = 2

_U32 = struct.Struct("<I").unpack_from
_I32 = struct.Struct("<i").unpack_from
_U16_PAIR = struct.Struct("<HH").unpack_from


class Reader:
    """Reads one buffer.

    Parameters
    ----------
    data : bytes
        The buffer.
    strict : bool
        Report fields that are not in the schema.

    Attributes
    ----------
    problems : list of Problem
        What a sound buffer holds that is not known here (WIRE-07, WIRE-08).
    """

    def __init__(self, data: bytes, *, strict: bool = True) -> None:
        self.data = data
        self.size = len(data)
        self.strict = strict
        self.problems: list[Problem] = []
        self._budget = _SHARING * self.size + 1024
        self._tables = 0
        self._vtables: dict[int, tuple[int, tuple[int, ...]]] = {}

    def root(self, table: Table) -> Record:
        """Read the buffer.

        Raises
        ------
        FormatError
            If it is damaged (WIRE-01 to WIRE-06).
        """
        if not 8 <= self.size <= MAX_BYTES:
            raise refuse("WIRE-01", table.name, "", f"{self.size} bytes", "8 bytes to 64 MiB")
        (position,) = _U32(self.data, 0)
        if position < 4:
            raise refuse("WIRE-01", table.name, "", f"root offset {position}", "at least 4")
        return self._table(table, position, table.name)

    def lengths(self, table: Table) -> dict[str, int]:
        """Return the lengths of the root's vectors of tables, as far as they are sound."""
        found = {}
        try:
            (position,) = _U32(self.data, 0)
            _, offsets = self._vtable(position - _I32(self.data, position)[0], table.name)
            for step in table.plan[: len(offsets)]:
                if step.kind is Kind.TABLES and step.id < len(offsets) and offsets[step.id]:
                    at = self._follow(position + offsets[step.id], table.name, step.name)
                    found[step.name] = self._vector(at, 4, 4, table.name, step.name)
        except (struct.error, FormatError):  # which reading it reports
            pass
        return found

    def report(self, found: Problem) -> None:
        """Keep a problem of a sound buffer."""
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(found)

    # ------------------------------------------------------------------------ tables

    def _table(self, table: Table, position: int, where: str) -> Record:
        self._tables += 1
        if self._tables > MAX_TABLES:
            raise refuse("WIRE-05", where, "", f"more than {MAX_TABLES} tables", "fewer")
        if position % 4 or position + 4 > self.size:
            raise self._misplaced(where, "", "a table", position)
        vtable = position - _I32(self.data, position)[0]
        found = self._vtables.get(vtable)
        if found is None:
            found = self._vtables[vtable] = self._vtable(vtable, where)
        size, offsets = found
        if position + size > self.size:
            raise self._misplaced(where, "", f"a table of {size} bytes", position)
        self._spend(size, where)
        count = len(offsets)
        older = table.older
        if (
            older is not None
            and not (count > table.last and offsets[table.last])
            and (count > older.last and offsets[older.last])
        ):
            table = older
        record = Record(table)
        for step in table.plan:
            number = step.id
            offset = offsets[number] if number < count else 0
            if step.kind is Kind.UNION:
                self._union(record, step, position, size, offsets, where)
            elif not offset:
                record[step.name] = step.default
            else:
                if offset + step.size > size:
                    raise self._outside(where, step.name, offset, size)
                at = position + offset
                if at % step.align:
                    raise self._misplaced(where, step.name, "a field", at)
                record[step.name] = self._value(step, at, where)
        if count > table.known and self.strict:
            self._unknown(table, offsets, where)
        return record

    def _vtable(self, vtable: int, where: str) -> tuple[int, tuple[int, ...]]:
        """Return the size of the tables that a vtable describes, and the offsets of their slots."""
        if vtable < 4 or vtable % 2 or vtable + 4 > self.size:
            raise refuse("WIRE-03", where, "", f"a vtable at {vtable}", f"inside {self.size} bytes")
        own, size = _U16_PAIR(self.data, vtable)
        if own < 4 or own % 2 or vtable + own > self.size or size < 4:
            got = f"a vtable of {own} bytes at {vtable} for tables of {size} bytes"
            raise refuse("WIRE-03", where, "", got, "an even number of at least 4, in the buffer")
        self._spend(own, where)
        offsets = struct.unpack_from(f"<{own // 2 - 2}H", self.data, vtable + 4)
        if any(0 < offset < 4 for offset in offsets):
            raise refuse(
                "WIRE-03", where, "", "a field over the table's own head", "fields at 4 on"
            )
        return size, offsets

    def _unknown(self, table: Table, offsets: tuple[int, ...], where: str) -> None:
        names = [str(i) for i, o in enumerate(offsets[table.known :], table.known) if o]
        if names:
            more = "..." if len(names) > 8 else ""
            self.report(
                problem(
                    "WIRE-07",
                    where,
                    "",
                    f"field {', '.join(names[:8])}{more} of {table.name}",
                    f"only the {table.known} fields that are known here",
                    "a newer hipDNN may have written it; what it means is not known",
                )
            )

    # ------------------------------------------------------------------------ values

    def _value(self, step: Step, at: int, where: str) -> Any:
        kind = step.kind
        if kind is Kind.SCALAR:
            (value,) = step.unpack(self.data, at)
            if step.slot.enum:
                return self._member(step.slot, value, where)
            return bool(value) if step.slot.is_bool else value
        if kind is Kind.INLINE:
            return self._struct(step.slot.type, at)
        start = self._follow(at, where, step.name)
        if kind is Kind.STRING:
            return self._string(start, where, step.name)
        if kind is Kind.BYTES:
            length = self._vector(start, 1, 1, where, step.name)
            return self.data[start + 4 : start + 4 + length]
        if kind is Kind.SCALARS:
            item = step.slot.type
            assert isinstance(item, Type)
            length = self._vector(start, item.size, item.size, where, step.name)
            return struct.unpack_from(f"<{length}{item.format[1]}", self.data, start + 4)
        length = self._vector(start, 4, 4, where, step.name)
        positions = range(start + 4, start + 4 + 4 * length, 4)
        if kind is Kind.STRINGS:
            self._tables += length
            return tuple(
                self._string(self._follow(p, where, step.name), where, step.name) for p in positions
            )
        return tuple(
            self._table(step.slot.table, self._follow(p, where, step.name), f"{step.name}[{i}]")
            for i, p in enumerate(positions)
        )

    def _member(self, slot: Slot, code: int, where: str) -> Any:
        member = slot.enum.get(code)
        if member is None:
            known = f"{min(slot.enum)} to {max(slot.enum)}"
            self.report(
                problem("WIRE-08", where, slot.name, f"code {code}", f"a code from {known}")
            )
            return code
        return member

    def _union(
        self,
        record: Record,
        step: Step,
        position: int,
        size: int,
        offsets: tuple[int, ...],
        where: str,
    ) -> None:
        code = 0
        tag = offsets[step.id - 1] if step.id - 1 < len(offsets) else 0
        offset = offsets[step.id] if step.id < len(offsets) else 0
        if tag:
            if tag + 1 > size:
                raise self._outside(where, f"{step.name}_type", tag, size)
            code = self.data[position + tag]
        if bool(code) != bool(offset):
            got = f"type {code} {'without' if code else 'with'} a value"
            raise refuse("WIRE-06", where, step.name, got, "both or neither")
        record[f"{step.name}_type"] = code
        record[step.name] = None
        if not code:
            return
        if offset + 4 > size:
            raise self._outside(where, step.name, offset, size)
        at = position + offset
        if at % 4:
            raise self._misplaced(where, step.name, "a field", at)
        start = self._follow(at, where, step.name)
        member = step.slot.members.get(code)
        if isinstance(member, Struct):
            if start % member.align or start + member.size > self.size:
                raise self._misplaced(where, step.name, f"a {member.name}", start)
            self._spend(member.size, where)
            record[step.name] = self._struct(member, start)
        elif member is not None:
            record[step.name] = self._table(member, start, where)

    def _struct(self, kind: Any, at: int) -> Any:
        values = struct.unpack_from(kind.format, self.data, at)
        return values[0] if kind.fields == ("",) else dict(zip(kind.fields, values, strict=True))

    def _string(self, start: int, where: str, name: str) -> str:
        length = self._vector(start, 1, 1, where, name)
        end = start + 4 + length
        if end >= self.size or self.data[end]:
            raise refuse(
                "WIRE-04", where, name, f"{length} bytes without a NUL after them", "a NUL"
            )
        # Labels of hipDNN are bytes of any kind; no error is worth a graph.
        return self.data[start + 4 : end].decode("utf-8", "replace")

    def _vector(self, start: int, size: int, align: int, where: str, name: str) -> int:
        """Return the length of a vector, all of which is inside the buffer."""
        if start % 4 or start + 4 > self.size:
            raise self._misplaced(where, name, "a vector", start)
        (length,) = _U32(self.data, start)
        if length * size > self.size - start - 4:
            raise self._misplaced(where, name, f"a vector of {length} items", start)
        if length and (start + 4) % align:
            raise self._misplaced(where, name, f"items of {size} bytes", start + 4)
        self._spend(4 + length * size, where)
        return int(length)

    def _follow(self, at: int, where: str, name: str) -> int:
        (offset,) = _U32(self.data, at)
        if offset < 4 or at + offset + 4 > self.size:
            got = f"an offset of {offset} at {at}"
            raise refuse("WIRE-02", where, name, got, f"an offset within {self.size} bytes")
        return at + int(offset)

    def _spend(self, nbytes: int, where: str) -> None:
        self._budget -= nbytes
        if self._budget < 0:
            got = f"parts of more than {_SHARING} times the buffer's {self.size} bytes"
            raise refuse("WIRE-05", where, "", got, "parts that are not shared again and again")

    def _misplaced(self, where: str, name: str, what: str, at: int) -> Exception:
        wanted = f"a multiple of its alignment, and all within {self.size} bytes"
        return refuse("WIRE-02", where, name, f"{what} at {at}", wanted)

    def _outside(self, where: str, name: str, offset: int, size: int) -> Exception:
        wanted = f"a field within the table's {size} bytes"
        return refuse("WIRE-03", where, name, f"a field at {offset}", wanted)
