# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is asked of the process that executes kernels, and its answers (``native/worker.h``)."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from itertools import count
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Argument", "Block", "Executor", "HipError", "Kernel", "Module", "Window", "serve"]

_REQUEST = struct.Struct("<IIQ8IQQQ")
_ANSWER = struct.Struct("<iIQQQ")
_BLOCK = struct.Struct("<QQQ")
_LOAD, _FIND, _LAUNCH, _UNLOAD, _EXECUTED = range(1, 6)
_INVALID_VALUE, _INVALID_IMAGE, _INVALID_HANDLE = 1, 200, 400  # hipError_t
_NOT_FOUND, _LAUNCH_FAILURE, _UNKNOWN = 500, 719, 999
_ARCH = 64  # bytes of a GPU's name
_ALIGN = 256


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


class Block(NamedTuple):
    """Memory that a kernel may access.

    Attributes
    ----------
    address, size : int
        As kernels name it.
    at : int
        Where its bytes lie in this process.
    """

    address: int
    size: int
    at: int


class Window(NamedTuple):
    """Where the memory of all devices lies in this process.

    Attributes
    ----------
    begin : int
        As kernels name it.
    at : int
    """

    begin: int
    at: int


class Executor(Protocol):
    """What executes kernels; what it raises becomes the error of the launch."""

    @property
    def executed(self) -> MutableMapping[str, set[int]]:
        """Addresses of the instructions that were executed, by the kernel's name."""

    def load(self, code: bytes, arch: str) -> Module:
        """Return the code of a GPU; `HipError` 209 if it is another GPU's."""

    def launch(
        self,
        module: Any,
        name: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: bytes,
        memory: Sequence[Block],
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
        memory : sequence of Block
            What the kernel may access.
        shared_bytes : int
            LDS beyond that of the kernel.
        """


class _Request(NamedTuple):
    device: int
    handle: int
    geometry: tuple[int, ...]
    arguments: int
    blocks: int
    data: bytes


class _Found(NamedTuple):
    handle: int = 0
    value: int = 0
    data: bytes = b""


def serve(channel: socket.socket, executor: Executor, window: Window, *, first: int = 1) -> None:
    """Answer requests until the other end is closed.

    Parameters
    ----------
    channel : socket.socket
    executor : Executor
    window : Window
    first : int
        The first number that a module or function gets; none is given twice in a host.
    """
    service = _Service(executor, window, first)
    with channel, channel.makefile("rb") as requests:
        while len(head := requests.read(_REQUEST.size)) == _REQUEST.size:
            kind, device, handle, *rest = _REQUEST.unpack(head)
            arguments, blocks, nbytes = rest[8:]
            data = requests.read(nbytes)
            if len(data) < nbytes:
                return
            request = _Request(device, handle, tuple(rest[:7]), arguments, blocks, data)
            status, found = service.answer(kind, request)
            answer = _ANSWER.pack(status, 0, found.handle, found.value, len(found.data))
            try:
                channel.sendall(answer + found.data)
            except OSError:  # the host has ended
                return


class _Service:
    """Modules and functions, by their numbers."""

    def __init__(self, executor: Executor, window: Window, first: int) -> None:
        self._executor, self._window = executor, window
        self._numbers = count(first)
        self._modules: dict[int, Module] = {}
        self._functions: dict[int, tuple[int, str]] = {}
        self._kinds: dict[int, tuple[Callable[[_Request], _Found], int]] = {
            _LOAD: (self._load, _INVALID_IMAGE),
            _FIND: (self._find, _NOT_FOUND),
            _LAUNCH: (self._launch, _LAUNCH_FAILURE),
            _UNLOAD: (self._unload, _UNKNOWN),
            _EXECUTED: (self._executed, _UNKNOWN),
        }

    def answer(self, kind: int, request: _Request) -> tuple[int, _Found]:
        """Return a status, and what was found or the text of the error."""
        work, status = self._kinds[kind]
        try:
            return 0, work(request)
        except HipError as error:
            return error.status, _Found(data=str(error).encode())
        except Exception as error:  # the process goes on
            return status, _Found(data=f"{type(error).__name__}: {error}".encode())

    def _load(self, request: _Request) -> _Found:
        arch = request.data[:_ARCH].partition(b"\0")[0].decode()
        loaded = self._executor.load(request.data[_ARCH:], arch)
        number = next(self._numbers)
        self._modules[number] = loaded
        return _Found(number)

    def _find(self, request: _Request) -> _Found:
        name = request.data.decode()
        kernels = self._module(request.handle).kernels
        if name not in kernels:
            raise HipError(_NOT_FOUND, f"the module has no kernel {name}")
        number, kernel = next(self._numbers), kernels[name]
        self._functions[number] = request.handle, name
        places = [(a.offset, a.size) for a in kernel.arguments if not a.kind.startswith("hidden_")]
        words = [kernel.kernarg_bytes, *(word for place in places for word in place)]
        return _Found(number, kernel.lds_bytes, struct.pack(f"<{len(words)}I", *words))

    def _launch(self, request: _Request) -> _Found:
        number, name = self._functions[request.handle]
        module = self._module(number)
        gx, gy, gz, bx, by, bz, shared = request.geometry
        if 0 in (gx, gy, gz, bx, by, bz):
            text = f"{name}: a grid of {gx}x{gy}x{gz}, a block of {bx}x{by}x{bz}"
            raise HipError(_INVALID_VALUE, text)
        grid, block = (gx, gy, gz), (bx, by, bz)
        packed = bytearray(request.data[: request.arguments])
        _fill_in(packed, module.kernels[name], grid, block)
        blocks, copies = self._blocks(request)
        self._executor.launch(module, name, grid, block, bytes(packed), blocks, shared_bytes=shared)
        return _Found(data=b"".join(copy.changed() for copy in copies))

    def _blocks(self, request: _Request) -> tuple[list[Block], list[_Copy]]:
        """Return what the kernel may access, and copies of the host's memory in it."""
        blocks, copies = [], []
        shift = self._window.at - self._window.begin
        at = request.arguments + request.blocks * _BLOCK.size
        listed = _BLOCK.iter_unpack(request.data[request.arguments : at])
        for address, size, registered in listed:
            if registered:
                copies.append(_Copy(address, request.data[at : at + size]))
                at += size
                blocks.append(Block(address, size, copies[-1].at))
            else:
                blocks.append(Block(address, size, address + shift))
        return blocks, copies

    def _unload(self, request: _Request) -> _Found:
        self._modules.pop(request.handle, None)
        self._functions = {n: f for n, f in self._functions.items() if f[0] != request.handle}
        return _Found()

    def _executed(self, _: _Request) -> _Found:
        found = {name: sorted(places) for name, places in self._executor.executed.items()}
        self._executor.executed.clear()
        return _Found(data=json.dumps(found).encode())

    def _module(self, number: int) -> Module:
        try:
            return self._modules[number]
        except KeyError:
            raise HipError(_INVALID_HANDLE, f"{number} is no loaded module") from None


class _Copy:
    """Host memory that was registered, which only the host has."""

    def __init__(self, address: int, contents: bytes) -> None:
        room = np.empty(len(contents) + _ALIGN, np.uint8)
        shift = (address - room.ctypes.data) % _ALIGN  # aligned as it is there
        self.address, self._before = address, np.frombuffer(contents, np.uint8)
        self._bytes: NDArray[np.uint8] = room[shift : shift + len(contents)]
        self._bytes[:] = self._before
        self.at = int(room.ctypes.data) + shift

    def changed(self) -> bytes:
        """Return address, size and bytes of the part that the kernel has written to."""
        (places,) = np.nonzero(self._bytes != self._before)
        if not places.size:
            return b""
        low, high = int(places[0]), int(places[-1]) + 1
        return struct.pack("<QQ", self.address + low, high - low) + self._bytes[low:high].tobytes()


_GEOMETRY = {
    f"hidden_{what}_{axis}": (what, number)
    for what in ("block_count", "group_size", "remainder")
    for number, axis in enumerate("xyz")
}


def _fill_in(
    packed: bytearray, kernel: Kernel, grid: tuple[int, int, int], block: tuple[int, int, int]
) -> None:
    """Write the arguments that the runtime fills in."""
    for argument in kernel.arguments:
        if argument.kind in _GEOMETRY:
            what, axis = _GEOMETRY[argument.kind]
            number = {"block_count": grid, "group_size": block}.get(what, (0, 0, 0))[axis]
        elif argument.kind == "hidden_grid_dims":
            number = 3
        else:
            continue
        end = argument.offset + argument.size
        packed[argument.offset : end] = number.to_bytes(argument.size, "little")
