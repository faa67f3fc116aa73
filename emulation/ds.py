# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""LDS: ds_read, ds_write, atomics, and the exchanges between lanes that pass through it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .accesses import LOADS, STORES
from .atomics import apply
from .errors import EmulationError
from .formats import Array
from .instruction import Instruction
from .races import ATOMIC, READ, WRITE
from .state import LANES, allow, join
from .steps import Builder, Machine, Memory
from .waits import LGKM

__all__ = ["BUILDERS", "swizzle_lanes"]

U32, I64 = np.uint32, np.int64


def _number(i: Instruction, name: str) -> int:
    return int(i.modifiers.get(name, 0))  # type: ignore[arg-type]


def _address(m: Machine, i: Instruction, at: int, offset: int) -> Callable[[], Array]:
    """Return the reader of byte addresses; the sum wraps at 32 bits."""
    base, more = m.read(i.operands[at], "u32"), U32(offset)
    return lambda: m.full(base() + more).astype(I64)


def _read(m: Machine, i: Instruction) -> Memory:
    allow(i, {"offset"})
    shape = LOADS[i.mnemonic.removeprefix("ds_read_")]
    address = _address(m, i, 1, _number(i, "offset"))
    targets = m.vector_words(i.operands[0], shape.words)

    def run() -> None:
        at = m.lds_access(address(), shape.size, READ)
        for target, word in zip(targets, m.lds.load(at, shape.size), strict=True):
            m.put(target, shape.loaded(word, target))

    return Memory(run, (LGKM,), loads=True)


def _write(m: Machine, i: Instruction) -> Memory:
    allow(i, {"offset"})
    shape = STORES[i.mnemonic.removeprefix("ds_write_")]
    address = _address(m, i, 0, _number(i, "offset"))
    data = m.vector_words(i.operands[1], shape.words)

    def run() -> None:
        _store(m, address(), shape.size, [shape.stored(x) for x in data])

    return Memory(run, (LGKM,), loads=False)


def _store(m: Machine, address: Array, size: int, words: list[Array]) -> None:
    at, mask = m.lds_access(address, size, WRITE, words), m.mask
    if mask is None:
        m.lds.store(at, size, words)
    else:
        m.lds.store(at[mask], size, [x[mask] for x in words])


def _two(m: Machine, i: Instruction) -> Memory:
    """ds_read2, ds_write2: two elements; with "st64" offsets count 64 of them."""
    allow(i, {"offset0", "offset1"})
    size = 8 if i.mnemonic.endswith("b64") else 4
    unit = size * (64 if "st64" in i.mnemonic else 1)
    offsets = [unit * _number(i, name) for name in ("offset0", "offset1")]
    if "read" in i.mnemonic:
        addresses = [_address(m, i, 1, x) for x in offsets]
        targets = m.vector_words(i.operands[0], size // 2)

        def load() -> None:
            places = [
                m.lds_access(a(), size, READ) for a in addresses
            ]  # the result may overlap the address
            words = [w for at in places for w in m.lds.load(at, size)]
            for target, word in zip(targets, words, strict=True):
                m.put(target, word)

        return Memory(load, (LGKM,), loads=True)
    addresses = [_address(m, i, 0, x) for x in offsets]
    data = [m.vector_words(i.operands[1 + k], size // 4) for k in (0, 1)]

    def store() -> None:
        for address, words in zip(addresses, data, strict=True):
            _store(m, address(), size, list(words))

    return Memory(store, (LGKM,), loads=False)


def _transposed(m: Machine, i: Instruction) -> Memory:
    """ds_read_b64_tr (gfx950): 16 lanes load a tile and receive it transposed."""
    allow(i, {"offset"})
    size = int(i.mnemonic.rsplit("_b", 1)[1]) // 8
    address, targets = _address(m, i, 1, _number(i, "offset")), m.vector_words(i.operands[0], 2)
    per = 8 // size

    def run() -> None:
        at = m.lds_access(address(), 8, READ)
        x = np.stack(m.lds.load(at, 8), axis=-1).view(np.dtype(f"u{size}"))
        tiles = x.reshape(m.count, 4, per, 16 // per, per).transpose(0, 1, 3, 4, 2)
        out = np.ascontiguousarray(tiles).reshape(m.count, 64, per).view(U32)
        for k, target in enumerate(targets):
            m.put(target, out[..., k])

    return Memory(run, (LGKM,), loads=True)


# ---- exchanges -----------------------------------------------------------------------------------


def swizzle_lanes(offset: int) -> Array:
    """Return the lane that each lane reads in ds_swizzle."""
    if offset & 0x8000:
        quad = np.array([(offset >> (2 * k)) & 3 for k in range(4)])
        return (LANES & ~3) | quad[LANES & 3]
    low = (((LANES & 31) & (offset & 31)) | (offset >> 5 & 31)) ^ (offset >> 10 & 31)
    return (LANES & 32) | low


def _enabled(m: Machine, data: Array) -> Array:
    """Lanes that are off give 0."""
    return m.full(data) if m.mask is None else np.where(m.mask, data, U32(0))


def _swizzle(m: Machine, i: Instruction) -> Memory:
    allow(i, {"offset"})
    lanes = swizzle_lanes(_number(i, "offset"))
    data, write = m.read(i.operands[1], "u32"), m.write(i.operands[0], "u32")
    return Memory(lambda: write(_enabled(m, data())[:, lanes]), (LGKM,), loads=True)


def _permute(m: Machine, i: Instruction) -> Memory:
    """ds_permute pushes to a lane, ds_bpermute pulls from one; addresses are lanes times 4."""
    allow(i, {"offset"})
    address, data = _address(m, i, 1, _number(i, "offset")), m.read(i.operands[2], "u32")
    write, push = m.write(i.operands[0], "u32"), i.mnemonic == "ds_permute_b32"

    def run() -> None:
        lane = (address() >> 2) & 63
        if not push:
            write(np.take_along_axis(_enabled(m, data()), lane, 1))
            return
        out = np.zeros((m.count, 64), U32)
        rows = np.broadcast_to(m.index[:, None], lane.shape)
        on = np.ones(lane.shape, bool) if m.mask is None else m.mask
        out[rows[on], lane[on]] = m.full(data())[on]
        write(out)

    return Memory(run, (LGKM,), loads=True)


# ---- atomics -------------------------------------------------------------------------------------

_NAMES = {
    "add_u": "add",
    "sub_u": "sub",
    "rsub_u": "rsub",
    "inc_u": "inc",
    "dec_u": "dec",
    "min_i": "smin",
    "max_i": "smax",
    "min_u": "umin",
    "max_u": "umax",
    "and_b": "and",
    "or_b": "or",
    "xor_b": "xor",
    "wrxchg_b": "swap",
    "cmpst_b": "cmpswap",
    "add_f": "add_f",
    "min_f": "min_f",
    "max_f": "max_f",
}


def _spell(name: str, returns: bool, bits: int) -> str:
    stem, kind = name.rsplit("_", 1)
    return f"ds_{stem}{'_rtn' if returns else ''}_{kind}{bits}"


_ATOMICS = {
    _spell(n, r, b): (op, r, b // 8)
    for n, op in _NAMES.items()
    for r in (False, True)
    for b in (32, 64)
    if n != "wrxchg_b" or r
}
_ATOMICS |= {
    f"ds_pk_add{r}_{t}": (f"pk_add_{t}", bool(r), 4) for r in ("", "_rtn") for t in ("f16", "bf16")
}


def _atomic(m: Machine, i: Instruction) -> Memory:
    allow(i, {"offset"})
    name, returns, size = _ATOMICS[i.mnemonic]
    first = int(returns)
    address = _address(m, i, first, _number(i, "offset"))
    words = size // 4
    data = [m.vector_words(o, words) for o in i.operands[first + 1 :]]
    if name == "cmpswap":
        data = [data[1], data[0]]  # the comparand comes first
    targets = m.vector_words(i.operands[0], words) if returns else []

    def run() -> None:
        where = address()
        on = np.ones((m.count, 64), bool) if m.mask is None else m.mask
        if (where[on] % size).any():
            raise EmulationError("LDS atomic at an address that is not aligned")
        at = m.lds_access(where, size, ATOMIC)
        values = [(d[0] if words == 1 else join(d[0], d[1]))[on] for d in data]
        old = apply(m.lds, at[on], size, name, values)
        for k, target in enumerate(targets):
            target[on] = (old >> old.dtype.type(32 * k)).astype(U32)

    return Memory(run, (LGKM,), loads=returns)


BUILDERS: dict[str, Builder] = {
    **{
        f"ds_read_{k}": _read
        for k in LOADS
        if not k.startswith(("dword", "ubyte", "sbyte", "ushort", "s", "i16_"))
    },
    **{f"ds_write_{k}": _write for k in STORES if k[0] == "b" and not k.startswith("byte")},
    **{
        f"ds_{k}{st}_{b}": _two
        for k in ("read2", "write2")
        for st in ("", "st64")
        for b in ("b32", "b64")
    },
    **dict.fromkeys(("ds_read_b64_tr_b16", "ds_read_b64_tr_b8"), _transposed),
    "ds_swizzle_b32": _swizzle,
    **dict.fromkeys(("ds_permute_b32", "ds_bpermute_b32"), _permute),
    **dict.fromkeys(_ATOMICS, _atomic),
    "ds_nop": lambda m, i: Memory(lambda: None, (LGKM,), loads=False),
}
