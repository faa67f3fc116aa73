# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packed and matrix instructions: VOP3P in its two arrangements."""

from __future__ import annotations

from dataclasses import replace

from ..encodings import Form, forms
from ..encodings.matrix import MIX
from ..operands import accumulation, vector
from .words import PACKED, Read, UnknownError, Words, count_of, form_of, long_sources

__all__ = ["vop3p"]


def vop3p(words: Words) -> Read:
    """Read VOP3P: packed operations, products of matrices, moves of accumulation registers."""
    opcode, table = words.bits(22, 16), forms(words.arch)
    if opcode in table["mfma"]:
        return _mfma(words, table["mfma"][opcode])
    if opcode == 44 and words.arch == "gfx950":
        return _scaled(words)
    form = form_of(words, "vop3p", opcode)
    sources = long_sources(words, form)
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
    return form, "vop3p", (vector(words.bits(7, 0), count_of(form.outs[0])), *sources)


# Registers of a source of the products of mixed narrow types, by cbsz or blgp.
_NARROW = {0: "8", 1: "8", 2: "6", 3: "6", 4: "4"}


def _mfma(words: Words, form: Form) -> Read:
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
                raise UnknownError(f"{name} {words.modifiers[name]}")
    operands = [vector(words.bits(7, 0), count_of(form.outs[0]))]
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


def _scaled(words: Words) -> Read:
    """Read a product with block scales: their registers, and the product in two more words."""
    scales = [words.source(words.bits(40 + 9 * i, 32 + 9 * i), "1") for i in range(2)]
    low = words.bits(12, 11)
    high = words.bits(60, 59)
    product = Words(words.arch, words.address, words.w[2:])
    if product.word(0) >> 23 != PACKED or product.bits(22, 16) not in (45, 46):
        raise UnknownError("scales without a product")
    form, name, operands = _mfma(product, forms(words.arch)["mfma"][product.bits(22, 16)])
    words.used = 4
    words.modifiers.update(product.modifiers)
    words.modifiers["op_sel"] = (low & 1, low >> 1, 0)
    words.modifiers["op_sel_hi"] = (high & 1, high >> 1, 0)
    form = replace(form, mnemonic=form.mnemonic.replace("v_mfma_", "v_mfma_scale_"))
    return form, name, (*operands, *scales)
