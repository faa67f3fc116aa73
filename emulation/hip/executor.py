"""What executes the kernels of the HIP library: the decoder and the machine of this package."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from ..decode import decode
from ..elf import CodeObject, read_code_object
from ..elf import Kernel as Shipped
from ..errors import EmulationError
from ..kernel import USER_SGPRS, Kernel, Limits
from ..machine import launch
from ..memory import Memory
from .library import HipError

__all__ = ["Emulator", "Loaded", "described"]

_NO_BINARY = 209  # hipErrorNoBinaryForGpu


class Loaded:
    """A code object in memory, with its kernels, which are decoded when they are first launched.

    Parameters
    ----------
    code : CodeObject
    """

    def __init__(self, code: CodeObject) -> None:
        self.code = code
        self._ready: dict[str, Kernel] = {}
        self._lock = threading.Lock()

    @property
    def kernels(self) -> Mapping[str, Shipped]:
        """What launches have to know of each kernel."""
        return self.code.kernels

    @cached_property
    def image(self) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        """The loaded segments, at the address that pointers in them count from."""
        made = np.frombuffer(bytearray(self.code.image), np.uint8)
        start = made.ctypes.data
        for place, addend in self.code.relocations:
            made[place : place + 8] = np.frombuffer(
                (start + addend).to_bytes(8, "little"), np.uint8
            )
        return made

    def ready(self, name: str) -> Kernel:
        """Return a kernel that can be executed.

        Raises
        ------
        EmulationError
            If its instructions cannot be decoded.
        """
        with self._lock:
            if name not in self._ready:
                self._ready[name] = described(self.code, name, self.image.ctypes.data)
            return self._ready[name]


def described(code: CodeObject, name: str, base: int = 0) -> Kernel:
    """Return what the machine has to know of a kernel, from its descriptor.

    Parameters
    ----------
    code : CodeObject
    name : str
    base : int
        Address at which the code object is loaded.

    Raises
    ------
    EmulationError
        If its instructions cannot be decoded.
    """
    shipped = code.kernels[name]
    found = decode(code.code(shipped), arch=code.arch, address=shipped.entry, kernel=name)
    rsrc1, rsrc2 = shipped.rsrc1, shipped.rsrc2
    two_files = code.arch == "gfx908"  # of vector and accumulation registers
    return Kernel(
        name=name,
        target=code.arch,
        instructions={one.address: one for one in found},
        entry=shipped.entry,
        base=base,
        vgprs=((rsrc1 & 63) + 1) * (4 if two_files else 8),
        accum_offset=0 if two_files else ((shipped.rsrc3 & 63) + 1) * 4,
        lds_size=shipped.lds_bytes,
        scratch_size=shipped.scratch_bytes,
        kernarg_size=shipped.kernarg_bytes,
        user_sgprs=tuple(n for k, n in enumerate(USER_SGPRS) if shipped.properties >> k & 1),
        user_sgpr_count=rsrc2 >> 1 & 31,
        kernarg_preload=(shipped.preload & 127, shipped.preload >> 7),
        workgroup_ids=(bool(rsrc2 >> 7 & 1), bool(rsrc2 >> 8 & 1), bool(rsrc2 >> 9 & 1)),
        workgroup_info=bool(rsrc2 >> 10 & 1),
        private_segment_wave_offset=bool(rsrc2 & 1),
        workitem_ids=rsrc2 >> 11 & 3,
        float_mode=rsrc1 >> 12 & 255,
        dx10_clamp=bool(rsrc1 >> 21 & 1),
        ieee_mode=bool(rsrc1 >> 23 & 1),
    )


class Emulator:
    """Executes code objects on the CPU (`library.Executor`).

    Parameters
    ----------
    limits : Limits, optional
        Of each launch.
    checks : bool
        Whether races and missing waits are looked for.
    """

    def __init__(self, limits: Limits | None = None, *, checks: bool = True) -> None:
        self.limits, self.checks = limits or Limits(), checks

    def load(self, code: bytes, arch: str) -> Loaded:
        """Return the code of a GPU."""
        found = read_code_object(code)
        if found.arch != arch.partition(":")[0]:
            raise HipError(_NO_BINARY, f"code for {found.arch}, and the device is {arch}")
        return Loaded(found)

    def launch(
        self,
        module: Loaded,
        name: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: bytes,
        memory: Sequence[tuple[int, int]],
        *,
        shared_bytes: int,
    ) -> None:
        """Execute a kernel."""
        space = Memory()
        for begin, size in memory:
            space.register(begin, size, f"the allocation of {size} bytes at {begin:#x}")
        image = module.image
        space.register(image.ctypes.data, image.size, "the code", read_only=True)
        try:
            launch(
                module.ready(name),
                grid,
                block,
                arguments,
                space,
                dynamic_lds=shared_bytes,
                checks=self.checks,
                limits=self.limits,
            )
        except EmulationError as error:
            raise HipError(719, str(error)) from error  # hipErrorLaunchFailure
