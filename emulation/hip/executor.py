# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What executes the kernels of the HIP library: the decoder and the machine of this package."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np

from ..elf import CodeObject, Kernel, read_code_object
from ..errors import EmulationError, UnsupportedError
from ..machine import Statistics, launch
from ..memory import Memory
from ..program import Limits, Program, read_program
from .library import HipError

__all__ = ["Emulator", "Loaded"]

# hipErrorNoBinaryForGpu, hipErrorLaunchFailure, hipErrorNotSupported
_NO_BINARY, _LAUNCH_FAILURE, _NOT_SUPPORTED = 209, 719, 801


class Loaded:
    """A code object in memory, with its kernels, which are decoded when they are first launched.

    Parameters
    ----------
    code : CodeObject
    """

    def __init__(self, code: CodeObject) -> None:
        self.code = code
        self._ready: dict[str, Program] = {}
        self._lock = threading.Lock()

    @property
    def kernels(self) -> Mapping[str, Kernel]:
        """What launches have to know of each kernel."""
        return self.code.kernels

    @cached_property
    def image(self) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        """The loaded segments, at the address that pointers in them count from."""
        made = np.frombuffer(bytearray(self.code.image), np.uint8)
        start = made.ctypes.data
        for place, addend in self.code.relocations:
            made[place : place + 8] = np.frombuffer(
                (start + addend & (1 << 64) - 1).to_bytes(8, "little"), np.uint8
            )
        return made

    def ready(self, name: str) -> Program:
        """Return a kernel that can be executed.

        Raises
        ------
        EmulationError
            If its instructions cannot be decoded.
        """
        with self._lock:
            if name not in self._ready:
                self._ready[name] = read_program(self.code, name, base=self.image.ctypes.data)
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
    on_launch : callable or None
        Called with each kernel that was executed to its end, and what the launch did.
    """

    def __init__(self, limits: Limits | None = None, *, checks: bool = True) -> None:
        self.limits, self.checks = limits or Limits(), checks
        self.on_launch: Callable[[Program, Statistics], None] | None = None

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
        if self.on_launch is not None:
            self.on_launch(program, done)
