# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the operand fields of instructions name: registers, constants, and a few other things."""

from __future__ import annotations

import struct

from .instruction import Operand

__all__ = [
    "DPP",
    "LITERAL",
    "SDWA",
    "accumulation",
    "const",
    "scalar",
    "source",
    "special",
    "vector",
]

# Values of a source field that say what the second word is.
SDWA, DPP, LITERAL = 249, 250, 255

_PAIRS = {102: "flat_scratch", 104: "xnack_mask", 106: "vcc", 126: "exec"}
_SPECIALS = {
    235: "src_shared_base",
    236: "src_shared_limit",
    237: "src_private_base",
    238: "src_private_limit",
    239: "src_pops_exiting_wave_id",
    251: "vccz",
    252: "execz",
    253: "scc",
    254: "src_lds_direct",
}
_FLOATS = (0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 4.0, -4.0)
_INVERSE_2PI = 0x3E22F983, "0.15915494", "0.15915494309189532"


def vector(index: int, count: int = 1) -> Operand:
    """Return vector registers."""
    return Operand("v", index, count)


def accumulation(index: int, count: int = 1) -> Operand:
    """Return accumulation registers."""
    return Operand("a", index, count)


def scalar(index: int, count: int = 1) -> Operand:
    """Return scalar registers by the number of the first, 0 to 127."""
    return Operand("s", index, count, name=_name(index, count))


def special(name: str) -> Operand:
    """Return an operand that is no register."""
    return Operand("special", name=name)


def const(value: int, count: int = 1, *, text: str = "", kind: str = "integer") -> Operand:
    """Return an integer constant, or any with its own text."""
    return Operand(
        "const", count=count, bits=value & 0xFFFFFFFF, name=text or str(value), kind=kind
    )


def source(field: int, count: int, literal: int | None) -> Operand | None:
    """Return what a source field of nine bits names.

    Parameters
    ----------
    field : int
    count : int
        Registers that the operand takes.
    literal : int or None
        The word after the instruction, for a field that says so.

    Returns
    -------
    Operand or None
        None: the value of the field means nothing.
    """
    if field >= 256:
        return vector(field - 256, count)
    if field < 128:
        return None if field == 125 else scalar(field, count)
    if field <= 208:
        return const(field - 128 if field <= 192 else 192 - field, count)
    if field in _SPECIALS:
        return special(_SPECIALS[field])
    if 240 <= field < 248:
        value = _FLOATS[field - 240]
        bits = struct.unpack("<I", struct.pack("<f", value))[0]
        return const(bits, count, text=str(value), kind="float")
    if field == 248:
        bits, short, long = _INVERSE_2PI
        return const(bits, count, text=long if count == 2 else short, kind="float")
    if field == LITERAL and literal is not None:
        return const(literal, count, text=f"{literal:#x}", kind="literal")
    return None


def _name(index: int, count: int) -> str:
    if index < 102:
        return ""
    if index == 124:
        return "m0"
    if 108 <= index < 124:
        first = index - 108
        return f"ttmp{first}" if count == 1 else f"ttmp[{first}:{first + count - 1}]"
    pair = _PAIRS.get(index & ~1, "")
    return pair if count == 2 else pair + ("_hi" if index & 1 else "_lo")
