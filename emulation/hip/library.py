# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The stand-in for libamdhip64.so in this process: which GPUs it has, and who executes kernels."""

from __future__ import annotations

import ctypes
import os
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from itertools import count
from pathlib import Path
from typing import Any, Protocol

__all__ = ["Argument", "Executor", "HipError", "Kernel", "Library", "Module"]

_INVALID_IMAGE, _NOT_FOUND, _LAUNCH_FAILURE = 200, 500, 719  # hipError_t

_LARGEST = 1 << 30  # bytes of a code object: what an altered header says is not read

_LOAD = ctypes.CFUNCTYPE(c_int, c_void_p, c_int, POINTER(c_uint64))
_FIND = ctypes.CFUNCTYPE(c_int, c_uint64, c_char_p, POINTER(c_uint64), POINTER(c_uint64))
_LAUNCH = ctypes.CFUNCTYPE(
    c_int, c_uint64, c_int, POINTER(c_uint32), POINTER(c_void_p), POINTER(c_void_p)
)
_UNLOAD = ctypes.CFUNCTYPE(None, c_uint64)


class _Callbacks(ctypes.Structure):
    _fields_ = (("load", _LOAD), ("find", _FIND), ("launch", _LAUNCH), ("unload", _UNLOAD))


class HipError(Exception):
    """An error for the caller of HIP; ``status`` is the ``hipError_t``."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Argument(Protocol):
    """A parameter of a kernel: where it lies, and what it is.

    Attributes
    ----------
    offset, size : int
        Bytes in the kernel's arguments.
    kind : str
        ``.value_kind`` of the metadata: ``"global_buffer"``, ``"by_value"``, ``"hidden_..."``.
    """

    @property
    def offset(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def kind(self) -> str: ...


class Kernel(Protocol):
    """What a launch has to know of a kernel."""

    @property
    def arguments(self) -> Sequence[Argument]: ...
    @property
    def kernarg_bytes(self) -> int: ...
    @property
    def lds_bytes(self) -> int: ...


class Module(Protocol):
    """Loaded code."""

    @property
    def kernels(self) -> Mapping[str, Kernel]: ...


class Executor(Protocol):
    """What executes kernels; what it raises becomes the error of the launch."""

    def load(self, code: bytes, arch: str) -> Module:
        """Return the code of a GPU; `HipError` 209 if it is another GPU's."""

    def launch(
        self,
        module: Any,
        name: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: bytes,
        memory: Sequence[tuple[int, int]],
        *,
        shared_bytes: int,
    ) -> None:
        """Execute a kernel.

        Parameters
        ----------
        module : Module
        name : str
        grid, block : tuple of 3 int
            Blocks, and threads of one.
        arguments : bytes
        memory : sequence of (int, int)
            Addresses and sizes of what the kernel may access, which is memory of this process.
        shared_bytes : int
            LDS beyond that of the kernel.
        """


class Library:
    """The library, loaded once for the life of the process.

    Parameters
    ----------
    path : Path
        The compiled ``native/hip.c``.
    executor : Executor

    Raises
    ------
    OSError
        If it cannot be loaded, or ROCm's own library is in this process already.
    """

    NAME = "libamdhip64.so"
    """The name under which IREE and hip-python find it once it is loaded."""

    def __init__(self, path: Path, executor: Executor) -> None:
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
        native.emulated_fail.argtypes = (c_int, c_char_p)
        native.emulated_memory.argtypes = (c_int, POINTER(c_uint64), c_size_t)
        native.emulated_memory.restype = c_size_t
        self.native = native
        self.executor = executor
        self._numbers = count(1)
        self._modules: dict[int, Any] = {}
        self._functions: dict[int, tuple[int, str]] = {}
        self._lock = threading.Lock()
        self.launches = 0
        # They live as long as the library, which calls them.
        self._callbacks = _Callbacks(
            _LOAD(self._guarded(self._load, _INVALID_IMAGE)),
            _FIND(self._guarded(self._find, _NOT_FOUND)),
            _LAUNCH(self._guarded(self._launch, _LAUNCH_FAILURE)),
            _UNLOAD(self._unload),
        )
        native.emulated_start(ctypes.byref(self._callbacks))

    @property
    def archs(self) -> tuple[str, ...]:
        """The GPUs that there are."""
        text = self.native.emulated_archs().decode()
        return tuple(text.split(",")) if text else ()

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
        self.native.emulated_start(None)

    def _guarded(self, work: Callable[..., None], status: int) -> Callable[..., int]:
        """Return the callback, whose exceptions become errors of HIP."""

        def call(*arguments: Any) -> int:
            try:
                work(*arguments)
            except HipError as error:
                found, text = error.status, str(error)
            except Exception as error:  # nothing may pass through C
                found, text = status, f"{type(error).__name__}: {error}"
            else:
                return 0
            self.native.emulated_fail(found, text.encode())
            return found

        return call

    def _load(self, image: int, device: int, module: Any) -> None:
        loaded = self.executor.load(_code_object(image), self.archs[device])
        with self._lock:
            number = next(self._numbers)
            self._modules[number] = loaded
        module[0] = number

    def _find(self, module: int, name: bytes, function: Any, shared_bytes: Any) -> None:
        text = name.decode()
        kernels = self._module(module).kernels
        if text not in kernels:
            raise HipError(_NOT_FOUND, f"the module has no kernel {text}")
        with self._lock:
            number = next(self._numbers)
            self._functions[number] = module, text
        function[0] = number
        shared_bytes[0] = kernels[text].lds_bytes

    def _launch(self, function: int, device: int, geometry: Any, given: Any, extra: Any) -> None:
        number, name = self._functions[function]
        module = self._module(number)
        gx, gy, gz, bx, by, bz, shared = geometry[:7]
        if 0 in (gx, gy, gz, bx, by, bz):
            raise HipError(1, f"{name}: a grid of {gx}x{gy}x{gz}, a block of {bx}x{by}x{bz}")
        kernel = module.kernels[name]
        arguments = _packed(kernel, name, given, extra, ((gx, gy, gz), (bx, by, bz)))
        memory = self._memory(device)
        self.executor.launch(
            module, name, (gx, gy, gz), (bx, by, bz), arguments, memory, shared_bytes=shared
        )
        self.launches += 1

    def _unload(self, module: int) -> None:
        with self._lock:
            self._modules.pop(module, None)
            self._functions = {n: f for n, f in self._functions.items() if f[0] != module}

    def _module(self, number: int) -> Any:
        try:
            return self._modules[number]
        except KeyError:
            raise HipError(400, f"{number} is no loaded module") from None

    def _memory(self, device: int) -> list[tuple[int, int]]:
        most = self.native.emulated_memory(device, None, 0) + 64  # other threads may allocate
        pairs = (c_uint64 * (2 * most))()
        found = min(self.native.emulated_memory(device, pairs, most), most)
        return [(pairs[2 * i], pairs[2 * i + 1]) for i in range(found)]


def _code_object(image: int) -> bytes:
    """Return the ELF file at an address, whose size its own header gives."""
    head = ctypes.string_at(image, 64)
    if head[:4] != b"\x7fELF" or head[4] != 2:
        raise HipError(_INVALID_IMAGE, f"no 64-bit ELF file, but {head[:8]!r}")
    sections, size, number = (
        struct.unpack_from("<Q", head, 40)[0],
        *struct.unpack_from("<HH", head, 58),
    )
    if (whole := sections + size * number) > _LARGEST:
        raise HipError(_INVALID_IMAGE, f"an ELF file whose header speaks of {whole} bytes")
    return ctypes.string_at(image, whole)


_GEOMETRY = {
    f"hidden_{what}_{axis}": (what, number)
    for what in ("block_count", "group_size", "remainder")
    for number, axis in enumerate("xyz")
}


def _packed(
    kernel: Kernel,
    name: str,
    given: Any,
    extra: Any,
    geometry: tuple[tuple[int, int, int], tuple[int, int, int]],
) -> bytes:
    """Return the bytes of a kernel's arguments, those that the runtime fills in among them."""
    packed = bytearray(kernel.kernarg_bytes)
    explicit = [a for a in kernel.arguments if not a.kind.startswith("hidden_")]
    if extra:
        begin, nbytes = _in_extra(extra)
        if nbytes > len(packed):
            raise HipError(1, f"{name} takes {len(packed)} bytes of arguments, got {nbytes}")
        packed[:nbytes] = ctypes.string_at(begin, nbytes)
    elif explicit and not given:
        raise HipError(1, f"{name} takes {len(explicit)} arguments, got none")
    else:
        for number, argument in enumerate(explicit):
            value = ctypes.string_at(given[number], argument.size)
            packed[argument.offset : argument.offset + argument.size] = value
    for argument in kernel.arguments:
        if argument.kind in _GEOMETRY:
            what, axis = _GEOMETRY[argument.kind]
            number = geometry[what == "group_size"][axis] if what != "remainder" else 0
        elif argument.kind == "hidden_grid_dims":
            number = 3
        else:
            continue
        end = argument.offset + argument.size
        packed[argument.offset : end] = number.to_bytes(argument.size, "little")
    return bytes(packed)


def _in_extra(extra: Any) -> tuple[int, int]:
    """Return address and size of arguments that lie packed already."""
    found: dict[int, int] = {}
    for number in range(0, 8, 2):
        key = extra[number]
        if key in (None, 3):  # HIP_LAUNCH_PARAM_END
            break
        found[key] = extra[number + 1]
    if not {1, 2} <= found.keys():  # ..._BUFFER_POINTER, ..._BUFFER_SIZE
        raise HipError(1, "a launch's extra arguments name no buffer and size")
    return found[1], c_size_t.from_address(found[2]).value
