# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scalar memory: loads into scalar registers, and the clocks."""

from __future__ import annotations

import numpy as np

from .errors import UnsupportedError
from .formats import Array
from .instruction import Instruction
from .state import allow
from .steps import Builder, Machine, Memory
from .waits import LGKM

__all__ = ["BUILDERS"]

_WORDS = {f"s_load_dword{f'x{n}' if n > 1 else ''}": n for n in (1, 2, 4, 8, 16)}
_WORDS |= {f"s_buffer_load_dword{f'x{n}' if n > 1 else ''}": n for n in (1, 2, 4, 8, 16)}


def _load(m: Machine, i: Instruction) -> Memory:
    allow(i, {"offset", "glc"})
    words = _WORDS[i.mnemonic]
    destination, base, offset = i.operands[0], i.operands[1], i.operands[2]
    buffer = i.mnemonic.startswith("s_buffer")
    start = m.read_scalar(base, "i64")
    descriptor = [m.register(base, k) for k in range(4)] if buffer else []
    move = m.read_scalar(offset, "i32" if offset.file == "const" else "u32")
    more = int(i.modifiers.get("offset", 0))  # type: ignore[arg-type]
    targets = [m.register(destination, k) for k in range(words)]
    if destination.file != "s":
        raise UnsupportedError("scalar load into a vector register")

    def run() -> None:
        relative = move().astype(np.int64) + more
        address = start() + relative
        if buffer:
            address = (start() & 0xFFFFFFFFFFFF) + relative
            if ((relative + 4 * words > descriptor[2]) | (descriptor[1] >> np.uint32(16) != 0))[
                m.active
            ].any():
                raise UnsupportedError("scalar buffer load out of range, or with a stride")
        address = np.broadcast_to(address & ~np.int64(3), (m.count,))
        on: Array = address if m.all_active else address[m.active]
        at = m.memory.check(on, 4 * words, write=False)
        for target, word in zip(
            targets, [m.memory.space.u32[(at >> 2) + k] for k in range(words)], strict=True
        ):
            if m.all_active:
                target[:] = word
            else:
                target[m.active] = word
        m.refresh()

    return Memory(run, (LGKM,), loads=True, ordered=False)


def _clock(m: Machine, i: Instruction) -> Memory:
    """s_memtime and s_memrealtime: a count that only grows."""
    low, high = m.register(i.operands[0]), m.register(i.operands[0], 1)
    count = 0

    def run() -> None:
        nonlocal count
        count += 1000
        m.put_waves(low, np.uint32(count & 0xFFFFFFFF))
        m.put_waves(high, np.uint32(count >> 32))

    return Memory(run, (LGKM,), loads=True, ordered=False)


BUILDERS: dict[str, Builder] = {
    **dict.fromkeys(_WORDS, _load),
    "s_memtime": _clock,
    "s_memrealtime": _clock,
}
