"""Bytes of a kernel to instructions, by the tables of `encodings`."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from .encodings import ARCHES, Form, forms
from .encodings.matrix import MIX
from .errors import DecodeError
from .instruction import Instruction, Operand
from .operands import (
    DPP,
    LITERAL,
    SDWA,
    accumulation,
    const,
    scalar,
    source,
    special,
    vector,
)

__all__ = ["decode", "decode_one"]

_PACKED = 0x1A7  # the highest bits of VOP3P

Modifiers = dict[str, int | str | tuple[int, ...]]


class _UnknownError(Exception):
    """What is not in the tables, in words; `decode_one` adds where."""


@dataclass
class _Words:
    """The words from an instruction on, and how many of them it has taken.

    Attributes
    ----------
    arch : str
    address : int
        Of the instruction.
    w : tuple of int
        At most four words; the last instruction of a kernel may have fewer after it.
    used : int
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
            raise _UnknownError("the code ends within an instruction")
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
        found = source(value, _count(kind), literal)
        if found is None:
            raise _UnknownError(f"source {value}")
        if literal is not None and kind in ("h", "b", "w"):
            return replace(found, name=f"{literal & 0xFFFF:#x}")  # all 32 bits stay in ``bits``
        if kind == "w" and found.kind == "float" and self.w[0] >> 23 != _PACKED:
            (half,) = struct.unpack("<H", struct.pack("<e", float(found.name)))
            return replace(found, name=f"{half:#x}")
        return found

    def caches(self, first: int, second: int, third: int) -> None:
        """Note the cache bits, which were renamed and partly moved."""
        names = ("sc0", "nt", "sc1") if self.late else ("glc", "slc", "scc")
        self.flags(**dict(zip(names, (first, second, third), strict=True)))


def _count(kind: str) -> int:
    kind = kind.removeprefix("s")
    return int(kind) if kind.isdigit() else 1


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
    words = _Words(arch, address, struct.unpack_from(f"<{len(tail) // 4}I", tail))
    try:
        if not words.w:
            raise _UnknownError("the code ends within an instruction")
        return _instruction(words)
    except _UnknownError as error:
        shown = " ".join(f"{word:08x}" for word in words.w[:2]) or tail.hex()
        raise DecodeError(f"{where}: {shown}: no instruction of {arch}: {error}") from None


def _instruction(words: _Words) -> Instruction:
    first = words.w[0]
    for shift, value, name in _ENCODINGS:
        if first >> shift == value:
            form, encoding, operands = _READERS[name](words)
            _check(operands)
            return Instruction(
                address=words.address,
                size=4 * words.used,
                mnemonic=form.mnemonic,
                encoding=encoding,
                operands=operands,
                modifiers=words.modifiers,
            )
    raise _UnknownError("unknown encoding")


Read = tuple[Form, str, tuple[Operand, ...]]


def _check(operands: tuple[Operand, ...]) -> None:
    """Refuse registers that there are not, and scalar ones that begin where none may."""
    for operand in operands:
        if operand.index + operand.count > {"v": 256, "a": 256, "s": 128}.get(operand.file, 256):
            raise _UnknownError(f"{operand.count} registers from {operand.file}{operand.index}")
        lone = operand.index == 124 and operand.count > 1  # m0
        if operand.file == "s" and (operand.index % min(operand.count, 4) or lone):
            raise _UnknownError(f"{operand.count} scalar registers from {operand.index}")


def _form(words: _Words, encoding: str, opcode: int) -> Form:
    form = forms(words.arch)[encoding].get(opcode)
    if form is None:
        raise _UnknownError(f"opcode {opcode} of {encoding}")
    return form


# Scalar


def _sop(words: _Words, encoding: str, opcode: int) -> Read:
    form = _form(words, encoding, opcode)
    values = iter((words.bits(7, 0), words.bits(15, 8)))
    operands = [scalar(words.bits(22, 16), _count(kind)) for kind in form.outs]
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


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> bits - 1 else value


def _sopk(words: _Words) -> Read:
    form = _form(words, "sopk", words.bits(27, 23))
    value, register = words.bits(15, 0), words.bits(22, 16)
    operands = [scalar(register, _count(kind)) for kind in form.outs]
    for kind in form.ins:
        if kind == "k":
            operands.append(const(words.word(1), text=_short(words.word(1)), kind="literal"))
        elif kind != "i":
            operands.append(scalar(register, _count(kind)))
        elif "etreg" in form.mnemonic:
            operands.append(_hardware_register(words, value))
        elif form.mnemonic in ("s_cbranch_i_fork", "s_call_b64"):
            words.modifiers["target"] = words.address + 4 + 4 * _signed(value, 16)
        else:
            number = value if form.mnemonic.endswith("_u32") else _signed(value, 16)
            operands.append(const(number, text=f"{value:#x}"))
    return form, "sopk", tuple(operands)


def _short(value: int) -> str:
    """Return the text of an unsigned immediate: small ones in decimal."""
    signed = _signed(value, 32)
    return str(signed) if -16 <= signed <= 64 else f"{value:#x}"


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


def _hardware_register(words: _Words, value: int) -> Operand:
    number, first, width = value & 63, value >> 6 & 31, (value >> 11) + 1
    names = _HARDWARE | ({20: "XCC_ID"} if words.late else {})
    name = f"HW_REG_{names[number]}" if number in names else str(number)
    words.modifiers["hwreg"] = (number, first, width)
    part = "" if (first, width) == (0, 32) else f", {first}, {width}"
    return special(f"hwreg({name}{part})")


def _sopp(words: _Words) -> Read:
    form = _form(words, "sopp", words.bits(22, 16))
    value, name = words.bits(15, 0), form.mnemonic
    operands: tuple[Operand, ...] = ()
    if "branch" in name:
        words.modifiers["target"] = words.address + 4 + 4 * _signed(value, 16)
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
        raise _UnknownError(f"{name} has no operand, and {value} as one")
    return form, "sopp", operands


def _smem(words: _Words) -> Read:
    form = _form(words, "smem", words.bits(25, 18))
    data, base = words.bits(12, 6), words.bits(5, 0) << 1
    operands = [scalar(data, _count(kind)) for kind in form.outs]
    for i, kind in enumerate(form.ins):
        if kind == "i":
            operands.append(_smem_offset(words))
        else:
            stored = i == 0 and len(form.ins) == 3
            operands.append(scalar(data if stored else base, _count(kind)))
    if not form.ins:
        words.word(1)
    words.flags(glc=16)
    return form, "smem", tuple(operands)


def _smem_offset(words: _Words) -> Operand:
    offset = _signed(words.bits(52, 32), 21)
    register = words.bits(14, 14)
    if not words.bits(17, 17):
        return scalar(words.bits(63, 57) if register else words.bits(38, 32))
    if register:
        words.modifiers["offset"] = offset
        return scalar(words.bits(63, 57))
    return const(offset, text=f"{offset:#x}")


# Vector


def _vop_short(words: _Words) -> Read:
    opcode = words.bits(30, 25)
    if opcode == 63:
        name, form = "vop1", _form(words, "vop1", words.bits(16, 9))
    elif opcode == 62:
        name, form = "vopc", _form(words, "vopc", words.bits(24, 17))
    else:
        name, form = "vop2", _form(words, "vop2", opcode)
    first = words.bits(8, 0)
    if form.ins and first == SDWA:
        return _sdwa(words, name, form)
    if form.ins and first == DPP:
        return _dpp(words, name, form)
    if form.mnemonic == "v_accvgpr_mov_b32":
        if first < 256:
            raise _UnknownError(f"source {first}")
        return form, name, (accumulation(words.bits(24, 17)), accumulation(first & 255))
    outs = _short_outs(words, form)
    operands, second = [], iter((False, True))
    for kind in form.ins:
        if kind == "k":
            operands.append(const(words.word(1), text=f"{words.word(1):#x}", kind="literal"))
        elif kind == "s2":
            operands.append(scalar(106, 2))
        elif next(second):
            operands.append(vector(words.bits(16, 9), _count(kind)))
        else:
            operands.append(words.source(first, kind))
    return form, name, (*outs, *operands)


def _short_outs(words: _Words, form: Form) -> list[Operand]:
    kinds = {"s1": lambda: scalar(words.bits(23, 17)), "s2": lambda: scalar(106, 2)}
    return [
        kinds.get(kind, lambda kind=kind: vector(words.bits(24, 17), _count(kind)))()
        for kind in form.outs
    ]


_SELECTIONS = ("BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD")
_UNUSED = ("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE")


def _check_part(form: Form, encoding: str) -> None:
    """Refuse forms that cannot select parts or lanes of their sources."""
    wide = "2" in (*form.outs, *form.ins) and encoding == "sdwa"
    if wide or "s1" in form.outs or "k" in form.ins or form.mnemonic in _WHOLE:
        raise _UnknownError(f"{form.mnemonic} with {encoding}")


_WHOLE = frozenset({"v_swap_b32", "v_accvgpr_mov_b32"})


def _one_of(names: tuple[str, ...], value: int) -> str:
    if value >= len(names):
        raise _UnknownError(f"selection {value}")
    return names[value]


def _sdwa(words: _Words, name: str, form: Form) -> Read:
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
            operand = vector(value, _count(kind))
        if operand is None:
            raise _UnknownError("a literal with SDWA")
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


def _dpp_control(words: _Words, wide: bool) -> None:
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
    raise _UnknownError(f"DPP control {value:#x}")


def _dpp(words: _Words, name: str, form: Form) -> Read:
    if name == "vopc":
        raise _UnknownError("a comparison with DPP")
    _check_part(form, "dpp")
    operands = _short_outs(words, form)
    fields = (words.bits(39, 32), words.bits(16, 9))
    for i, kind in enumerate(kind for kind in form.ins if kind != "s2"):
        neg, absolute = words.bits(52 + 2 * i, 52 + 2 * i), words.bits(53 + 2 * i, 53 + 2 * i)
        register = vector(fields[i], _count(kind))
        operands.append(replace(register, neg=bool(neg), abs=bool(absolute)))
    operands += [scalar(106, 2) for kind in form.ins if kind == "s2"]
    _dpp_control(words, "2" in (*form.outs, *form.ins))
    words.modifiers["row_mask"] = words.bits(63, 60)
    words.modifiers["bank_mask"] = words.bits(59, 56)
    words.flags(bound_ctrl=51)
    return form, "dpp", tuple(operands)


def _long_sources(words: _Words, form: Form) -> list[Operand]:
    found = []
    for i, kind in enumerate(form.ins):
        value = words.bits(40 + 9 * i, 32 + 9 * i)
        if value == LITERAL:
            raise _UnknownError("a literal in a long encoding")
        found.append(words.source(value, kind))
    return found


def _vop3(words: _Words) -> Read:
    form = _form(words, "vop3", words.bits(25, 16))
    sources, split = _long_sources(words, form), len(form.outs) == 2
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
            operands.append(scalar(words.bits(6, 0), _count(kind)))
        else:
            operands.append(vector(words.bits(7, 0), _count(kind)))
    return form, "vop3", (*operands, *sources)


def _vop3p(words: _Words) -> Read:
    opcode, table = words.bits(22, 16), forms(words.arch)
    if opcode in table["mfma"]:
        return _mfma(words, table["mfma"][opcode])
    if opcode == 44 and words.arch == "gfx950":
        return _scaled(words)
    form = _form(words, "vop3p", opcode)
    sources = _long_sources(words, form)
    every = range(len(sources))
    high = words.bits(60, 59) | words.bits(14, 14) << 2
    low_sign, high_sign = words.bits(63, 61), words.bits(10, 8)
    if form.mnemonic in MIX:
        sources = [
            replace(operand, neg=bool(low_sign >> i & 1), abs=bool(high_sign >> i & 1))
            for i, operand in enumerate(sources)
        ]
        low_sign = high_sign = 0
    bits = {
        "op_sel": words.bits(13, 11),
        "op_sel_hi": high,
        "neg_lo": low_sign,
        "neg_hi": high_sign,
    }
    for name, value in bits.items():
        words.modifiers[name] = tuple(value >> i & 1 for i in every)
    words.flags(clamp=15)
    return form, "vop3p", (vector(words.bits(7, 0), _count(form.outs[0])), *sources)


# Registers of a source of the products of mixed narrow types, by cbsz or blgp.
_NARROW = {0: "8", 1: "8", 2: "6", 3: "6", 4: "4"}


def _mfma(words: _Words, form: Form) -> Read:
    if form.mnemonic == "v_accvgpr_write_b32":
        value = words.source(words.bits(40, 32), "1")
        return form, "mfma", (accumulation(words.bits(7, 0)), value)
    if form.mnemonic == "v_accvgpr_read_b32":
        value = accumulation(words.bits(39, 32))
        return form, "mfma", (vector(words.bits(7, 0)), value)
    accumulates = words.arch == "gfx908" or bool(words.bits(15, 15))
    for name, (top, low) in {"cbsz": (10, 8), "abid": (14, 11), "blgp": (63, 61)}.items():
        if number := words.bits(top, low):
            words.modifiers[name] = number
    kinds = list(form.ins)
    for i, name in enumerate(("cbsz", "blgp")):
        if kinds[i] == "x":
            kinds[i] = _NARROW.get(int(str(words.modifiers.get(name, 0))), "")
            if not kinds[i]:
                raise _UnknownError(f"{name} {words.modifiers[name]}")
    operands = [vector(words.bits(7, 0), _count(form.outs[0]))]
    for i, kind in enumerate(kinds):
        operand = words.source(words.bits(40 + 9 * i, 32 + 9 * i), kind)
        if i < 2 and words.bits(59 + i, 59 + i):
            operand = replace(operand, file="a")
        operands.append(operand)
    if accumulates:
        operands[0] = replace(operands[0], file="a")
        if operands[3].file == "v" and not form.mnemonic.startswith("v_smfmac"):
            operands[3] = replace(operands[3], file="a")
    return form, "mfma", tuple(operands)


def _scaled(words: _Words) -> Read:
    """Read a product with block scales: their registers, and the product in two more words."""
    scales = [words.source(words.bits(40 + 9 * i, 32 + 9 * i), "1") for i in range(2)]
    low = words.bits(12, 11)
    high = words.bits(60, 59)
    product = _Words(words.arch, words.address, words.w[2:])
    if product.word(0) >> 23 != _PACKED or product.bits(22, 16) not in (45, 46):
        raise _UnknownError("scales without a product")
    form, name, operands = _mfma(product, forms(words.arch)["mfma"][product.bits(22, 16)])
    words.used = 4
    words.modifiers.update(product.modifiers)
    words.modifiers["op_sel"] = (low & 1, low >> 1, 0)
    words.modifiers["op_sel_hi"] = (high & 1, high >> 1, 0)
    form = replace(form, mnemonic=form.mnemonic.replace("v_mfma_", "v_mfma_scale_"))
    return form, name, (*operands, *scales)


# Memory


def _data(words: _Words, index: int, count: int, accumulates: int) -> Operand:
    make = accumulation if accumulates and words.arch != "gfx908" else vector
    return make(index, count)


def _ds(words: _Words) -> Read:
    form = _form(words, "ds", words.bits(24, 17))
    acc = words.bits(25, 25)
    operands = [_data(words, words.bits(63, 56), _count(kind), acc) for kind in form.outs]
    fields = [words.bits(low + 7, low) for low in (32, 40, 48)]
    if form.mnemonic.endswith("addtid_b32"):
        fields = fields[1:]  # no address
        operands += [_data(words, fields[0], _count(kind), acc) for kind in form.ins]
    else:
        for i, kind in enumerate(form.ins):
            address = vector(fields[0])
            operands.append(_data(words, fields[i], _count(kind), acc) if i else address)
    words.flags(gds=16)
    if words.late and "gds" in words.modifiers:
        raise _UnknownError("global data share")
    if re.search("(read|write|xchg)2", form.mnemonic):
        for i in range(2):
            if value := words.bits(8 * i + 7, 8 * i):
                words.modifiers[f"offset{i}"] = value
    elif value := words.bits(15, 0):
        words.modifiers["offset"] = value
    return form, "ds", tuple(operands)


def _flat(words: _Words) -> Read:
    segment = words.bits(15, 14)
    if segment == 3:
        raise _UnknownError("segment 3")
    name = ("flat", "scratch", "global")[segment]
    form = _form(words, name, words.bits(24, 18))
    acc, stem = words.bits(55, 55), form.mnemonic
    register, address = words.bits(54, 48), words.bits(39, 32)
    based = register != 127
    if name == "flat":
        where = [vector(address, 2)]
    elif name == "global":
        where = [vector(address, 1 if based else 2)]
        where.append(scalar(register, 2) if based else special("off"))
    else:
        indexed = bool(words.bits(13, 13)) if words.late else not based
        where = [vector(address) if indexed else special("off")]
        where.append(scalar(register) if based else special("off"))
    offset = words.bits(11, 0) if name == "flat" else _signed(words.bits(12, 0), 13)
    if offset:
        words.modifiers["offset"] = offset
    words.caches(16, 17, 25)
    returns = "atomic" not in stem or words.bits(16, 16)
    out = [_data(words, words.bits(63, 56), _count(k), acc) for k in form.outs if returns]
    into = [_data(words, words.bits(47, 40), _count(kind), acc) for kind in form.ins]
    if stem.startswith("scratch_store"):  # the text has its address first
        return form, name, (where[0], *into, where[1])
    return form, name, (*out, where[0], *into, *where[1:])


def _mubuf(words: _Words) -> Read:
    form = _form(words, "mubuf", words.bits(24, 18))
    offen, idxen = words.bits(12, 12), words.bits(13, 13)
    words.flags(idxen=13, offen=12, lds=16)
    words.caches(14, 17, 15)
    if offset := words.bits(11, 0):
        words.modifiers["offset"] = offset
    if not (form.outs or form.ins):
        return form, "mubuf", ()
    acc = words.bits(55, 55)
    # An atomic's result comes where its first value was, and the text has one of them.
    kind = (form.ins or form.outs)[0]
    data = [_data(words, words.bits(47, 40), _count(kind), acc)]
    if words.bits(16, 16):
        data = []
    where = vector(words.bits(39, 32), 2 if offen and idxen else 1)
    address = where if offen or idxen else special("off")
    if not data and not (offen or idxen):
        address = special("off")
    resource = scalar(words.bits(52, 48) << 2, 4)
    return form, "mubuf", (*data, address, resource, words.source(words.bits(63, 56), "1"))


# Highest bits of the first word, as (shift, value, reader); the first that fits.
_ENCODINGS = (
    (31, 0, "vop"),
    (23, 0x17D, "sop1"),
    (23, 0x17E, "sopc"),
    (23, 0x17F, "sopp"),
    (28, 0xB, "sopk"),
    (30, 2, "sop2"),
    (26, 0x30, "smem"),
    (23, _PACKED, "vop3p"),
    (26, 0x34, "vop3"),
    (26, 0x36, "ds"),
    (26, 0x37, "flat"),
    (26, 0x38, "mubuf"),
)
_READERS: Mapping[str, Callable[[_Words], Read]] = {
    "vop": _vop_short,
    "sop1": lambda words: _sop(words, "sop1", words.bits(15, 8)),
    "sop2": lambda words: _sop(words, "sop2", words.bits(29, 23)),
    "sopc": lambda words: _sop(words, "sopc", words.bits(22, 16)),
    "sopp": _sopp,
    "sopk": _sopk,
    "smem": _smem,
    "vop3": _vop3,
    "vop3p": _vop3p,
    "ds": _ds,
    "flat": _flat,
    "mubuf": _mubuf,
}
