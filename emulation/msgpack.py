# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The part of MessagePack that the metadata of code objects is written in."""

from __future__ import annotations

import struct
from typing import Any

__all__ = ["unpack"]

_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = dict(zip(range(0xCA, 0xD4), "fdBHIQbhiq", strict=True))
# First byte -> (what follows, format of its length)
_SIZED = {
    **{0xD9 + i: ("text", form) for i, form in enumerate("BHI")},
    **{0xDC + i: ("list", form) for i, form in enumerate("HI")},
    **{0xDE + i: ("map", form) for i, form in enumerate("HI")},
}
# Bits of the first byte that say what follows, and those of its length.
_SHORT = ((0xF0, 0x80, "map", 15), (0xF0, 0x90, "list", 15), (0xE0, 0xA0, "text", 31))


def unpack(data: bytes) -> Any:
    """Return the first value of some data.

    Raises
    ------
    ValueError
        If there is none, or one of another kind than metadata have.
    """
    try:
        return _value(data, 0)[0]
    except (struct.error, IndexError, RecursionError, TypeError) as error:
        raise ValueError(f"metadata are damaged: {error}") from error


def _value(data: bytes, at: int) -> tuple[Any, int]:
    """Return the value at a place, and the place after it."""
    tag = data[at]
    at += 1
    if tag < 0x80:
        return tag, at
    if tag >= 0xE0:
        return tag - 256, at
    if tag in _CONSTANTS:
        return _CONSTANTS[tag], at
    if tag in _NUMBERS:
        form = f">{_NUMBERS[tag]}"
        return struct.unpack_from(form, data, at)[0], at + struct.calcsize(form)
    for mask, value, kind, bits in _SHORT:
        if tag & mask == value:
            return _several(kind, tag & bits, data, at)
    if tag in _SIZED:
        kind, form = _SIZED[tag]
        (count,) = struct.unpack_from(f">{form}", data, at)
        return _several(kind, count, data, at + struct.calcsize(f">{form}"))
    raise ValueError(f"metadata of type {tag:#x}")


def _several(kind: str, count: int, data: bytes, at: int) -> tuple[Any, int]:
    if count > len(data) - at:
        raise ValueError("metadata are cut off")
    if kind == "text":
        return data[at : at + count].decode(), at + count
    found = []
    for _ in range(count * (2 if kind == "map" else 1)):
        value, at = _value(data, at)
        found.append(value)
    return (dict(zip(found[::2], found[1::2], strict=True)) if kind == "map" else found), at
