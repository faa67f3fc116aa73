# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Encoded instructions are decoded to what the assembler's documentation of them says."""

from __future__ import annotations

import random
import struct
from collections import Counter
from pathlib import Path

import pytest
from hipdnn_iree.emulation.decode import decode, decode_one
from hipdnn_iree.emulation.encodings import ARCHES, forms
from hipdnn_iree.emulation.errors import DecodeError
from hipdnn_iree.emulation.instruction import Instruction, Operand
from hipdnn_iree.emulation.text import instruction_text

# Made to have every encoding, kind of operand and modifier; each was compared with a disassembler.
ROWS = [
    (arch, [int(word, 16) for word in words], text)
    for line in (Path(__file__).parent / "encoded.txt").read_text("ascii").splitlines()
    for (arch, *words), text in [(line.partition(" | ")[0].split(), line.partition(" | ")[2])]
]


def one(arch: str, *words: int) -> Instruction:
    return decode_one(struct.pack(f"<{len(words)}I", *words), arch=arch, kernel="k")


@pytest.mark.parametrize(("arch", "words", "text"), ROWS, ids=[row[2] for row in ROWS])
def test_texts(arch: str, words: list[int], text: str) -> None:
    found = one(arch, *words, 0xBF800000)  # what follows is not taken for a part of it
    assert instruction_text(found, arch) == text
    assert found.size == 4 * len(words)


def test_rows_have_every_encoding() -> None:
    seen = Counter(one(arch, *words).encoding for arch, words, _ in ROWS)
    assert set(seen) == {*forms("gfx942"), "sdwa", "dpp"}


def test_operands() -> None:
    """The form that the execution reads, not only its text."""
    add = one("gfx942", 0xD1010004, 0x4003E4F0)
    assert add == Instruction(
        address=0,
        size=8,
        mnemonic="v_add_f32",
        encoding="vop3",
        operands=(
            Operand("v", 4),
            Operand("const", bits=0x3F000000, name="0.5", kind="float"),
            Operand("v", 0xF2, neg=True),
        ),
        modifiers={},
    )
    literal = one("gfx90a", 0x7E0202FF, 0xDEADBEEF).operands[1]
    assert literal == Operand("const", bits=0xDEADBEEF, name="0xdeadbeef", kind="literal")
    minus = one("gfx90a", 0x7E0202C4).operands[1]
    assert minus == Operand("const", bits=0xFFFFFFFC, name="-4", kind="integer")
    wide = one("gfx942", 0xBE8001F2).operands  # s_mov_b64 s[0:1], 1.0
    assert (wide[0].count, wide[1].count, wide[1].bits) == (2, 2, 0x3F800000)
    carry = one("gfx942", 0x32020501)  # v_add_co_u32_e32 v1, vcc, s1, v2
    assert carry.operands[1] == Operand("s", 106, 2, name="vcc")


def test_an_opcode_may_have_changed_its_meaning() -> None:
    assert one("gfx908", 0x08020501).mnemonic == "v_mul_legacy_f32"
    found = one("gfx90a", 0x08020502)
    assert (found.mnemonic, found.operands[0].count) == ("v_fmac_f64", 2)


def test_branches() -> None:
    code = struct.pack("<3I", 0xBF800000, 0xBF82FFFE, 0xBF810000)
    found = decode(code, arch="gfx908", address=0x100)
    assert [i.address for i in found] == [0x100, 0x104, 0x108]
    assert found[1].modifiers == {"target": 0x100}
    assert instruction_text(found[1], "gfx908", {0x100: "loop"}) == "s_branch loop"
    assert instruction_text(found[1], "gfx908") == "s_branch 0x100"


def test_waits_are_all_there() -> None:
    found = one("gfx90a", 0xBF8C0F71)
    assert found.modifiers == {"vmcnt": 1, "expcnt": 7, "lgkmcnt": 15}


UNKNOWN = [
    ("gfx942", [0xC4000000, 0], "unknown encoding"),  # exports
    ("gfx942", [0xE8000000, 0], "unknown encoding"),  # typed buffers
    ("gfx942", [0x7E00B400], "opcode 90 of vop1"),
    ("gfx942", [0x2C020501], "opcode 22 of vop2"),  # v_mac_f32, which is gone
    ("gfx90a", [0xD2080000, 0], "opcode 520 of vop3"),  # v_lshl_add_u64
    ("gfx90a", [0xD3C38000, 0], "opcode 67 of vop3p"),
    ("gfx90a", [0x7E0202EA], "source 234"),
    ("gfx90a", [0x7E02027D], "source 125"),
    ("gfx942", [0x860102FF], "ends within"),  # a literal that is missing
    ("gfx942", [0xD1010004], "ends within"),
    ("gfx942", [0xD1010004, 0x000000FF], "a literal in a long encoding"),
    ("gfx942", [0x86810301], "2 scalar registers from 1"),
    ("gfx942", [0xD1CC00FF, 0], "2 registers from v255"),
    ("gfx942", [0x7E0606F9, 0], "with sdwa"),  # 64 bits
    ("gfx942", [0x7C8202FA, 0xFF000000], "a comparison with DPP"),
    ("gfx942", [0x7E0202FA, 0xFF013101], "DPP control"),
    ("gfx908", [0x7E0202FA, 0xFF015001], "DPP control"),
    ("gfx942", [0x7E0202F9, 0x00070600], "selection 7"),
    ("gfx942", [0xDC50C000, 0], "segment 3"),
    ("gfx942", [0xD86D0000, 0], "global data share"),
    ("gfx942", [0xBF8A0001], "s_barrier has no operand"),
    ("gfx950", [0xD3AC0000, 0, 0xBF800000, 0], "scales without a product"),
    ("gfx950", [0xD3AD0700, 0], "cbsz 7"),
]


@pytest.mark.parametrize(("arch", "words", "why"), UNKNOWN, ids=[row[2] for row in UNKNOWN])
def test_unknown_is_refused_by_name(arch: str, words: list[int], why: str) -> None:
    code = struct.pack(f"<{len(words) + 1}I", 0xBF800000, *words)
    with pytest.raises(DecodeError, match=why) as caught:
        decode(code, arch=arch, address=0x40, kernel="main_0")
    assert str(caught.value).startswith(f"main_0 at 0x44: {words[0]:08x}")


def test_unknown_architectures_and_odd_sizes_are_refused() -> None:
    with pytest.raises(DecodeError, match="gfx1100 is not emulated"):
        decode(bytes(4), arch="gfx1100")
    with pytest.raises(DecodeError, match="ends within"):
        decode(bytes.fromhex("000080bf0000"), arch="gfx942", kernel="k")


@pytest.mark.parametrize("arch", ARCHES)
def test_any_bytes_are_decoded_or_refused(arch: str) -> None:
    """Nothing but `DecodeError` comes out, and what is decoded has a text."""
    numbers, decoded = random.Random(arch), 0
    for _ in range(2000):
        try:
            found = decode_one(numbers.randbytes(16), arch=arch)
        except DecodeError:
            continue
        decoded += 1
        assert instruction_text(found, arch)
    assert decoded > 200
