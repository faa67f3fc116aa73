# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the readers of all classes share: the words of an instruction and what is in them."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace

from ..encodings import Form, forms
from ..instruction import Operand
from ..operands import LITERAL, source

__all__ = [
    "PACKED",
    "Read",
    "UnknownError",
    "Words",
    "check",
    "count_of",
    "form_of",
    "long_sources",
    "signed",
]

PACKED = 0x1A7  # the highest bits of VOP3P

Modifiers = dict[str, int | str | tuple[int, ...]]


class UnknownError(Exception):
    """What is not in the tables, in words; `decode_one` adds where."""


@dataclass
class Words:
    """The words from an instruction on, and how many of them it has taken.

    Attributes
    ----------
    arch : str
    address : int
        Of the instruction.
    w : tuple of int
        At most four words; the last instruction of a kernel may have fewer after it.
    used : int
    modifiers : dict
        What was noted of the instruction so far.
    """

    arch: str
    address: int
    w: tuple[int, ...]
    used: int = 1
    modifiers: Modifiers = field(default_factory=dict)

    def bits(self, high: int, low: int) -> int:
        """Return bits of the first two words, counted from the lowest."""
        word, low, high = (0, low, high) if high < 32 else (1, low - 32, high - 32)
        return self.word(word) >> low & (1 << high - low + 1) - 1

    def word(self, index: int) -> int:
        """Return a word, and count it as the instruction's."""
        if index >= len(self.w):
            raise UnknownError("the code ends within an instruction")
        self.used = max(self.used, index + 1)
        return self.w[index]

    def flags(self, **places: int) -> None:
        """Note the modifiers whose bit is set."""
        for name, bit in places.items():
            if self.bits(bit, bit):
                self.modifiers[name] = 1

    @property
    def late(self) -> bool:
        """Whether caches are controlled by the bits of gfx940 and later."""
        return self.arch in ("gfx942", "gfx950")

    def source(self, value: int, kind: str, literal_at: int = 1) -> Operand:
        """Return what a source field names, in the type of the form."""
        literal = self.word(literal_at) if value == LITERAL else None
        found = source(value, count_of(kind), literal)
        if found is None:
            raise UnknownError(f"source {value}")
        if literal is not None and kind in ("h", "b", "w"):
            return replace(found, name=f"{literal & 0xFFFF:#x}")  # all 32 bits stay in ``bits``
        if found.kind == "float" and self.w[0] >> 23 == PACKED:  # never a double, even if 64 bits
            return replace(found, name=(source(value, 1, literal) or found).name)
        if kind == "w" and found.kind == "float":
            (half,) = struct.unpack("<H", struct.pack("<e", float(found.name)))
            return replace(found, name=f"{half:#x}")
        return found

    def caches(self, first: int, second: int, third: int) -> None:
        """Note the cache bits, which were renamed and partly moved."""
        names = ("sc0", "nt", "sc1") if self.late else ("glc", "slc", "scc")
        self.flags(**dict(zip(names, (first, second, third), strict=True)))


def count_of(kind: str) -> int:
    """Return how many registers an operand of a type of the tables takes."""
    kind = kind.removeprefix("s")
    return int(kind) if kind.isdigit() else 1


Read = tuple[Form, str, tuple[Operand, ...]]
"""What a reader returns: form, encoding and operands; modifiers are left in the words."""


def check(operands: tuple[Operand, ...]) -> None:
    """Refuse registers that there are not, and scalar ones that begin where none may."""
    for operand in operands:
        if operand.index + operand.count > {"v": 256, "a": 256, "s": 128}.get(operand.file, 256):
            raise UnknownError(f"{operand.count} registers from {operand.file}{operand.index}")
        lone = operand.index == 124 and operand.count > 1  # m0
        if operand.file == "s" and (operand.index % min(operand.count, 4) or lone):
            raise UnknownError(f"{operand.count} scalar registers from {operand.index}")


def form_of(words: Words, encoding: str, opcode: int) -> Form:
    """Return what an opcode means, or refuse it."""
    form = forms(words.arch)[encoding].get(opcode)
    if form is None:
        raise UnknownError(f"opcode {opcode} of {encoding}")
    return form


def signed(value: int, bits: int) -> int:
    """Return a field of so many bits as a number with a sign."""
    return value - (1 << bits) if value >> bits - 1 else value


def long_sources(words: Words, form: Form) -> list[Operand]:
    """Return the sources of an encoding of two words, without their signs."""
    found = []
    for i, kind in enumerate(form.ins):
        value = words.bits(40 + 9 * i, 32 + 9 * i)
        if value == LITERAL:
            raise UnknownError("a literal in a long encoding")
        found.append(words.source(value, kind))
    return found
