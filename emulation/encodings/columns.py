# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How the tables of opcodes are written, and read: a column for each architecture.

A table is text.  A line has the opcode of its first name; the next names have the next opcodes.
``-`` is an opcode that nothing has.  A name may end in its operands, after ``/``, and in the
architectures that have it, after ``@``; where an opcode has changed its meaning it is in two
lines::

    24 bitset0_b32 bitset0_b64/2=1          opcodes 24 and 25
    23 madmk_f32/1=1,k,1@..gfx90a           up to gfx90a
    23 fmamk_f32/1=1,k,1@gfx942..           from gfx942 on
    25 mfma_x@gfx90a                        there alone

Operands are ``destinations=sources``, each a list of types separated by commas:

==========  =====================================================================
1 2 ... 32  so many 32-bit registers
h b w       16 bits in one register: half, bfloat16, integer
s1 s2       scalar, where others of the class have vector registers; in short
            vector encodings ``s2`` is ``vcc``
i           an immediate, as the class has it
k           the 32 bits that follow the instruction
==========  =====================================================================

What is not given follows from the types in the name: the first of them is that of the
destination, the last one that of all sources.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ARCHES", "Form", "read"]

ARCHES = ("gfx908", "gfx90a", "gfx942", "gfx950")

_WIDTHS = {
    **dict.fromkeys(("b8", "i8", "u8", "i4", "u4", "i24", "u24", "fp8", "bf8", "fp4"), "1"),
    **dict.fromkeys(("b32", "i32", "u32", "f32", "ubyte0", "ubyte1", "ubyte2", "ubyte3"), "1"),
    **dict.fromkeys(("b64", "i64", "u64", "f64"), "2"),
    **dict.fromkeys(("b16", "i16", "u16"), "w"),
    "f16": "h",
    "bf16": "b",
}


@dataclass(frozen=True, slots=True)
class Form:
    """What one opcode means on one architecture.

    Attributes
    ----------
    mnemonic : str
        LLVM's, without a suffix for the encoding.
    outs, ins : tuple of str
        Types of destinations and sources, in the order of the text.
    short : bool
        Whether a long encoding has a short one beside it, from which its suffix ``_e64`` is.
    """

    mnemonic: str
    outs: tuple[str, ...]
    ins: tuple[str, ...]
    short: bool = False


def read(table: str, arch: str, *, prefix: str, sources: int) -> dict[int, Form]:
    """Return the column of an architecture.

    Parameters
    ----------
    table : str
    arch : str
        One of ``ARCHES``.
    prefix : str
        Of all names.
    sources : int
        How many sources there are where a name does not say so.
    """
    forms = {}
    for line in table.splitlines():
        first, *names = line.split() or ("0",)
        for opcode, text in enumerate(names, int(first)):
            name, _, where = text.partition("@")
            if name != "-" and _within(arch, where):
                assert opcode not in forms, f"two meanings of {opcode}: {text}"
                forms[opcode] = _form(prefix, name, sources)
    return forms


def _within(arch: str, where: str) -> bool:
    first, dots, last = where.partition("..")
    if not dots:
        return where in ("", arch)
    low = ARCHES.index(first) if first else 0
    high = ARCHES.index(last) if last else len(ARCHES) - 1
    return low <= ARCHES.index(arch) <= high


def _form(prefix: str, text: str, sources: int) -> Form:
    name, given, operands = text.partition("/")
    if given:
        outs, _, ins = operands.partition("=")
        return Form(prefix + name, _list(outs), _list(ins))
    types = [_WIDTHS[part] for part in name.split("_") if part in _WIDTHS]
    assert types, f"the operands of {name} do not follow from its name"
    return Form(prefix + name, (types[0],), (types[-1],) * sources)


def _list(text: str) -> tuple[str, ...]:
    return tuple(text.split(",")) if text else ()
