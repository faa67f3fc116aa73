# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rules of the wire format, and how broken ones are reported."""

from __future__ import annotations

from collections.abc import Iterable

from ...errors import FormatError, Problem

__all__ = ["RULES", "is_damage", "problem", "refuse"]

RULES: dict[str, str] = {
    "WIRE-01": "a buffer has a root table, and between 8 bytes and 64 MiB",
    "WIRE-02": "tables, vectors and strings are inside the buffer, at their natural alignment",
    "WIRE-03": "a vtable is inside the buffer and describes a table that holds its fields",
    "WIRE-04": "a string ends with a NUL character",
    "WIRE-05": "a buffer is not a maze: at most 100000 tables, and parts are hardly shared",
    "WIRE-06": "a union has both a type and a value, and a field that must be there is there",
    "WIRE-07": "there is no field, and no value of it, that this version does not know (it may "
    "change the result)",
    "WIRE-08": "a code of an enumeration or of a kind of value is one that this version knows",
    "WIRE-09": "a node is of a type that this version serves",
    "WIRE-10": "the engine API that the graph asks for is not newer than the one served here",
    "WIRE-11": "a tensor uid is defined in tensors, once",
    "WIRE-12": "all nodes of a graph have the format of one era",
    "WIRE-13": "a graph that is written uses only what the era's format can hold",
    "WIRE-14": "a number that is written fits its field without loss",
}
_DAMAGE = frozenset(f"WIRE-{n:02}" for n in range(1, 7))


def problem(rule: str, where: str, port: str, got: object, wanted: str, hint: str = "") -> Problem:
    """Return a problem of a buffer."""
    return Problem(rule=rule, node=where, port=port, got=str(got), wanted=wanted, hint=hint)


def refuse(rule: str, where: str, port: str, got: object, wanted: str) -> FormatError:
    """Return the error of a buffer that cannot be read any further."""
    return FormatError(
        "the buffer is damaged or is no such FlatBuffer", [problem(rule, where, port, got, wanted)]
    )


def is_damage(problems: Iterable[Problem]) -> bool:
    """Whether a buffer is broken, rather than sound and beyond what this version serves."""
    return any(p.rule in _DAMAGE for p in problems)
