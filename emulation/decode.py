# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bytes of a kernel to instructions, by the tables of `encodings`."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from .encodings import ARCHES
from .errors import DecodeError
from .instruction import Instruction
from .readers import matrix, memory, scalar, vector
from .readers.words import PACKED, Read, UnknownError, Words, check

__all__ = ["decode", "decode_one"]


def decode(code: bytes, *, arch: str, address: int = 0, kernel: str = "") -> list[Instruction]:
    """Decode the instructions of a kernel.

    Parameters
    ----------
    code : bytes
        Its instructions, and nothing else.
    arch : str
        One of ``ARCHES``.
    address : int
        Of the first byte; addresses and branch targets of instructions count from it.
    kernel : str
        Its name, for errors.

    Raises
    ------
    DecodeError
        For an architecture that is not known, and for bytes that are no instruction of it.
    """
    end, at, found = address + len(code), address, []
    while at < end:
        found.append(decode_one(code, at - address, arch=arch, address=at, kernel=kernel))
        at += found[-1].size
    return found


def decode_one(
    code: bytes, offset: int = 0, *, arch: str, address: int = 0, kernel: str = ""
) -> Instruction:
    """Decode one instruction at an offset of some code; see `decode`.

    Raises
    ------
    DecodeError
    """
    where = f"{kernel or 'code'} at {address:#x}"
    if arch not in ARCHES:
        raise DecodeError(f"{where}: {arch} is not emulated; known are {', '.join(ARCHES)}")
    tail = code[offset : offset + 16]
    words = Words(arch, address, struct.unpack_from(f"<{len(tail) // 4}I", tail))
    try:
        if not words.w:
            raise UnknownError("the code ends within an instruction")
        return _instruction(words)
    except UnknownError as error:
        shown = " ".join(f"{word:08x}" for word in words.w[:2]) or tail.hex()
        raise DecodeError(f"{where}: {shown}: no instruction of {arch}: {error}") from None


def _instruction(words: Words) -> Instruction:
    first = words.w[0]
    for shift, value, name in _ENCODINGS:
        if first >> shift == value:
            form, encoding, operands = _READERS[name](words)
            check(operands)
            return Instruction(
                address=words.address,
                size=4 * words.used,
                mnemonic=form.mnemonic,
                encoding=encoding,
                operands=operands,
                modifiers=words.modifiers,
            )
    raise UnknownError("unknown encoding")


# Highest bits of the first word, as (shift, value, reader); the first that fits.
_ENCODINGS = (
    (31, 0, "vop"),
    (23, 0x17D, "sop1"),
    (23, 0x17E, "sopc"),
    (23, 0x17F, "sopp"),
    (28, 0xB, "sopk"),
    (30, 2, "sop2"),
    (26, 0x30, "smem"),
    (23, PACKED, "vop3p"),
    (26, 0x34, "vop3"),
    (26, 0x36, "ds"),
    (26, 0x37, "flat"),
    (26, 0x38, "mubuf"),
)
_READERS: Mapping[str, Callable[[Words], Read]] = {
    "vop": vector.short,
    "sop1": lambda words: scalar.sop(words, "sop1", words.bits(15, 8)),
    "sop2": lambda words: scalar.sop(words, "sop2", words.bits(29, 23)),
    "sopc": lambda words: scalar.sop(words, "sopc", words.bits(22, 16)),
    "sopp": scalar.sopp,
    "sopk": scalar.sopk,
    "smem": scalar.smem,
    "vop3": vector.vop3,
    "vop3p": matrix.vop3p,
    "ds": memory.ds,
    "flat": memory.flat,
    "mubuf": memory.mubuf,
}
