# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Device memory and scratch: global_*, flat_*, scratch_*, buffer_*; atomics, loads into LDS."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .accesses import LOADS, STORES, Shape
from .atomics import apply
from .errors import EmulationError, UnsupportedError
from .formats import Array, Bools
from .instruction import Instruction, Operand
from .races import ATOMIC, WRITE
from .state import LANES, M0, allow, join
from .steps import Builder, Machine, Memory
from .waits import LGKM, VM

__all__ = ["BUILDERS", "SCRATCH_DESCRIPTOR"]

U32, I64 = np.uint32, np.int64
SCRATCH_DESCRIPTOR = 0x5C7A7C40  # made-up word 3 of the buffer descriptor for scratch
_SWIZZLED = 1 << 31  # of word 1: elements of several lanes are interleaved
_CACHE = {"glc", "slc", "sc0", "sc1", "nt", "scc"}  # coherence and caching change no result here
_LDS_REACH = 0xFFFF  # the bits of m0 that are an LDS address


def _number(i: Instruction, name: str) -> int:
    return int(i.modifiers.get(name, 0))  # type: ignore[arg-type]


def _is_off(operand: Operand) -> bool:
    return operand.file == "special" and operand.name == "off"


def _scratch(m: Machine, offset: Array, size: int) -> Array:
    """Return offsets into the scratch of all lanes."""
    if m.mask is not None:
        offset = np.where(m.mask, offset, 0)
    low, high = int(offset.min()), int(offset.max())
    if low < 0 or high + size > m.scratch_size:
        raise EmulationError(
            f"scratch access of {size} bytes at {high:#x} is beyond its {m.scratch_size:#x} bytes"
        )
    at: Array = m.scratch_base + offset
    return at


# ---- addresses -----------------------------------------------------------------------------------


def _flat_address(
    m: Machine, i: Instruction, at: int, saddr: Operand | None
) -> Callable[[], Array]:
    """Return the reader of byte addresses (scratch: of offsets)."""
    offset, vaddr = _number(i, "offset"), i.operands[at]
    scratch = i.mnemonic.startswith("scratch")
    scalar = (
        None
        if saddr is None or _is_off(saddr)
        else m.read_scalar(saddr, "i32" if scratch else "i64")
    )
    vector = None
    if not _is_off(vaddr):
        vector = m.read(vaddr, "i32" if scratch else "i64" if scalar is None else "u32")

    def read() -> Array:
        total = np.full((1, 1), offset, I64)
        if vector is not None:
            total = total + vector()
        if scalar is not None:
            total = total + scalar().astype(I64)[:, None]
        return np.array(m.full(total))

    return read


class _Buffer:
    """The address of a raw buffer access, with the descriptor's range check."""

    def __init__(self, m: Machine, i: Instruction, first: int) -> None:
        self.m, vaddr, self.resource = m, i.operands[first], i.operands[first + 1]
        if i.modifiers.get("idxen") or i.modifiers.get("addr64"):
            raise UnsupportedError("indexed buffers")
        self.offset = U32(_number(i, "offset"))
        self.lanes = m.read(vaddr, "u32") if i.modifiers.get("offen") else None
        self.scalar = m.read_scalar(i.operands[first + 2], "u32")
        self.words = [m.register(self.resource, k) for k in range(4)]

    def offsets(self) -> Array:
        """Offsets without the scalar one; this sum wraps at 32 bits."""
        base = np.zeros((1, 1), U32) if self.lanes is None else self.lanes()
        return self.m.full(base + self.offset).astype(I64)

    def scalars(self) -> Array:
        return np.broadcast_to(self.scalar(), (self.m.count,)).astype(I64)[:, None]

    def is_scratch(self) -> bool:
        return bool((self.words[3][self.m.active] == U32(SCRATCH_DESCRIPTOR)).all())

    def global_address(self) -> tuple[Array, Array]:
        """Return addresses and offsets that the descriptor's size bounds."""
        active = self.m.active
        if (self.words[1][active] & U32(_SWIZZLED)).any():
            raise UnsupportedError("a swizzled buffer")
        at = self.offsets() + self.scalars()
        base = self.words[0].astype(I64) | ((self.words[1] & U32(0xFFFF)).astype(I64) << 32)
        return base[:, None] + at, at

    def inside(self, at: Array, end: int) -> Bools | None:
        """Return the active lanes within the buffer for bytes up to `end`; None for all lanes."""
        m = self.m
        ok = at + end <= self.words[2].astype(I64)[:, None]
        on = ok if m.mask is None else ok & m.mask
        return None if on.all() else on


# ---- loads and stores ----------------------------------------------------------------------------


def _load_flat(m: Machine, i: Instruction) -> Memory:
    allow(i, _CACHE | {"offset", "lds"})
    family, name = i.mnemonic.split("_load_")
    to_lds = name.startswith("lds_") or bool(i.modifiers.get("lds"))
    shape = LOADS[name.removeprefix("lds_")]
    first = 0 if to_lds else 1
    saddr = i.operands[first + 1] if len(i.operands) > first + 1 else None
    address = _flat_address(m, i, first, saddr)
    counters = (VM, LGKM) if family == "flat" else (VM,)
    if to_lds:
        if family != "global":
            raise UnsupportedError("this load into LDS")
        return _into_lds(m, i, shape, lambda: m.load_global(address(), shape.size, m.mask))
    targets = m.vector_words(i.operands[0], shape.words)

    def run() -> None:
        if family == "scratch":
            words = m.scratch.load(_scratch(m, address(), shape.size), shape.size)
        else:
            words = m.load_global(address(), shape.size, m.mask)
        for target, word in zip(targets, words, strict=True):
            m.put(target, shape.loaded(word, target))

    return Memory(run, counters, loads=True, ordered=family != "flat")


def _store_flat(m: Machine, i: Instruction) -> Memory:
    allow(i, _CACHE | {"offset"})
    family, name = i.mnemonic.split("_store_")
    shape = STORES[name]
    address = _flat_address(m, i, 0, i.operands[2] if len(i.operands) > 2 else None)
    data = m.vector_words(i.operands[1], shape.words)
    counters = (VM, LGKM) if family == "flat" else (VM,)

    def run() -> None:
        words = [shape.stored(x) for x in data]
        if family == "scratch":
            _store_scratch(m, address(), shape.size, words)
        else:
            m.store_global(address(), shape.size, words, m.mask)

    return Memory(run, counters, loads=False, ordered=family != "flat")


def _store_scratch(m: Machine, offset: Array, size: int, words: list[Array]) -> None:
    at, mask = _scratch(m, offset, size), m.mask
    m.scratch.store(
        at if mask is None else at[mask], size, words if mask is None else [x[mask] for x in words]
    )


def _load_buffer(m: Machine, i: Instruction) -> Memory:
    allow(i, _CACHE | {"offset", "offen", "lds"})
    name = i.mnemonic.removeprefix("buffer_load_")
    to_lds = bool(i.modifiers.get("lds")) or name.startswith("lds_")
    shape = LOADS[name.removeprefix("lds_")]
    buffer = _Buffer(m, i, 0 if to_lds else 1)

    def words() -> list[Array]:
        address, at = buffer.global_address()
        on = buffer.inside(at, shape.size)
        if on is None or shape.words == 1 or (m.mask is not None and bool((on == m.mask).all())):
            return m.load_global(address, shape.size, on)
        # The range is checked for each word: a load may be partly inside.
        return [
            m.load_global(address + 4 * k, 4, buffer.inside(at, 4 * k + 4))[0]
            for k in range(shape.words)
        ]

    if to_lds:
        return _into_lds(m, i, shape, words)
    targets = m.vector_words(i.operands[0], shape.words)

    def run() -> None:
        if m.scratch_size and buffer.is_scratch():
            at = _scratch(m, buffer.offsets() + (buffer.scalars() >> 6), shape.size)
            loaded = m.scratch.load(at, shape.size)
        else:
            loaded = words()
        for target, word in zip(targets, loaded, strict=True):
            m.put(target, shape.loaded(word, target))

    return Memory(run, (VM,), loads=True)


def _store_buffer(m: Machine, i: Instruction) -> Memory:
    allow(i, _CACHE | {"offset", "offen"})
    shape = STORES[i.mnemonic.removeprefix("buffer_store_")]
    buffer, data = _Buffer(m, i, 1), m.vector_words(i.operands[0], shape.words)

    def run() -> None:
        words = [shape.stored(x) for x in data]
        if m.scratch_size and buffer.is_scratch():
            _store_scratch(m, buffer.offsets() + (buffer.scalars() >> 6), shape.size, words)
            return
        address, at = buffer.global_address()
        on = buffer.inside(at, shape.size)
        if on is None or shape.words == 1 or (m.mask is not None and bool((on == m.mask).all())):
            m.store_global(address, shape.size, words, on)
            return
        for k, word in enumerate(words):
            m.store_global(address + 4 * k, 4, [word], buffer.inside(at, 4 * k + 4))

    return Memory(run, (VM,), loads=False)


def _into_lds(m: Machine, i: Instruction, shape: Shape, words: Callable[[], list[Array]]) -> Memory:
    """Loads that go to LDS without a register: at m0 plus the offset, lane after lane."""
    offset, size = _number(i, "offset"), 4 * shape.words

    def run() -> None:
        values = words()
        base = (m.s[M0] & U32(_LDS_REACH)).astype(I64)[:, None]
        at, mask = m.lds_access(base + (offset + LANES * size), size, WRITE), m.mask
        m.lds.store(
            at if mask is None else at[mask],
            size,
            values if mask is None else [x[mask] for x in values],
        )
        m.note_dma(at, size)

    return Memory(run, (VM,), loads=False)


# ---- atomics -------------------------------------------------------------------------------------

_INTEGER = [
    "swap",
    "cmpswap",
    "add",
    "sub",
    "smin",
    "smax",
    "umin",
    "umax",
    "and",
    "or",
    "xor",
    "inc",
    "dec",
]
_ATOMICS = {n + x: (n, s) for n in _INTEGER for x, s in (("", 4), ("_x2", 8))}
_ATOMICS |= {
    "add_f32": ("add_f", 4),
    "add_f64": ("add_f", 8),
    "min_f64": ("min_f", 8),
    "max_f64": ("max_f", 8),
    "pk_add_f16": ("pk_add_f16", 4),
    "pk_add_bf16": ("pk_add_bf16", 4),
}


def _atomic(m: Machine, i: Instruction) -> Memory:
    allow(i, _CACHE | {"offset", "offen"})
    family, which = i.mnemonic.split("_atomic_")
    name, size = _ATOMICS[which]
    words = size // 4
    returns = bool(i.modifiers.get("glc") or i.modifiers.get("sc0"))
    buffer: _Buffer | None = None
    if family == "buffer":
        buffer, data = _Buffer(m, i, 1), i.operands[0]
        address = buffer.offsets
    else:
        first = int(returns)
        data = i.operands[first + 1]
        address = _flat_address(
            m, i, first, i.operands[first + 2] if len(i.operands) > first + 2 else None
        )
    values = m.vector_words(data, words * (2 if name == "cmpswap" else 1))
    targets = m.vector_words(i.operands[0], words) if returns else []

    def run() -> None:
        on: Bools | None = m.mask
        if buffer is not None:
            where, offsets = buffer.global_address()
            on = buffer.inside(offsets, size)
        else:
            where = address()
        at = m.global_access(where, size, ATOMIC, on).ravel()
        if (at % size).any():
            raise EmulationError("atomic at an address that is not aligned")
        lanes = np.ones((m.count, 64), bool) if on is None else on
        flat = [x[lanes] for x in values]
        if words == 2:
            flat = [join(flat[2 * k], flat[2 * k + 1]) for k in range(len(flat) // 2)]
        old = apply(m.memory.space, at, size, name, flat)
        for k, target in enumerate(targets):
            if on is not None and m.mask is not on:
                m.put(target, U32(0))  # beyond the buffer
            target[lanes] = (old >> old.dtype.type(32 * k)).astype(U32)

    return Memory(
        run, (VM, LGKM) if family == "flat" else (VM,), loads=returns, ordered=family != "flat"
    )


_LOADED = [
    k for k in LOADS if k.startswith(("dword", "ubyte", "sbyte", "ushort", "sshort", "short_d16"))
]
_LOADED = [k for k in _LOADED if not k.startswith(("ushort_", "sshort_"))]
_STORED = [k for k in STORES if k.startswith(("dword", "byte", "short"))]
_TO_LDS = ("dword", "ubyte", "sbyte", "ushort", "sshort", "dwordx3", "dwordx4")
_FLAT = ("global", "flat", "scratch")
BUILDERS: dict[str, Builder] = {
    **{f"{f}_load_{k}": _load_flat for f in _FLAT for k in _LOADED},
    **{f"{f}_store_{k}": _store_flat for f in _FLAT for k in _STORED},
    **{f"global_load_lds_{k}": _load_flat for k in _TO_LDS},
    **{f"buffer_load_{k}": _load_buffer for k in _LOADED},
    **{f"buffer_store_{k}": _store_buffer for k in _STORED},
    **{f"{f}_atomic_{k}": _atomic for f in ("global", "flat", "buffer") for k in _ATOMICS},
}
