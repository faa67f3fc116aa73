# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the opcodes of gfx9 mean, by architecture: one table for each class of instructions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from . import matrix, memory, scalar, vector
from .columns import ARCHES, Form, read

__all__ = ["ARCHES", "Form", "forms"]

# Encoding -> (table, prefix of names, sources where a name does not say)
_TABLES = {
    "sop2": (scalar.SOP2, "s_", 2),
    "sopk": (scalar.SOPK, "s_", 0),
    "sop1": (scalar.SOP1, "s_", 1),
    "sopc": (scalar.SOPC, "s_", 2),
    "sopp": (scalar.SOPP, "s_", 0),
    "smem": (scalar.SMEM, "s_", 0),
    "vop1": (vector.VOP1, "v_", 1),
    "vop2": (vector.VOP2, "v_", 2),
    "vopc": (vector.VOPC, "v_", 2),
    "vop3": (vector.VOP3, "v_", 3),
    "vop3p": (matrix.PACKED, "v_", 3),
    "mfma": (matrix.MFMA, "v_", 3),
    "ds": (memory.DS, "ds_", 0),
    "flat": (memory.SHARED + memory.ALONE["flat"], "flat_", 0),
    "global": (memory.SHARED + memory.ALONE["global"], "global_", 0),
    "scratch": (memory.SHARED + memory.ALONE["scratch"], "scratch_", 0),
    "mubuf": (memory.SHARED + memory.ALONE["buffer"] + memory.CACHE, "buffer_", 0),
}


@cache
def forms(arch: str) -> Mapping[str, Mapping[int, Form]]:
    """Return what the opcodes of each encoding mean.

    Parameters
    ----------
    arch : str
        One of ``ARCHES``.

    Returns
    -------
    mapping of str to mapping of int to Form
        By encoding (as in `Instruction`, but for sdwa and dpp, which are forms of others) and
        opcode.
    """
    found = {
        name: read(table, arch, prefix=prefix, sources=sources)
        for name, (table, prefix, sources) in _TABLES.items()
    }
    if arch != "gfx908":  # its operands are what no other of VOP1 has
        found["vop1"][82] = Form("v_accvgpr_mov_b32", ("1",), ("1",))
    for short, first in vector.FIRST_IN_VOP3.items():
        for opcode, form in found[short].items():
            if form.mnemonic not in vector.SHORT_ONLY:
                found["vop3"][first + opcode] = replace(form, short=True)
    return found
