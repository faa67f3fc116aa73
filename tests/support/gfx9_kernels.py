# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of gfx9 GPUs written by hand, as decoded instructions, and single instructions."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from hipdnn_iree.emulation.instruction import Instruction, Operand
from hipdnn_iree.emulation.instructions import BUILDERS
from hipdnn_iree.emulation.machine import Statistics, launch
from hipdnn_iree.emulation.memory import Memory
from hipdnn_iree.emulation.program import Limits, Program
from hipdnn_iree.emulation.steps import Machine

OFF = Operand("special", name="off")
VCC = Operand("s", 106, 2, name="vcc")
EXEC = Operand("s", 126, 2, name="exec")
M0 = Operand("s", 124, 1, name="m0")


def v(index: int, count: int = 1, **more: Any) -> Operand:
    """Vector registers."""
    return Operand("v", index, count, **more)


def a(index: int, count: int = 1) -> Operand:
    """Accumulation registers."""
    return Operand("a", index, count)


def s(index: int, count: int = 1, **more: Any) -> Operand:
    """Scalar registers."""
    return Operand("s", index, count, **more)


def integer(value: int) -> Operand:
    """An inline integer."""
    return Operand("const", bits=value & 0xFFFFFFFF, name=str(value), kind="integer")


def literal(bits: int) -> Operand:
    """32 bits behind the instruction."""
    return Operand("const", bits=bits, name=hex(bits), kind="literal")


def real(value: float) -> Operand:
    """An inline float."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return Operand("const", bits=bits, name=str(value), kind="float")


def op(mnemonic: str, *operands: Operand, encoding: str = "vop3", **modifiers: Any) -> Instruction:
    """One instruction; `kernel` gives it its address."""
    return Instruction(0, 4, mnemonic, encoding, operands, modifiers)


def wait(vmcnt: int = 63, lgkmcnt: int = 15) -> Instruction:
    """An s_waitcnt."""
    return op("s_waitcnt", encoding="sopp", vmcnt=vmcnt, expcnt=7, lgkmcnt=lgkmcnt)


END = op("s_endpgm", encoding="sopp")
BARRIER = op("s_barrier", encoding="sopp")


def kernel(*instructions: Instruction, **fields: Any) -> Program:
    """A program of these instructions; branch targets are numbers of instructions."""
    placed = {}
    for number, i in enumerate(instructions):
        modifiers = dict(i.modifiers)
        if "target" in modifiers:
            modifiers["target"] *= 4
        placed[4 * number] = Instruction(
            4 * number, 4, i.mnemonic, i.encoding, i.operands, modifiers
        )
    given = {"name": "hand", "target": "gfx942", "vgprs": 64, "accum_offset": 32}
    return Program(instructions=placed, entry=0, **{**given, **fields})


def run(
    program: Program,
    arrays: Sequence[np.ndarray],
    *,
    grid: tuple[int, int, int] = (1, 1, 1),
    block: tuple[int, int, int] = (64, 1, 1),
    checks: bool = True,
    limits: Limits | None = None,
) -> tuple[list[np.ndarray], Statistics]:
    """Launch with the addresses of copies of `arrays` as arguments; return what they became."""
    memory, places = Memory(), []
    for number, array in enumerate(arrays):
        places.append(memory.allocate(array.nbytes, f"buffer {number}"))
        memory.view(places[-1], array.nbytes)[:] = (
            np.ascontiguousarray(array).view(np.uint8).ravel()
        )
    arguments = np.array(places, np.uint64).tobytes()
    done = launch(program, grid, block, arguments, memory, checks=checks, limits=limits)
    results = [
        memory.view(place, array.nbytes).view(array.dtype).reshape(array.shape).copy()
        for place, array in zip(places, arrays, strict=True)
    ]
    return results, done


def loads(count: int) -> list[Instruction]:
    """Load so many addresses into s[4:5], s[6:7], ... and wait."""
    found = [
        op("s_load_dwordx2", s(4 + 2 * k, 2), s(0, 2), integer(8 * k), encoding="smem")
        for k in range(count)
    ]
    return [*found, wait(lgkmcnt=0)]


def single(target: str = "gfx942", waves: int = 2, lds: int = 0, mode: int = 0xF0) -> Machine:
    """A machine in which one instruction after the other can be tried (`execute`)."""
    program = Program("single", target, {}, 0, vgprs=256, accum_offset=128, float_mode=mode | 0x100)
    m = Machine(program, waves, 1, Memory(), lds)
    m.mode = mode | 0x100
    m.poison()
    m.s[126:128] = 0xFFFFFFFF
    m.refresh()
    return m


def execute(m: Machine, instruction: Instruction) -> None:
    """Execute one instruction in all waves."""
    made: Any = BUILDERS[instruction.mnemonic](m, instruction)
    with np.errstate(all="ignore"):
        made.run()


def put(m: Machine, register: int, values: np.ndarray, file: str = "v") -> None:
    """Fill vector registers with values ``(waves, 64)`` of any type of 2, 4 or 8 bytes."""
    values = np.ascontiguousarray(values)
    if values.dtype.itemsize == 8:
        words = values[..., None].view(np.uint32)
        m.files[file][register], m.files[file][register + 1] = words[..., 0], words[..., 1]
    else:
        m.files[file][register] = values.view(f"u{values.dtype.itemsize}")


def get(m: Machine, register: int, dtype: Any, file: str = "v") -> np.ndarray:
    """What vector registers hold, as ``(waves, 64)`` of a type of 2, 4 or 8 bytes."""
    kind = np.dtype(dtype)
    if kind.itemsize == 8:
        words = np.stack([m.files[file][register], m.files[file][register + 1]], axis=-1)
        return np.ascontiguousarray(words).view(kind)[..., 0]
    return m.files[file][register].astype(f"u{kind.itemsize}").view(kind)


def random_bits(seed: int, *shape: int, bits: int = 32) -> np.ndarray:
    """Unsigned integers of any value."""
    dtype = np.dtype(f"u{bits // 8}")
    return np.random.default_rng(seed).integers(0, 2**bits - 1, shape, dtype=dtype, endpoint=True)


def twos(x: int, bits: int) -> int:
    """The signed number that unsigned bits stand for."""
    return x - (1 << bits) if x >> (bits - 1) else x
