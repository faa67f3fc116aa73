# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scalar instructions: SOP1, SOP2, SOPC, SOPK, SOPP and SMEM."""

from __future__ import annotations

from ..instruction import Operand
from ..operands import const, scalar, special
from .words import Read, UnknownError, Words, count_of, form_of, signed

__all__ = ["smem", "sop", "sopk", "sopp"]


def sop(words: Words, encoding: str, opcode: int) -> Read:
    """Read SOP1, SOP2 and SOPC, which differ in how many sources they have."""
    form = form_of(words, encoding, opcode)
    values = iter((words.bits(7, 0), words.bits(15, 8)))
    operands = [scalar(words.bits(22, 16), count_of(kind)) for kind in form.outs]
    for kind in form.ins:
        value = next(values)
        if kind == "i":
            operands.append(const(value, text=_gpr_index(value)))
        else:
            operands.append(words.source(value, kind))
    return form, encoding, tuple(operands)


def _gpr_index(value: int) -> str:
    names = ("SRC0", "SRC1", "SRC2", "DST")
    return f"gpr_idx({','.join(n for i, n in enumerate(names) if value >> i & 1)})"


def sopk(words: Words) -> Read:
    """Read SOPK: 16 bits of the instruction are a number, a register of hardware or a place."""
    form = form_of(words, "sopk", words.bits(27, 23))
    value, register = words.bits(15, 0), words.bits(22, 16)
    operands = [scalar(register, count_of(kind)) for kind in form.outs]
    for kind in form.ins:
        if kind == "k":
            operands.append(const(words.word(1), text=_short(words.word(1)), kind="literal"))
        elif kind != "i":
            operands.append(scalar(register, count_of(kind)))
        elif "etreg" in form.mnemonic:
            operands.append(_hardware_register(words, value))
        elif form.mnemonic in ("s_cbranch_i_fork", "s_call_b64"):
            words.modifiers["target"] = words.address + 4 + 4 * signed(value, 16)
        else:
            number = value if form.mnemonic.endswith("_u32") else signed(value, 16)
            operands.append(const(number, text=f"{value:#x}"))
    return form, "sopk", tuple(operands)


def _short(value: int) -> str:
    """Return the text of an unsigned immediate: small ones in decimal."""
    number = signed(value, 32)
    return str(number) if -16 <= number <= 64 else f"{value:#x}"


_HARDWARE = {
    1: "MODE",
    2: "STATUS",
    3: "TRAPSTS",
    4: "HW_ID",
    5: "GPR_ALLOC",
    6: "LDS_ALLOC",
    7: "IB_STS",
    15: "SH_MEM_BASES",
    16: "TBA_LO",
    17: "TBA_HI",
    18: "TMA_LO",
    19: "TMA_HI",
}


def _hardware_register(words: Words, value: int) -> Operand:
    number, first, width = value & 63, value >> 6 & 31, (value >> 11) + 1
    names = _HARDWARE | ({20: "XCC_ID"} if words.late else {})
    name = f"HW_REG_{names[number]}" if number in names else str(number)
    words.modifiers["hwreg"] = (number, first, width)
    part = "" if (first, width) == (0, 32) else f", {first}, {width}"
    return special(f"hwreg({name}{part})")


def sopp(words: Words) -> Read:
    """Read SOPP: branches, waits, and what has no operands but 16 bits."""
    form = form_of(words, "sopp", words.bits(22, 16))
    value, name = words.bits(15, 0), form.mnemonic
    operands: tuple[Operand, ...] = ()
    if "branch" in name:
        words.modifiers["target"] = words.address + 4 + 4 * signed(value, 16)
    elif name == "s_waitcnt":
        words.modifiers["vmcnt"] = value & 15 | value >> 10 & 48
        words.modifiers["expcnt"] = value >> 4 & 7
        words.modifiers["lgkmcnt"] = value >> 8 & 15
    elif name.startswith("s_sendmsg"):
        words.modifiers["msg"] = value
        parts = f"{value & 15}, {value >> 4 & 7}, {value >> 8 & 3}"
        operands = (special(f"sendmsg({'MSG_INTERRUPT' if value == 1 else parts})"),)
    elif name == "s_set_gpr_idx_mode":
        operands = (const(value, text=_gpr_index(value)),)
    elif value and name == "s_endpgm":
        operands = (const(value),)
    elif form.ins:
        operands = (const(value, text=_short(value)),)
    elif value:
        raise UnknownError(f"{name} has no operand, and {value} as one")
    return form, "sopp", operands


def smem(words: Words) -> Read:
    """Read SMEM: loads and stores by scalar addresses."""
    form = form_of(words, "smem", words.bits(25, 18))
    data, base = words.bits(12, 6), words.bits(5, 0) << 1
    operands = [scalar(data, count_of(kind)) for kind in form.outs]
    for i, kind in enumerate(form.ins):
        if kind == "i":
            operands.append(_smem_offset(words))
        else:
            stored = i == 0 and len(form.ins) == 3
            operands.append(scalar(data if stored else base, count_of(kind)))
    if not form.ins:
        words.word(1)
    words.flags(glc=16)
    return form, "smem", tuple(operands)


def _smem_offset(words: Words) -> Operand:
    offset = signed(words.bits(52, 32), 21)
    register = words.bits(14, 14)
    if not words.bits(17, 17):
        return scalar(words.bits(63, 57) if register else words.bits(38, 32))
    if register:
        words.modifiers["offset"] = offset
        return scalar(words.bits(63, 57))
    return const(offset, text=f"{offset:#x}")
