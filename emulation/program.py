# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a launch needs to know of one kernel: its instructions and the fields of its descriptor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .decode import decode
from .elf import CodeObject
from .instruction import Instruction

__all__ = ["USER_SGPRS", "Limits", "Program", "read_program"]

# What the user SGPRs may hold, in the order in which they are given, with the registers of each.
USER_SGPRS = {
    "private_segment_buffer": 4,
    "dispatch_ptr": 2,
    "queue_ptr": 2,
    "kernarg_segment_ptr": 2,
    "dispatch_id": 2,
    "flat_scratch_init": 2,
    "private_segment_size": 1,
}


@dataclass(frozen=True)
class Program:
    """One kernel of a code object.

    Attributes
    ----------
    name, target : str
        As in the code object; the target without features (``gfx942``).
    instructions : mapping of int to Instruction
        By address, at least those that can be reached from `entry`.
    entry : int
        Address of the first instruction.
    base : int
        Device address at which the code object was loaded, added to what ``s_getpc`` returns; the
        loaded image must be an allocation of the memory if the kernel reads constants from it.
    vgprs : int
        Vector registers that the descriptor allocates, accumulation registers included
        (gfx90a and later: one file of both).
    accum_offset : int
        Where accumulation registers begin in that file; 0 for gfx908, where each file has `vgprs`.
    lds_size, scratch_size, kernarg_size : int
        Bytes: of a workgroup, of a work item, of the arguments (hidden ones included).
    user_sgprs : tuple of str
        Names out of `USER_SGPRS` that the descriptor enables.
    user_sgpr_count : int
        Registers reserved for them, preloaded arguments included.
    kernarg_preload : tuple of int
        (length, offset) in 32-bit words of the arguments preloaded behind the user SGPRs.
    workgroup_ids : tuple of bool
        Whether the descriptor asks for the workgroup's x, y and z.
    workgroup_info, private_segment_wave_offset : bool
        Further system SGPRs that it asks for.
    workitem_ids : int
        0: x, 1: x and y, 2: all three.
    float_mode : int
        The eight bits of rounding and denormals, as in bits 7:0 of MODE; 0xf0 keeps denormals.
    dx10_clamp, ieee_mode : bool
        Clamping turns NaN into 0; signalling NaN are made quiet by minimum and maximum.
    """

    name: str
    target: str
    instructions: Mapping[int, Instruction]
    entry: int
    base: int = 0
    vgprs: int = 512
    accum_offset: int = 256
    lds_size: int = 0
    scratch_size: int = 0
    kernarg_size: int = 0
    user_sgprs: tuple[str, ...] = ("kernarg_segment_ptr",)
    user_sgpr_count: int = 2
    kernarg_preload: tuple[int, int] = (0, 0)
    workgroup_ids: tuple[bool, bool, bool] = (True, True, True)
    workgroup_info: bool = False
    private_segment_wave_offset: bool = False
    workitem_ids: int = 2
    float_mode: int = 0xF0
    dx10_clamp: bool = True
    ieee_mode: bool = False


@dataclass(frozen=True)
class Limits:
    """What a launch may take, as the defence against kernels that loop.

    Attributes
    ----------
    instructions : int
        Executed by any one wave.
    lds : int
        Bytes of LDS of a workgroup (gfx950 has 160 KiB, the others 64).
    bytes : int
        Registers, LDS and scratch of the waves that run at the same time.
    """

    instructions: int = 50_000_000
    lds: int = 160 * 1024
    bytes: int = 2 << 30


_USER = {name: bit for bit, name in enumerate(USER_SGPRS)}


def read_program(code: CodeObject, name: str, base: int = 0) -> Program:
    """Return what a launch needs of a kernel of a code object.

    Parameters
    ----------
    code : CodeObject
    name : str
        A key of ``code.kernels``.
    base : int
        Device address at which its image was loaded.

    Raises
    ------
    DecodeError
        For bytes that are no instruction.
    """
    kernel = code.kernels[name]
    unified = code.arch != "gfx908"  # one file of vector and accumulation registers
    found = decode(code.code(kernel), arch=code.arch, address=kernel.entry, kernel=name)
    rsrc1, rsrc2 = kernel.rsrc1, kernel.rsrc2
    return Program(
        name=name,
        target=code.arch,
        instructions={instruction.address: instruction for instruction in found},
        entry=kernel.entry,
        base=base,
        vgprs=((rsrc1 & 63) + 1) * (8 if unified else 4),
        accum_offset=((kernel.rsrc3 & 63) + 1) * 4 if unified else 0,
        lds_size=kernel.lds_bytes,
        scratch_size=kernel.scratch_bytes,
        kernarg_size=kernel.kernarg_bytes,
        user_sgprs=tuple(x for x, bit in _USER.items() if kernel.properties >> bit & 1),
        user_sgpr_count=rsrc2 >> 1 & 31,
        kernarg_preload=(kernel.preload & 127, kernel.preload >> 7 & 511),
        workgroup_ids=(bool(rsrc2 >> 7 & 1), bool(rsrc2 >> 8 & 1), bool(rsrc2 >> 9 & 1)),
        workgroup_info=bool(rsrc2 >> 10 & 1),
        private_segment_wave_offset=bool(rsrc2 & 1) and code.arch in ("gfx908", "gfx90a"),
        workitem_ids=min(rsrc2 >> 11 & 3, 2),
        float_mode=rsrc1 >> 12 & 255,
        dx10_clamp=bool(rsrc1 >> 21 & 1),
        ieee_mode=bool(rsrc1 >> 23 & 1),
    )
