# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Memory instructions: DS, FLAT with GLOBAL and SCRATCH, and MUBUF."""

from __future__ import annotations

import re

from ..instruction import Operand
from ..operands import accumulation, scalar, special, vector
from .words import Read, UnknownError, Words, count_of, form_of, signed

__all__ = ["ds", "flat", "mubuf"]


def _data(words: Words, index: int, count: int, accumulates: int) -> Operand:
    make = accumulation if accumulates and words.arch != "gfx908" else vector
    return make(index, count)


def ds(words: Words) -> Read:
    """Read DS."""
    form = form_of(words, "ds", words.bits(24, 17))
    acc = words.bits(25, 25)
    operands = [_data(words, words.bits(63, 56), count_of(kind), acc) for kind in form.outs]
    fields = [words.bits(low + 7, low) for low in (32, 40, 48)]
    if form.mnemonic.endswith("addtid_b32"):
        fields = fields[1:]  # no address
        operands += [_data(words, fields[0], count_of(kind), acc) for kind in form.ins]
    else:
        for i, kind in enumerate(form.ins):
            address = vector(fields[0])
            operands.append(_data(words, fields[i], count_of(kind), acc) if i else address)
    words.flags(gds=16)
    if words.late and "gds" in words.modifiers:
        raise UnknownError("global data share")
    if re.search("(read|write|xchg)2", form.mnemonic):
        for i in range(2):
            if value := words.bits(8 * i + 7, 8 * i):
                words.modifiers[f"offset{i}"] = value
    elif value := words.bits(15, 0):
        words.modifiers["offset"] = value
    return form, "ds", tuple(operands)


def flat(words: Words) -> Read:
    """Read FLAT, GLOBAL and SCRATCH, one encoding with three meanings of its address."""
    segment = words.bits(15, 14)
    if segment == 3:
        raise UnknownError("segment 3")
    name = ("flat", "scratch", "global")[segment]
    form = form_of(words, name, words.bits(24, 18))
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
    offset = words.bits(11, 0) if name == "flat" else signed(words.bits(12, 0), 13)
    if offset:
        words.modifiers["offset"] = offset
    words.caches(16, 17, 25)
    returns = "atomic" not in stem or words.bits(16, 16)
    out = [_data(words, words.bits(63, 56), count_of(k), acc) for k in form.outs if returns]
    into = [_data(words, words.bits(47, 40), count_of(kind), acc) for kind in form.ins]
    if stem.startswith("scratch_store"):  # the text has its address first
        return form, name, (where[0], *into, where[1])
    return form, name, (*out, where[0], *into, *where[1:])


def mubuf(words: Words) -> Read:
    """Read MUBUF."""
    form = form_of(words, "mubuf", words.bits(24, 18))
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
    data = [_data(words, words.bits(47, 40), count_of(kind), acc)]
    if words.bits(16, 16):
        data = []
    where = vector(words.bits(39, 32), 2 if offen and idxen else 1)
    address = where if offen or idxen else special("off")
    if not data and not (offen or idxen):
        address = special("off")
    resource = scalar(words.bits(52, 48) << 2, 4)
    return form, "mubuf", (*data, address, resource, words.source(words.bits(63, 56), "1"))
