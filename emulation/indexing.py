# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Vector registers by an index in M0: gfx9's VGPR indexing mode.

Between ``s_set_gpr_idx_on`` and ``s_set_gpr_idx_off`` the numbers of vector registers in
instructions of vector arithmetic count from M0[7:0], for those of the sources 0 to 2 and the
destination whose bits of M0[15:12] are set (AMD's "CDNA3 Instruction Set Architecture", VGPR
indexing).  Here index and bits are part of a wave's mode, for which steps are made, behind the bit
of MODE that enables them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from .errors import UnsupportedError
from .formats import Array
from .instruction import Instruction, Operand
from .state import M0
from .steps import Builder, Control, Machine

__all__ = ["BUILDERS", "indexed"]

_ENABLED = 1 << 27  # of MODE: gpr_idx_en
_PORTS, _INDEX = 28, 32  # where bits 15:12 and 7:0 of M0 lie in a mode here
_DESTINATION = 3

_ENCODINGS = frozenset({"vop1", "vop2", "vop3"})
# They have other operands than destination and sources, or read their destination.
_OTHERS = ("lane", "_co_", "cmp", "cndmask", "div_", "mac_", "fmac", "swap", "v_nop")


def _change(m: Machine, new: Callable[[Array], Array], enabled: bool | None) -> Control:
    """Return the change of M0, and of the mode with it."""
    m0 = m.s[M0]

    def change() -> Array:
        value = new(m0.astype(np.int64))
        m.put_waves(m0, value.astype(np.uint32))
        on = m.modes & _ENABLED if enabled is None else np.int64(_ENABLED if enabled else 0)
        taken = value >> 12 << _PORTS & 15 << _PORTS | (value & 255) << _INDEX
        mode = m.modes & (_ENABLED - 1) | np.where(on != 0, taken | _ENABLED, 0)
        m.put_waves(m.modes, mode)
        return m.modes

    return Control("mode", taken=change)


def _on(m: Machine, i: Instruction) -> Control:
    index, ports = m.read_scalar(i.operands[0], "u32"), i.operands[1].bits << 12
    return _change(m, lambda m0: m0 & ~0xF0FF | index() & np.int64(255) | ports, True)


def _off(m: Machine, i: Instruction) -> Control:
    return _change(m, lambda m0: m0, False)


def _set_ports(m: Machine, i: Instruction) -> Control:
    ports = (i.operands[0].bits & 15) << 12
    return _change(m, lambda m0: m0 & ~0xF000 | ports, None)


def _set_index(m: Machine, i: Instruction) -> Control:
    index = m.read_scalar(i.operands[0], "u32")
    return _change(m, lambda m0: m0 & ~0xFF | index() & np.int64(255), None)


def indexed(i: Instruction, mode: int) -> Instruction:
    """Return an instruction with the registers that it means in a mode.

    Raises
    ------
    UnsupportedError
        For an instruction with vector registers that is not plain arithmetic, and for one that
        changes M0, while registers are indexed.
    """
    if not mode & _ENABLED or i.mnemonic in BUILDERS:
        return i
    if any(o.file == "s" and o.index == M0 for o in i.operands[:1]):
        raise UnsupportedError("M0 is written while vector registers are indexed")
    if not any(o.file in ("v", "a") for o in i.operands):
        return i
    if i.encoding not in _ENCODINGS or any(word in i.mnemonic for word in _OTHERS):
        raise UnsupportedError("indexed vector registers")
    ports, index = mode >> _PORTS & 15, mode >> _INDEX

    def moved(o: Operand, port: int) -> Operand:
        return replace(o, index=o.index + index) if o.file == "v" and ports >> port & 1 else o

    destination, *sources = i.operands
    operands = (
        moved(destination, _DESTINATION),
        *(moved(source, port) for port, source in enumerate(sources)),
    )
    return replace(i, operands=operands)


BUILDERS: dict[str, Builder] = {
    "s_set_gpr_idx_on": _on,
    "s_set_gpr_idx_off": _off,
    "s_set_gpr_idx_mode": _set_ports,
    "s_set_gpr_idx_idx": _set_index,
}
