# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What executes the kernels of the HIP library: the decoder and the machine of this package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from ..elf import CodeObject, Kernel, read_code_object
from ..errors import EmulationError, UnsupportedError
from ..machine import launch
from ..memory import Memory, aligned
from ..program import Limits, Program, read_program
from .service import Block, HipError

__all__ = ["Emulator", "Loaded"]

# hipErrorNoBinaryForGpu, hipErrorLaunchFailure, hipErrorNotSupported
_NO_BINARY, _LAUNCH_FAILURE, _NOT_SUPPORTED = 209, 719, 801

# Addresses of what hosts have no part in, as kernels see them: no memory of a process is there.
_CODE, _OWN = 1 << 47, 3 << 46
_APART = 1 << 20  # a multiple of this between modules


class Loaded:
    """A code object in memory, with its kernels, which are decoded when they are first launched.

    Parameters
    ----------
    code : CodeObject
    base : int
        Where it lies for kernels.
    """

    def __init__(self, code: CodeObject, base: int) -> None:
        self.code, self.base = code, base
        self._ready: dict[str, Program] = {}

    @property
    def kernels(self) -> Mapping[str, Kernel]:
        """What launches have to know of each kernel."""
        return self.code.kernels

    @cached_property
    def image(self) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        """The loaded segments, in which pointers count from `base`."""
        made = aligned(len(self.code.image))
        made[:] = np.frombuffer(self.code.image, np.uint8)
        for place, addend in self.code.relocations:
            made[place : place + 8] = np.frombuffer(
                (self.base + addend & (1 << 64) - 1).to_bytes(8, "little"), np.uint8
            )
        return made

    def ready(self, name: str) -> Program:
        """Return a kernel that can be executed.

        Raises
        ------
        EmulationError
            If its instructions cannot be decoded.
        """
        if name not in self._ready:
            self._ready[name] = read_program(self.code, name, base=self.base)
        return self._ready[name]


class Emulator:
    """Executes code objects on the CPU (`library.Executor`).

    Parameters
    ----------
    limits : Limits, optional
        Of each launch.
    checks : bool
        Whether races and missing waits are looked for.

    Attributes
    ----------
    executed : dict of str to set of int
        Addresses of the instructions that were executed, by the kernel's name.
    """

    def __init__(self, limits: Limits | None = None, *, checks: bool = True) -> None:
        self.limits, self.checks = limits or Limits(), checks
        self.executed: dict[str, set[int]] = {}
        self._next = _CODE

    def load(self, code: bytes, arch: str) -> Loaded:
        """Return the code of a GPU."""
        found = read_code_object(code)
        if found.arch != arch.partition(":")[0]:
            raise HipError(_NO_BINARY, f"code for {found.arch}, and the device is {arch}")
        base = self._next
        self._next += (len(found.image) // _APART + 1) * _APART
        return Loaded(found, base)

    def launch(
        self,
        module: Loaded,
        name: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: bytes,
        memory: Sequence[Block],
        *,
        shared_bytes: int,
    ) -> None:
        """Execute a kernel."""
        space = Memory(own=_OWN)
        for begin, size, at in memory:
            space.register(begin, size, f"the allocation of {size} bytes at {begin:#x}", at=at)
        image = module.image
        at = image.ctypes.data
        space.register(module.base, image.size, "the code", read_only=True, at=at)
        try:
            program = module.ready(name)
            done = launch(
                program,
                grid,
                block,
                arguments,
                space,
                dynamic_lds=shared_bytes,
                checks=self.checks,
                limits=self.limits,
            )
        except UnsupportedError as error:  # which says nothing about the kernel
            raise HipError(_NOT_SUPPORTED, str(error)) from error
        except EmulationError as error:
            raise HipError(_LAUNCH_FAILURE, str(error)) from error
        self.executed.setdefault(name, set()).update(done.executed)
