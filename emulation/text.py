# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Instructions as the compiler's assembly text, which is what they can be compared with."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from .encodings import forms
from .instruction import Instruction, Operand

__all__ = ["full_name", "instruction_text"]


def instruction_text(
    instruction: Instruction, arch: str, labels: Mapping[int, str] | None = None
) -> str:
    """Return an instruction as LLVM prints it.

    Parameters
    ----------
    instruction : Instruction
    arch : str
        One of ``ARCHES``.
    labels : mapping of int to str, optional
        Names of addresses, for branches; others are written as addresses.
    """
    operands = [_operand(operand, instruction) for operand in instruction.operands]
    if "target" in instruction.modifiers:
        target = instruction.modifiers["target"]
        assert isinstance(target, int)
        operands.append((labels or {}).get(target, f"{target:#x}"))
    if instruction.mnemonic == "s_waitcnt":
        operands = [_waits(instruction)]
    words = [full_name(instruction, arch)]
    if operands:
        words.append(", ".join(operands))
    return " ".join(words + _modifiers(instruction, arch))


def full_name(instruction: Instruction, arch: str) -> str:
    """Return the mnemonic as LLVM prints it: with what tells encodings of one operation apart."""
    name, encoding = instruction.mnemonic, instruction.encoding
    if encoding in ("sdwa", "dpp"):
        return f"{name}_{encoding}"
    if name in _in_both(arch):
        return name + {"vop3": "_e64", "vop1": "_e32", "vop2": "_e32", "vopc": "_e32"}.get(
            encoding, ""
        )
    return name


@cache
def _in_both(arch: str) -> frozenset[str]:
    """Return what has a short and a long encoding, both of which have a suffix then."""
    named = {form.mnemonic for form in forms(arch)["vop3"].values() if form.short}
    return frozenset(named - {"v_nop"})


def _operand(operand: Operand, instruction: Instruction) -> str:
    text = _bare(operand)
    if operand.abs:
        text = f"|{text}|"
    if operand.neg:
        alone = operand.file == "const" and not operand.abs  # -1.0 would be another constant
        text = f"neg({text})" if alone else f"-{text}"
    return f"sext({text})" if operand.sext else text


_AS_SOURCES = frozenset({"scc", "vccz", "execz"})


def _bare(operand: Operand) -> str:
    if operand.name:
        return f"src_{operand.name}" if operand.name in _AS_SOURCES else operand.name
    last = operand.index + operand.count - 1
    first = operand.index
    return f"{operand.file}{first}" if first == last else f"{operand.file}[{first}:{last}]"


def _waits(instruction: Instruction) -> str:
    most = {"vmcnt": 63, "expcnt": 7, "lgkmcnt": 15}
    parts = [
        f"{name}({instruction.modifiers[name]})"
        for name, no_wait in most.items()
        if instruction.modifiers[name] != no_wait
    ]
    return " ".join(parts) or " ".join(f"{n}({instruction.modifiers[n]})" for n in most)


_OMOD = {1: "mul:2", 2: "mul:4", 3: "div:2"}

# In the order of the text, with what each is by default and how it is written.
_NAMES = (
    "idxen offen offset offset0 offset1 gds glc slc scc sc0 nt sc1 lds quad_perm row_shl row_shr "
    "row_ror wave_shl wave_rol wave_shr wave_ror row_mirror row_half_mirror row_bcast row_newbcast "
    "row_mask bank_mask bound_ctrl bitop3 op_sel op_sel_hi neg_lo neg_hi clamp omod dst_sel "
    "dst_unused src0_sel src1_sel cbsz abid blgp"
)
_ORDER = tuple(_NAMES.split())
_FLAGS = frozenset(
    "idxen offen gds glc slc scc sc0 nt sc1 lds row_mirror row_half_mirror clamp".split()  # noqa: SIM905
)
_HEX = frozenset({"row_mask", "bank_mask", "bitop3"})


def _modifiers(instruction: Instruction, arch: str) -> list[str]:
    return [
        _modifier(name, instruction, arch)
        for name in _ORDER
        if name in instruction.modifiers and _shown(name, instruction)
    ]


def _shown(name: str, instruction: Instruction) -> bool:
    value = instruction.modifiers[name]
    if name in ("op_sel", "neg_lo", "neg_hi"):
        return isinstance(value, tuple) and any(value)
    if name == "op_sel_hi":
        mixed = instruction.mnemonic.startswith("v_fma_mix")
        return isinstance(value, tuple) and (any(value) if mixed else not all(value))
    return True


def _modifier(name: str, instruction: Instruction, arch: str) -> str:
    value = instruction.modifiers[name]
    if name in _FLAGS:
        return name
    if name == "omod":
        return _OMOD[int(str(value))]
    if name == "blgp" and "f64" in instruction.mnemonic and arch in ("gfx942", "gfx950"):
        name, value = "neg", tuple(int(str(value)) >> i & 1 for i in range(3))
    if isinstance(value, tuple):
        return f"{name}:[{','.join(map(str, value))}]"
    hexadecimal = name in _HEX or (name == "offset" and instruction.encoding == "smem")
    return f"{name}:{value:#x}" if hexadecimal else f"{name}:{value}"
