# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The stand-in for libamdhip64.so in this process: which GPUs it has, and who executes kernels."""

from __future__ import annotations

import ctypes
import json
import os
import socket
from collections.abc import Callable, Sequence
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint64, c_void_p
from itertools import count
from pathlib import Path
from typing import Protocol

__all__ = ["Library", "Spawn", "Worker"]


class Worker(Protocol):
    """The process that executes kernels."""

    @property
    def pid(self) -> int: ...
    @property
    def running(self) -> bool: ...
    def end(self) -> int:
        """End it, and return its status."""


Spawn = Callable[[Sequence[str], Sequence[int]], Worker]
"""Starts `worker.main` in a process: its arguments, and the descriptors that it inherits."""


class Library:
    """The library, loaded once for the life of the process.

    Parameters
    ----------
    path : Path
        The compiled ``native/hip.c``.
    spawn : callable
        `Spawn`.

    Raises
    ------
    OSError
        If it cannot be loaded, ROCm's own library is in this process already, or there is no
        room for the addresses of device memory.
    """

    NAME = "libamdhip64.so"
    """The name under which IREE and hip-python find it once it is loaded."""

    def __init__(self, path: Path, spawn: Spawn) -> None:
        try:
            there = ctypes.CDLL(self.NAME, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        except OSError:
            pass
        else:
            if not hasattr(there, "emulated_archs"):
                raise OSError(f"{self.NAME} of ROCm is in this process already")
        native = ctypes.CDLL(str(path), mode=os.RTLD_GLOBAL | os.RTLD_NOW)
        native.emulated_archs.restype = c_char_p
        native.emulated_devices.argtypes = (c_char_p, c_size_t)
        native.emulated_range.argtypes = (POINTER(c_uint64), POINTER(c_uint64))
        native.emulated_start.argtypes = (c_int, c_int)
        native.emulated_launches.restype = c_uint64
        native.emulated_executed.restype = c_void_p
        native.emulated_free.argtypes = (c_void_p,)
        self.native = native
        self._spawn = spawn
        self._first = count(1, 1 << 40)  # the numbers of one worker are not those of another
        self._worker: Worker | None = None

    @property
    def archs(self) -> tuple[str, ...]:
        """The GPUs that there are."""
        text = self.native.emulated_archs().decode()
        return tuple(text.split(",")) if text else ()

    @property
    def launches(self) -> int:
        """How many kernels were executed to their end, from the first time on."""
        return int(self.native.emulated_launches())

    @property
    def running(self) -> bool:
        """Whether there is a process that executes kernels."""
        return self._worker is not None and self._worker.running

    @property
    def worker_pid(self) -> int | None:
        """The process that executes kernels; None before the first device is opened."""
        return self._worker.pid if self._worker is not None else None

    def executed(self) -> dict[str, set[int]]:
        """Return the addresses of instructions that were executed, by the kernel's name.

        Each is told once: it is of what was launched since the last call.
        """
        text = self.native.emulated_executed()
        if text is None:
            return {}
        try:
            found = json.loads(ctypes.string_at(text))
        finally:
            self.native.emulated_free(text)
        return {name: set(places) for name, places in found.items()}

    def start(self) -> None:
        """Have a process that executes kernels; modules of one that has ended are lost.

        Raises
        ------
        OSError
            If it cannot be started.
        """
        if self.running:
            return
        begin, size = c_uint64(), c_uint64()
        memory = self.native.emulated_range(ctypes.byref(begin), ctypes.byref(size))
        if memory < 0:
            raise OSError("no room for the addresses of device memory")
        ours, theirs = socket.socketpair()
        with ours, theirs:
            descriptors = theirs.fileno(), memory
            numbers = (*descriptors, begin.value, size.value, next(self._first))
            self._worker = self._spawn(tuple(map(str, numbers)), descriptors)
            self.native.emulated_start(ours.detach(), self._worker.pid)

    def devices(self, archs: Sequence[str], nbytes: int = 0) -> None:
        """Have these GPUs from now on, each with so many bytes of memory (0: as before).

        Raises
        ------
        OSError
            For more than 16, or a name of 64 bytes or more.
        """
        if self.native.emulated_devices(",".join(archs).encode(), nbytes):
            raise OSError(f"at most 16 emulated devices, with names of at most 63 bytes: {archs}")

    def stop(self) -> None:
        """Execute nothing any more, as when the interpreter ends."""
        self.native.emulated_stop()
        if self._worker is not None and self._worker.running:
            self._worker.end()
