# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Vector ALU instructions that map lanes: operands with modifiers, and the rows of `alu.OPS`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .alu import KEEPS_HIGH, OPS, SATURATING
from .errors import UnsupportedError
from .floats import clamp
from .formats import DTYPES, Array, Bools, flush, size_of
from .instruction import Instruction, Operand
from .state import LANES, Reader, Waves, Writer, allow, signed
from .steps import Builder, Machine, Plain

__all__ = ["BUILDERS", "DPP_CONTROLS", "VECTOR_MODIFIERS", "destination", "source", "sources"]

DPP_CONTROLS = frozenset(
    (
        "quad_perm",
        "row_shl",
        "row_shr",
        "row_ror",
        "wave_shl",
        "wave_rol",
        "wave_shr",
        "wave_ror",
        "row_mirror",
        "row_half_mirror",
        "row_bcast",
        "row_newbcast",
    )
)
_DPP = DPP_CONTROLS | {"row_mask", "bank_mask", "bound_ctrl"}
_SDWA = frozenset(("dst_sel", "dst_unused", "src0_sel", "src1_sel"))
VECTOR_MODIFIERS = _DPP | _SDWA | {"clamp", "omod", "op_sel"}
_PARTS = {
    "BYTE_0": (1, 0),
    "BYTE_1": (1, 1),
    "BYTE_2": (1, 2),
    "BYTE_3": (1, 3),
    "WORD_0": (2, 0),
    "WORD_1": (2, 1),
}
_OMOD = {1: 2.0, 2: 4.0, 3: 0.5}


def op_sel(i: Instruction, at: int) -> int:
    """Return one bit of op_sel; the destination's comes after those of the sources."""
    bits = i.modifiers.get("op_sel", ())
    return int(bits[at]) if isinstance(bits, tuple) and at < len(bits) else 0


def dpp_lanes(i: Instruction) -> tuple[Array, Bools, Bools, bool]:
    """Return source lanes, whether there is one, lanes that the masks enable, and bound_ctrl."""
    control = next((k for k in i.modifiers if k in DPP_CONTROLS), "")
    value: Any = i.modifiers.get(control, 0)
    valid = np.ones(64, bool)
    row, n = LANES & ~15, value if isinstance(value, int) else 0
    if control == "quad_perm":
        lanes = (LANES & ~3) | np.array(value)[LANES & 3]
    elif control in ("row_shl", "row_shr"):
        lanes = LANES + (n if control == "row_shl" else -n)
        valid = (lanes & ~15) == row
    elif control in ("wave_shl", "wave_shr"):
        lanes = LANES + (1 if control == "wave_shl" else -1)
        valid = (lanes >= 0) & (lanes < 64)
    elif control in ("wave_rol", "wave_ror"):
        lanes = (LANES + (1 if control == "wave_rol" else -1)) & 63
    elif control == "row_ror":
        lanes = row | ((LANES - n) & 15)
    elif control == "row_mirror":
        lanes = row | (15 - (LANES & 15))
    elif control == "row_half_mirror":
        lanes = (LANES & ~7) | (7 - (LANES & 7))
    elif control == "row_newbcast":
        lanes = row | n
    elif control == "row_bcast":
        lanes = np.where(n == 15, row - 1, 31) + 0 * LANES
        valid = (16 if n == 15 else 32) <= LANES
    else:
        raise UnsupportedError("no known DPP control")
    rows, banks = int(i.modifiers.get("row_mask", 15)), int(i.modifiers.get("bank_mask", 15))  # type: ignore[arg-type]
    enabled = ((rows >> (LANES >> 4)) & (banks >> (LANES >> 2 & 3)) & 1).astype(bool)
    return np.where(valid, lanes, LANES), valid, enabled, bool(i.modifiers.get("bound_ctrl", 0))


def _selected(m: Waves, operand: Operand, kind: str, size: int, at: int) -> Reader:
    """Read part of a register, extended to the type."""
    plain = Operand(operand.file, operand.index, 1, operand.bits, operand.name, kind=operand.kind)
    raw = m.read(plain, "u32", keep=True)
    shift, field = np.uint32(8 * size * at), np.uint32((1 << 8 * size) - 1)
    top = np.uint32(1 << (8 * size - 1))
    dtype, unsigned, extend = DTYPES[kind], np.dtype(f"u{size_of(kind)}"), operand.sext

    def read() -> Array:
        x = (raw() >> shift) & field
        if extend:
            x = (x ^ top) - top
        return x.astype(unsigned).view(dtype)

    return signed(read, operand, kind)


def source(m: Waves, i: Instruction, operand: Operand, j: int, kind: str) -> Reader:
    """Return the reader of source `j` with its SDWA or op_sel selection and its DPP lanes."""
    select = str(i.modifiers.get(f"src{j}_sel", "DWORD")) if i.encoding == "sdwa" else "DWORD"
    size = size_of(kind)
    if select != "DWORD" or operand.sext:
        part = _PARTS.get(select)
        if part is None:
            raise UnsupportedError("sign extension of a whole register")
        read = _selected(m, operand, kind, *part)
        if m.denormals(kind)[0] and part[0] == size:
            whole = read
            read = lambda: flush(whole())  # noqa: E731
    elif size == 2 and op_sel(i, j):
        if operand.file == "const":
            raise UnsupportedError("the upper half of a constant")
        read = _selected(m, operand, kind, 2, 1)
    elif size == 1:
        read = _selected(m, operand, kind, 1, 0)
    else:
        read = m.read(operand, kind)
    if i.encoding != "dpp" or j:
        return read
    lanes, valid, _, _ = dpp_lanes(i)

    def moved() -> Array:
        x = m.full(read())[:, lanes]
        on = valid if m.mask is None else m.mask[:, lanes] & valid
        return np.where(on, x, x.dtype.type(0))

    return moved


def sources(m: Waves, i: Instruction, kinds: tuple[str, ...], first: int = 1) -> list[Reader]:
    """Return the readers of the operands from number `first` on."""
    operands = i.operands[first:]
    if len(operands) < len(kinds):
        raise UnsupportedError(f"{len(operands)} sources where {len(kinds)} are expected")
    return [source(m, i, o, j, k) for j, (o, k) in enumerate(zip(operands, kinds, strict=False))]


def destination(
    m: Waves, i: Instruction, kind: str, *, keeps: bool = False, high: bool = False
) -> Writer:
    """Return the writer of a vector result: scaled, clamped, flushed, placed, and masked by DPP.

    Parameters
    ----------
    keeps : bool
        A 16-bit result leaves the other half of the register alone.
    high : bool
        It goes to the upper half.
    """
    operand, mods = i.operands[0], i.modifiers
    floating, size = kind[0] == "f", size_of(kind)
    scale = _OMOD.get(int(mods.get("omod", 0)))  # type: ignore[arg-type]
    clamps = bool(mods.get("clamp")) and i.mnemonic not in SATURATING
    if (scale or clamps) and not floating:
        raise UnsupportedError("clamp or omod on an integer result")
    flushes, nan_is_zero = m.denormals(kind)[1], bool(m.mode >> 8 & 1)
    place = _place(m, i, operand, kind, keeps, high)
    enabled: Bools | None = None
    lanes = valid = None
    if i.encoding == "dpp":
        lanes, valid, enabled, zero = dpp_lanes(i)
        if zero:
            lanes = None
    dtype = DTYPES[kind]

    def write(x: Array) -> None:
        if scale:
            x = x * dtype(scale)
        if clamps:
            x = clamp(x, nan_is_zero)
        if flushes:
            x = flush(np.ascontiguousarray(x))
        extra = enabled
        if lanes is not None:  # without bound_ctrl a lane without a source is not written
            assert valid is not None
            assert enabled is not None
            extra = enabled & valid if m.mask is None else enabled & valid & m.mask[:, lanes]
        place(x, extra)

    if scale or clamps or flushes or enabled is not None or size < 4 or i.encoding == "sdwa":
        return write
    return m.write(operand, kind)


def _place(m: Waves, i: Instruction, operand: Operand, kind: str, keeps: bool, high: bool) -> Any:
    """Return the function that puts bits into (part of) the register."""
    if operand.file not in ("v", "a"):
        raise UnsupportedError(f"vector destination {operand.name or operand.file}")
    low, size, count = m.register(operand), size_of(kind), m.count
    if size == 8:
        upper = m.register(operand, 1)

        def pair(x: Array, extra: Array | None) -> None:
            words = np.ascontiguousarray(m.full(x))[..., None].view(np.uint32)
            m.put(low, words[..., 0], extra)
            m.put(upper, words[..., 1], extra)

        return pair
    select = str(i.modifiers.get("dst_sel", "DWORD")) if i.encoding == "sdwa" else "DWORD"
    unused = i.modifiers.get("dst_unused", "UNUSED_PAD")
    if select == "DWORD" and (keeps or high) and size == 2:
        select, unused = ("WORD_1" if high else "WORD_0"), "UNUSED_PRESERVE"
    unsigned = np.dtype(f"u{size}")
    if select == "DWORD":
        return lambda x, extra: m.put(low, x.view(unsigned), extra)
    width, at = _PARTS[select]
    part = low.view(np.dtype(f"u{width}")).reshape(count, 64, 4 // width)[..., at]
    narrow = np.dtype(f"u{width}")
    if unused == "UNUSED_PRESERVE":
        return lambda x, extra: m.put(part, x.view(unsigned).astype(narrow), extra)
    shift, extend = np.uint32(8 * width * at), unused == "UNUSED_SEXT"

    def padded(x: Array, extra: Array | None) -> None:
        bits = x.view(unsigned).astype(narrow)
        wide = (
            bits.view(f"i{width}").astype(np.int32).view(np.uint32)
            if extend
            else bits.astype(np.uint32)
        )
        m.put(low, wide << shift, extra)

    return padded


def _lanewise(m: Machine, i: Instruction) -> Plain:
    """An instruction of the table."""
    allow(i, VECTOR_MODIFIERS)
    op = OPS[i.mnemonic]
    fn: Callable[..., Array] = op.fn
    if i.modifiers.get("clamp"):
        fn = SATURATING.get(i.mnemonic, fn)
    read = sources(m, i, op.sources)
    high = size_of(op.result) == 2 and bool(op_sel(i, len(op.sources)))
    write = destination(m, i, op.result, keeps=i.mnemonic in KEEPS_HIGH or high, high=high)
    if len(read) == 1:
        (one,) = read
        return Plain(lambda: write(fn(one())))
    if len(read) == 2:
        left, right = read
        return Plain(lambda: write(fn(left(), right())))
    a, b, c = read
    return Plain(lambda: write(fn(a(), b(), c())))


BUILDERS: dict[str, Builder] = dict.fromkeys(OPS, _lanewise)
