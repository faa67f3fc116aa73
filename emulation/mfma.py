# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matrix instructions, v_mfma_* and v_smfmac_*: operands become matrices and are multiplied.

Products of narrow types are summed in single precision in NumPy's order, not in the hardware's,
which is not documented.  Integers and doubles are exact, and summed in order, respectively.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from .alu import fp8_types
from .errors import UnsupportedError
from .formats import Array, constant, flush, from_bf16, from_f16
from .instruction import Instruction, Operand
from .state import allow
from .steps import Builder, Machine, Plain

__all__ = ["BUILDERS", "SHAPES", "SPARSE_SHAPES"]

F32, F64 = np.float32, np.float64
_PATTERN = re.compile(
    r"v_(?:mfma|smfmac)_(?:scale_)?(f32|i32|f64)_(\d+)x\2x(\d+)_?(?:\d+b_)?([a-z].*)$"
)
_BITS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64, "i8": 8, "fp8": 8, "bf8": 8}
_BITS |= {"fp6": 6, "bf6": 6, "fp4": 4}
_MIXED = ("fp8", "bf8", "fp6", "bf6", "fp4")  # of f8f6f4, by cbsz and blgp
_SMALL = {
    "fp6": ml_dtypes.float6_e2m3fn,
    "bf6": ml_dtypes.float6_e3m2fn,
    "fp4": ml_dtypes.float4_e2m1fn,
}
_ACCUMULATORS: dict[str, Any] = {"f32": F32, "i32": np.int32, "f64": F64}

# Size, depth and type of all that a target may have; the regular expression does the rest.
_NAMES = """
# gfx908, gfx90a
f32_32x32x1f32 f32_16x16x1f32 f32_4x4x1f32 f32_32x32x2f32 f32_16x16x4f32
f32_32x32x4f16 f32_16x16x4f16 f32_4x4x4f16 f32_32x32x8f16 f32_16x16x16f16
i32_32x32x4i8 i32_16x16x4i8 i32_4x4x4i8 i32_32x32x8i8 i32_16x16x16i8
f32_32x32x2bf16 f32_16x16x2bf16 f32_4x4x2bf16 f32_32x32x4bf16 f32_16x16x8bf16
f32_32x32x4bf16_1k f32_16x16x4bf16_1k f32_4x4x4bf16_1k f32_32x32x8bf16_1k f32_16x16x16bf16_1k
f64_16x16x4f64 f64_4x4x4f64
# gfx942, in the new spelling
f32_32x32x1_2b_f32 f32_16x16x1_4b_f32 f32_4x4x1_16b_f32 f32_32x32x2_f32 f32_16x16x4_f32
f32_32x32x4_2b_f16 f32_16x16x4_4b_f16 f32_4x4x4_16b_f16 f32_32x32x8_f16 f32_16x16x16_f16
f32_32x32x4_2b_bf16 f32_16x16x4_4b_bf16 f32_4x4x4_16b_bf16 f32_32x32x8_bf16 f32_16x16x16_bf16
i32_32x32x4_2b_i8 i32_16x16x4_4b_i8 i32_4x4x4_16b_i8 i32_32x32x16_i8 i32_16x16x32_i8
f64_16x16x4_f64 f64_4x4x4_4b_f64
f32_16x16x32_fp8_fp8 f32_16x16x32_fp8_bf8 f32_16x16x32_bf8_fp8 f32_16x16x32_bf8_bf8
f32_32x32x16_fp8_fp8 f32_32x32x16_fp8_bf8 f32_32x32x16_bf8_fp8 f32_32x32x16_bf8_bf8
# gfx950
f32_16x16x32_f16 f32_32x32x16_f16 f32_16x16x32_bf16 f32_32x32x16_bf16
i32_16x16x64_i8 i32_32x32x32_i8 f32_16x16x128_f8f6f4 f32_32x32x64_f8f6f4
"""
SHAPES = [name for line in _NAMES.splitlines() if line[:1] != "#" for name in line.split()]

# Size and depth of those whose A has two of four elements along k, by type.
_SPARSE = """
f32_16x16x32_f16 f32_32x32x16_f16 f32_16x16x32_bf16 f32_32x32x16_bf16
i32_16x16x64_i8 i32_32x32x32_i8
f32_16x16x64_fp8_fp8 f32_16x16x64_fp8_bf8 f32_16x16x64_bf8_fp8 f32_16x16x64_bf8_bf8
f32_32x32x32_fp8_fp8 f32_32x32x32_fp8_bf8 f32_32x32x32_bf8_fp8 f32_32x32x32_bf8_bf8
f32_16x16x64_f16 f32_32x32x32_f16 f32_16x16x64_bf16 f32_32x32x32_bf16
i32_16x16x128_i8 i32_32x32x64_i8
f32_16x16x128_fp8_fp8 f32_16x16x128_fp8_bf8 f32_16x16x128_bf8_fp8 f32_16x16x128_bf8_bf8
f32_32x32x64_fp8_fp8 f32_32x32x64_fp8_bf8 f32_32x32x64_bf8_fp8 f32_32x32x64_bf8_bf8
"""
SPARSE_SHAPES = _SPARSE.split()


def _decoder(target: str, kind: str) -> Callable[[Array], Array]:
    """Return the function from words ``(..., words)`` to the values that they hold."""
    if kind in ("fp8", "bf8"):
        types = fp8_types(target)
        if types is None:
            raise UnsupportedError(f"{kind} on {target}")
        of = types[kind]
        table = np.arange(256, dtype=np.uint8).view(of).astype(F32)
        return lambda x: table[x.view(np.uint8)]
    if kind in _SMALL:
        codes = np.arange(1 << _BITS[kind], dtype=np.uint8).view(_SMALL[kind]).astype(F32)
        return lambda x: codes[_codes(x, _BITS[kind])]
    # MI200 takes denormal halves and bfloat16 for zero in matrix products.
    flushes = target == "gfx90a"
    if kind == "f16":
        return lambda x: from_f16(flush(x.view(np.float16)) if flushes else x.view(np.float16))
    if kind == "bf16":
        return lambda x: (
            flush(from_bf16(x.view(np.uint16))) if flushes else from_bf16(x.view(np.uint16))
        )
    if kind == "f32":
        return lambda x: x.view(F32)
    if kind == "f64":
        return lambda x: x.view(F64)
    if kind == "i8":
        return lambda x: x.view(np.int8).astype(F32)  # sums of up to 1024 products are exact
    raise UnsupportedError(f"matrices of {kind}")


def _codes(words: Array, bits: int) -> Array:
    """Return the numbers of 4 or 6 bits that words ``(..., words)`` hold, the lowest first."""
    count = {4: 1, 6: 3}[bits]  # bytes that hold an integer number of them
    octets = words.view(np.uint8).reshape(*words.shape[:-1], -1, count).astype(np.uint32)
    whole = (octets << (8 * np.arange(count, dtype=np.uint32))).sum(-1, dtype=np.uint32)
    shifts = np.arange(0, 8 * count, bits, dtype=np.uint32)
    found: Array = (whole[..., None] >> shifts) & np.uint32((1 << bits) - 1)
    return found.reshape(*words.shape[:-1], -1)


def _kinds(i: Instruction, tail: str) -> list[str]:
    """Return the types of A and B out of the end of the mnemonic."""
    if tail == "f8f6f4":
        return [_MIXED[int(i.modifiers.get(name, 0))] for name in ("cbsz", "blgp")]  # type: ignore[arg-type]
    names = tail.removesuffix("_1k").split("_")
    return [names[0], names[-1]]


def _build(m: Machine, i: Instruction) -> Plain:
    found = _PATTERN.match(i.mnemonic)
    assert found is not None
    out_kind, size, depth = found[1], int(found[2]), int(found[3])
    kinds = _kinds(i, found[4])
    narrow, sparse = found[4] == "f8f6f4", i.mnemonic.startswith("v_smfmac")
    allow(i, {"cbsz", "abid", "blgp", "neg_lo", "neg_hi", "op_sel", "op_sel_hi"})
    if not narrow and i.modifiers.get("blgp"):
        raise UnsupportedError("a permutation of B, or signs")
    kept = 32 * i.operands[1].count // _BITS[kinds[0]]  # elements of A in a lane
    per_lane = 2 * kept if sparse else kept
    blocks = 64 * per_lane // (size * depth)
    groups = 64 // (size * blocks)  # of lanes that hold different k
    broadcast = 0 if narrow or sparse else int(i.modifiers.get("cbsz", 0))  # type: ignore[arg-type]
    chosen = int(i.modifiers.get("abid", 0))  # type: ignore[arg-type]
    words = 2 if out_kind == "f64" else 1
    count = size * size * blocks // 64
    if i.operands[0].count != count * words:
        raise UnsupportedError(
            f"a result of {i.operands[0].count} registers where {count * words} are expected"
        )
    shapes = [(size, blocks, groups, length) for length in (kept, per_lane)]
    readers = [
        _gather(m, operand, _decoder(m.kernel.target, kind), shape)
        for operand, kind, shape in zip(i.operands[1:3], kinds, shapes, strict=True)
    ]
    if sparse:
        readers[0] = _spread(m, i, readers[0], shapes[0])
    if i.mnemonic.startswith("v_mfma_scale"):
        readers = [_scaled(m, i, number, read, shapes[1]) for number, read in enumerate(readers)]
    add = _addend(m, i.operands[0 if sparse else 3], out_kind, count)
    accumulator = _ACCUMULATORS[out_kind]
    m.register(i.operands[0], count * words - 1)
    start = i.operands[0].index
    target = m.files[i.operands[0].file][start : start + count * words]
    tiny = m.kernel.target == "gfx90a" and kinds[0] in ("f16", "bf16")
    split, order = _layout(out_kind, size, blocks)
    shape = tuple((m.count, *split)[axis] for axis in order)
    spread = (np.arange(blocks) >> broadcast << broadcast) + chosen if broadcast else None
    direct = target.view(F32).reshape(shape) if out_kind == "f32" else None

    def run() -> None:
        a, b = (read() for read in readers)  # (waves, blocks, size, depth)
        if spread is not None:
            a = a[:, spread]
        product = np.matmul(a, b.swapaxes(-1, -2)).reshape(m.count, *split).transpose(order)
        c = add()
        if getattr(c, "ndim", 0):
            c = c.reshape(shape)
        if direct is not None and m.all_active and not tiny:
            np.add(product, c, out=direct)  # exec is ignored
            return
        if out_kind == "i32":
            total: Array = (product.astype(np.int64) + c).astype(np.int32)
        else:
            total = product + c
            if tiny:
                total = flush(np.ascontiguousarray(total))
        bits = np.ascontiguousarray(total.astype(accumulator, copy=False)).reshape(
            count, m.count, 64
        )
        out = bits.view(np.uint32)
        if words == 2:
            out = bits[..., None].view(np.uint32).transpose(0, 3, 1, 2).reshape(-1, m.count, 64)
        m.put_registers(target, out)

    return Plain(run)


def _layout(out_kind: str, size: int, blocks: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return how (block, row, column) of a wave are split, and the order of axes in registers.

    The axis of waves comes first in the one and is number 0 in the other, where what is before it
    counts registers and what is after it lanes.
    """
    if size == 4:
        # single precision: registers are rows; double: one register, rows are the slowest lanes
        return (blocks, 4, 4), ((0, 2, 1, 3) if out_kind == "f64" else (2, 0, 1, 3))
    if out_kind == "f64":
        return (4, 4, 16), (1, 0, 2, 3)
    if size == 16:
        return (blocks, 4, 4, 16), (1, 3, 0, 2, 4)
    return (blocks, 4, 2, 4, 32), (1, 2, 4, 0, 3, 5)


def _gather(
    m: Machine,
    operand: Operand,
    decode: Callable[[Array], Array],
    shape: tuple[int, int, int, int],
) -> Callable[[], Array]:
    """Return the reader of a matrix ``(waves, blocks, size, depth)``."""
    size, blocks, groups, per_lane = shape
    if operand.file not in ("v", "a") or operand.neg or operand.abs:
        raise UnsupportedError("matrix operand that is not plain registers")
    m.register(operand, operand.count - 1)
    words = m.files[operand.file][operand.index : operand.index + operand.count]
    n = operand.count
    # Lanes count rows within blocks within groups of k; registers and their parts count k.
    split, order = (n, m.count, groups, blocks, size), (1, 3, 4, 2, 0)

    def read() -> Array:
        gathered = np.ascontiguousarray(words.reshape(split).transpose(order))
        return decode(gathered).reshape(m.count, blocks, size, groups * per_lane)

    return read


def _scaled(
    m: Machine,
    i: Instruction,
    number: int,
    read: Callable[[], Array],
    shape: tuple[int, int, int, int],
) -> Callable[[], Array]:
    """Return the reader of a matrix (0: A, 1: B) times its scales, in double precision.

    A lane's 32 elements are a block with one scale, E8M0 in a byte of the lane's register that
    op_sel (low bit) and op_sel_hi choose.
    """
    size, _, groups, per_lane = shape
    low, high = (i.modifiers.get(name, (0, 0)) for name in ("op_sel", "op_sel_hi"))
    shift = np.uint32(8 * (low[number] + 2 * high[number]))  # type: ignore[index,operator]
    scales = m.read(i.operands[4 + number], "u32")

    def run() -> Array:
        code = (m.full(scales()) >> shift) & np.uint32(255)
        factor = np.where(code == 255, np.nan, np.ldexp(1.0, code.astype(np.int64) - 127))
        factor = factor.reshape(m.count, 1, groups, size).swapaxes(-1, -2)
        return read() * factor.repeat(per_lane, -1)

    return run


def _spread(
    m: Machine, i: Instruction, read: Callable[[], Array], shape: tuple[int, int, int, int]
) -> Callable[[], Array]:
    """Return the reader of a sparse A with its zeros.

    Of four elements along k a lane holds two, with the place of each in two bits of a register,
    the first element's lowest; ``abid`` chooses the bits of a register that has more.
    """
    if i.modifiers.get("cbsz"):
        raise UnsupportedError("indices of a sparse matrix that cbsz chooses")
    size, blocks, groups, kept = shape
    indices = m.read(i.operands[3], "u32")
    first = kept * int(i.modifiers.get("abid", 0))  # type: ignore[arg-type]
    if first + kept > 16:
        raise UnsupportedError(f"abid {i.modifiers['abid']} for indices of {2 * kept} bits")
    shifts = np.arange(2 * first, 2 * (first + kept), 2, dtype=np.uint32)
    places = np.arange(4, dtype=np.uint32)

    def run() -> Array:
        words = m.full(indices()).reshape(m.count, groups, size, 1)
        at = (words >> shifts) & np.uint32(3)
        at = at.swapaxes(1, 2).reshape(m.count, blocks, size, -1, 2, 1)
        values = read().reshape(m.count, blocks, size, -1, 2, 1)
        dense: Array = np.where(at == places, values, values.dtype.type(0)).sum(-2)
        return dense.reshape(m.count, blocks, size, -1)

    return run


def _addend(m: Machine, operand: Operand, out_kind: str, count: int) -> Callable[[], Array]:
    """Return the reader of C, ``(count, waves, 64)`` or a constant."""
    accumulator = _ACCUMULATORS[out_kind]
    if operand.file == "const":
        value = constant(operand, out_kind)[0]
        return lambda: value
    words = 2 if out_kind == "f64" else 1
    m.register(operand, count * words - 1)
    registers = m.files[operand.file][operand.index : operand.index + count * words]
    if words == 1:
        view = registers.view(accumulator)
        return lambda: view

    def doubles() -> Array:
        pairs = registers.reshape(count, 2, m.count, 64).transpose(0, 2, 3, 1)
        return np.ascontiguousarray(pairs).view(F64)[..., 0]

    return doubles


BUILDERS: dict[str, Builder] = {"v_mfma_" + shape: _build for shape in SHAPES}
BUILDERS |= {"v_smfmac_" + shape: _build for shape in SPARSE_SHAPES}
BUILDERS |= {
    name.replace("mfma_", "mfma_scale_"): _build for name in BUILDERS if name.endswith("f8f6f4")
}
