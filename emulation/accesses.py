# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What one lane of a load or store moves, and how it sits in registers; shared by all memories."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .formats import Array

__all__ = ["LOADS", "STORES", "Shape"]

U32 = np.uint32


@dataclass(frozen=True)
class Shape:
    """One kind of access.

    Attributes
    ----------
    size : int
        Bytes of memory.
    signed : bool
        A narrow load extends the sign, to 16 bits if it `merges`, else to 32.
    merges : bool
        A load leaves the other half of the register alone.
    high : bool
        The value is in the upper half of the register.
    """

    size: int
    signed: bool = False
    merges: bool = False
    high: bool = False

    @property
    def words(self) -> int:
        """Registers of each lane."""
        return (self.size + 3) // 4

    def loaded(self, word: Array, register: Array) -> Array:
        """Return what a register holds after a load of that word."""
        if self.size >= 4:
            return word
        if self.signed:
            top = U32(1 << (8 * self.size - 1))
            word = (word ^ top) - top
        if not self.merges:
            return word
        if self.high:
            return (register & U32(0xFFFF)) | (word << U32(16))
        return (register & U32(0xFFFF0000)) | (word & U32(0xFFFF))

    def stored(self, register: Array) -> Array:
        """Return the word to store; what is above its size does not matter."""
        return register >> U32(16) if self.high else register


_WIDE = {
    "dword": 4,
    "dwordx2": 8,
    "dwordx3": 12,
    "dwordx4": 16,
    "b32": 4,
    "b64": 8,
    "b96": 12,
    "b128": 16,
}
_NARROW = {
    "ubyte": (1, False),
    "sbyte": (1, True),
    "ushort": (2, False),
    "sshort": (2, True),
    "short": (2, False),
    "u8": (1, False),
    "i8": (1, True),
    "u16": (2, False),
    "i16": (2, True),
}
LOADS = {name: Shape(size) for name, size in _WIDE.items()}
STORES = dict(LOADS)
for _name, (_size, _signed) in _NARROW.items():
    LOADS[_name] = Shape(_size, _signed)
    LOADS[_name + "_d16"] = Shape(_size, _signed, merges=True)
    LOADS[_name + "_d16_hi"] = Shape(_size, _signed, merges=True, high=True)
for _name, _size in (("byte", 1), ("short", 2), ("b8", 1), ("b16", 2)):
    STORES[_name] = Shape(_size)
    STORES[_name + "_d16_hi"] = Shape(_size, high=True)
