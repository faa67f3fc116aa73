"""What a launch needs to know of one kernel: its instructions and the fields of its descriptor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .instruction import Instruction

__all__ = ["USER_SGPRS", "Kernel", "Limits"]

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
class Kernel:
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
