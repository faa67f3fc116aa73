# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Vector instructions: VOP1, VOP2 and VOPC, also with SDWA and DPP, and VOP3."""

from __future__ import annotations

from dataclasses import replace

from ..encodings import Form
from ..instruction import Operand
from ..operands import DPP, LITERAL, SDWA, accumulation, const, scalar, vector
from .words import Read, UnknownError, Words, count_of, form_of, long_sources

__all__ = ["short", "vop3"]


def short(words: Words) -> Read:
    """Read VOP1, VOP2 and VOPC, with what their first source may make of them."""
    opcode = words.bits(30, 25)
    if opcode == 63:
        name, form = "vop1", form_of(words, "vop1", words.bits(16, 9))
    elif opcode == 62:
        name, form = "vopc", form_of(words, "vopc", words.bits(24, 17))
    else:
        name, form = "vop2", form_of(words, "vop2", opcode)
    first = words.bits(8, 0)
    if form.ins and first == SDWA:
        return _sdwa(words, name, form)
    if form.ins and first == DPP:
        return _dpp(words, name, form)
    if form.mnemonic == "v_accvgpr_mov_b32":
        if first < 256:
            raise UnknownError(f"source {first}")
        return form, name, (accumulation(words.bits(24, 17)), accumulation(first & 255))
    outs = _short_outs(words, form)
    operands, second = [], iter((False, True))
    for kind in form.ins:
        if kind == "k":
            operands.append(const(words.word(1), text=f"{words.word(1):#x}", kind="literal"))
        elif kind == "s2":
            operands.append(scalar(106, 2))
        elif next(second):
            operands.append(vector(words.bits(16, 9), count_of(kind)))
        else:
            operands.append(words.source(first, kind))
    return form, name, (*outs, *operands)


def _short_outs(words: Words, form: Form) -> list[Operand]:
    kinds = {"s1": lambda: scalar(words.bits(23, 17)), "s2": lambda: scalar(106, 2)}
    return [
        kinds.get(kind, lambda kind=kind: vector(words.bits(24, 17), count_of(kind)))()
        for kind in form.outs
    ]


_SELECTIONS = ("BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD")
_UNUSED = ("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE")


def _check_part(form: Form, encoding: str) -> None:
    """Refuse forms that cannot select parts or lanes of their sources."""
    wide = "2" in (*form.outs, *form.ins) and encoding == "sdwa"
    if wide or "s1" in form.outs or "k" in form.ins or form.mnemonic in _WHOLE:
        raise UnknownError(f"{form.mnemonic} with {encoding}")


_WHOLE = frozenset({"v_swap_b32", "v_accvgpr_mov_b32"})


def _one_of(names: tuple[str, ...], value: int) -> str:
    if value >= len(names):
        raise UnknownError(f"selection {value}")
    return names[value]


def _sdwa(words: Words, name: str, form: Form) -> Read:
    _check_part(form, "sdwa")
    operands: list[Operand] = []
    words.flags(clamp=45)
    if name == "vopc":
        register = words.bits(46, 40) if words.bits(47, 47) else 106
        words.modifiers.pop("clamp", None)
        operands.append(scalar(register, 2))
    else:
        if words.bits(47, 46):
            words.modifiers["omod"] = words.bits(47, 46)
        operands += _short_outs(words, form)
        words.modifiers["dst_sel"] = _one_of(_SELECTIONS, words.bits(42, 40))
        words.modifiers["dst_unused"] = _one_of(_UNUSED, words.bits(44, 43))
    sources = [kind for kind in form.ins if kind != "s2"]
    for i, kind in enumerate(sources):
        low = 48 + 8 * i
        value = words.bits(39, 32) if i == 0 else words.bits(16, 9)
        if words.bits(low + 7, low + 7):
            operand = words.source(value, kind) if value != LITERAL else None
        else:
            operand = vector(value, count_of(kind))
        if operand is None:
            raise UnknownError("a literal with SDWA")
        words.modifiers[f"src{i}_sel"] = _one_of(_SELECTIONS, words.bits(low + 2, low))
        sext, neg, absolute = (bool(words.bits(b, b)) for b in range(low + 3, low + 6))
        operands.append(replace(operand, sext=sext, neg=neg, abs=absolute))
    operands += [scalar(106, 2) for kind in form.ins if kind == "s2"]
    return form, "sdwa", tuple(operands)


# First value of dpp_ctrl -> (name, how many values from there on, what is added to the count)
_CONTROLS = {
    0x101: ("row_shl", 15, 1),
    0x111: ("row_shr", 15, 1),
    0x121: ("row_ror", 15, 1),
    0x130: ("wave_shl", 1, 1),
    0x134: ("wave_rol", 1, 1),
    0x138: ("wave_shr", 1, 1),
    0x13C: ("wave_ror", 1, 1),
    0x140: ("row_mirror", 1, 1),
    0x141: ("row_half_mirror", 1, 1),
    0x142: ("row_bcast", 1, 15),
    0x143: ("row_bcast", 1, 31),
    0x150: ("row_newbcast", 16, 0),
}


def _dpp_control(words: Words, wide: bool) -> None:
    """Note where lanes read from; 64-bit operations have one way only."""
    value = words.bits(48, 40)
    if value < 256 and not wide:
        words.modifiers["quad_perm"] = tuple(value >> 2 * i & 3 for i in range(4))
        return
    for first, (name, count, start) in _CONTROLS.items():
        fits = words.arch != "gfx908" if name == "row_newbcast" else not wide
        if first <= value < first + count and fits:
            words.modifiers[name] = value - first + start
            return
    raise UnknownError(f"DPP control {value:#x}")


def _dpp(words: Words, name: str, form: Form) -> Read:
    if name == "vopc":
        raise UnknownError("a comparison with DPP")
    _check_part(form, "dpp")
    operands = _short_outs(words, form)
    fields = (words.bits(39, 32), words.bits(16, 9))
    for i, kind in enumerate(kind for kind in form.ins if kind != "s2"):
        neg, absolute = words.bits(52 + 2 * i, 52 + 2 * i), words.bits(53 + 2 * i, 53 + 2 * i)
        register = vector(fields[i], count_of(kind))
        operands.append(replace(register, neg=bool(neg), abs=bool(absolute)))
    operands += [scalar(106, 2) for kind in form.ins if kind == "s2"]
    _dpp_control(words, "2" in (*form.outs, *form.ins))
    words.modifiers["row_mask"] = words.bits(63, 60)
    words.modifiers["bank_mask"] = words.bits(59, 56)
    words.flags(bound_ctrl=51)
    return form, "dpp", tuple(operands)


def vop3(words: Words) -> Read:
    """Read VOP3, with one destination (A) or a second, scalar one (B)."""
    form = form_of(words, "vop3", words.bits(25, 16))
    sources, split = long_sources(words, form), len(form.outs) == 2
    neg, absolute = words.bits(63, 61), 0 if split else words.bits(10, 8)
    if form.mnemonic.startswith("v_bitop3"):  # a truth table instead of signs
        words.modifiers["bitop3"] = words.bits(60, 59) << 6 | absolute << 3 | neg
        neg = absolute = 0
    elif words.bits(60, 59):
        words.modifiers["omod"] = words.bits(60, 59)
    sources = [
        replace(operand, neg=bool(neg >> i & 1), abs=bool(absolute >> i & 1))
        for i, operand in enumerate(sources)
    ]
    words.flags(clamp=15)
    if not split and words.bits(14, 11):
        selected = [words.bits(11 + i, 11 + i) for i in range(len(sources))]
        words.modifiers["op_sel"] = (*selected, words.bits(14, 14))
    operands = []
    for i, kind in enumerate(form.outs):
        if i:
            operands.append(scalar(words.bits(14, 8), 2))
        elif kind[0] == "s":
            operands.append(scalar(words.bits(6, 0), count_of(kind)))
        else:
            operands.append(vector(words.bits(7, 0), count_of(kind)))
    return form, "vop3", (*operands, *sources)
