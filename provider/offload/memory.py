# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Memory of a session's device: the host's, or a GPU's by HIP, with freed blocks kept."""

from __future__ import annotations

import ctypes
import threading
from dataclasses import dataclass
from typing import Any, Protocol

from ...graph_api.errors import DeviceError, FormatError
from ...jit.runtime.arrays import aligned_bytes
from ...jit.runtime.hip import call

__all__ = ["FileBytes", "GpuMemory", "HostMemory", "Memory"]

_HOST_TO_DEVICE, _DEVICE_TO_HOST, _DEVICE_TO_DEVICE = 1, 2, 3


@dataclass(frozen=True, slots=True)
class FileBytes:
    """Bytes of a file, which are read to where they are wanted: nothing else holds them."""

    path: str
    offset: int
    nbytes: int

    def read_into(self, target: memoryview) -> None:
        """Fill memory of ``nbytes`` bytes.

        Raises
        ------
        FormatError
            If the file cannot be read, or ends before.
        """
        try:
            with open(self.path, "rb", buffering=0) as file:
                file.seek(self.offset)
                done = 0
                while done < self.nbytes and (count := file.readinto(target[done:])):
                    done += count
        except OSError as error:
            raise FormatError(f"{self.path} cannot be read: {error}") from None
        if done < self.nbytes:
            end = self.offset + self.nbytes
            raise FormatError(f"{self.path} ends at {self.offset + done}; wanted {end} bytes")


class Memory(Protocol):
    """Where the buffers of a session are."""

    def keep(self, data: Any) -> tuple[int, object]:
        """Return the address of a copy of a buffer or `FileBytes`, and what keeps it."""

    def block(self, nbytes: int) -> tuple[int, object]:
        """Return the address of new memory, and what keeps it."""

    def copy(self, target: int, source: int, nbytes: int, stream: int) -> None:
        """Copy bytes from one address to another, in a stream's order."""


class HostMemory:
    """Memory of the host, aligned for IREE."""

    def keep(self, data: Any) -> tuple[int, object]:
        """Return the address of a copy of some bytes, and what keeps it."""
        source = data if isinstance(data, FileBytes) else memoryview(data)
        made = aligned_bytes(max(source.nbytes, 1))
        target = made.data[: source.nbytes]
        if isinstance(source, FileBytes):
            source.read_into(target)
        else:
            target[:] = source
        return made.ctypes.data, made

    def block(self, nbytes: int) -> tuple[int, object]:
        """Return the address of new memory, and what keeps it."""
        made = aligned_bytes(max(nbytes, 1))
        return made.ctypes.data, made

    def copy(self, target: int, source: int, nbytes: int, stream: int) -> None:
        """Copy bytes from one address to another."""
        ctypes.memmove(target, source, nbytes)


class _Block:
    """Memory of a GPU that goes back when nothing refers to it."""

    def __init__(self, memory: GpuMemory, address: int) -> None:
        self.memory, self.address = memory, address

    def __del__(self) -> None:
        self.memory.release(self.address)


class GpuMemory:
    """Memory of one GPU.

    ONNX Runtime puts no arena around an allocator, so blocks that are freed are kept by size: a
    run of the same shapes allocates nothing.  Sizes are rounded up to a quarter of their power of
    two, and at most ``most`` bytes are kept.

    Parameters
    ----------
    device_id : int
        HIP's number.
    most : int
        Bytes of freed blocks that are kept.
    """

    def __init__(self, device_id: int, most: int = 1 << 30) -> None:
        self.device_id, self._most = device_id, most
        self._lock = threading.Lock()
        self._free: dict[int, list[Any]] = {}
        self._used: dict[int, tuple[int, Any]] = {}
        self._kept = 0
        self.statistics = dict.fromkeys(
            ("NumAllocs", "NumReserves", "InUse", "MaxInUse", "MaxAllocSize", "TotalAllocated"), 0
        )

    def allocate(self, nbytes: int) -> int:
        """Return the address of a block.

        Raises
        ------
        DeviceError
            If there is no memory left, after what is kept was given back.
        """
        size = _rounded(nbytes)
        with self._lock:
            kept = self._free.get(size)
            pointer = kept.pop() if kept else None
            if pointer is not None:
                self._kept -= size
        if pointer is None:
            pointer = self._new(size)
        address = int(pointer)
        with self._lock:
            self._used[address] = size, pointer
            known = self.statistics
            known["NumAllocs"] += 1
            known["InUse"] += size
            known["MaxInUse"] = max(known["MaxInUse"], known["InUse"])
            known["MaxAllocSize"] = max(known["MaxAllocSize"], size)
        return address

    def _new(self, size: int) -> Any:
        try:
            pointer = self._hip("hipMalloc", size)
        except DeviceError:
            self.trim()
            pointer = self._hip("hipMalloc", size)
        with self._lock:
            self.statistics["TotalAllocated"] += size
        return pointer

    def release(self, address: int) -> None:
        """Take a block back; one that is not known is none of ours."""
        with self._lock:
            size, pointer = self._used.pop(address, (0, None))
            self.statistics["InUse"] -= size
            if pointer is None:
                return
            if self._kept + size <= self._most:
                self._free.setdefault(size, []).append(pointer)
                self._kept += size
                return
        self._hip("hipFree", pointer)

    def trim(self) -> None:
        """Give blocks that are not in use back to the device."""
        with self._lock:
            blocks = [p for kept in self._free.values() for p in kept]
            self.statistics["TotalAllocated"] -= self._kept
            self._free.clear()
            self._kept = 0
        for pointer in blocks:
            self._hip("hipFree", pointer)

    def keep(self, data: Any) -> tuple[int, object]:
        """Return the address of a copy of some bytes, and what keeps it."""
        nbytes = (data if isinstance(data, FileBytes) else memoryview(data)).nbytes
        address, block = self.block(nbytes)
        host, kept = HostMemory().keep(data)
        self._copy(address, host, nbytes, _HOST_TO_DEVICE)
        del kept
        return address, block

    def block(self, nbytes: int) -> tuple[int, object]:
        """Return the address of new memory, and what keeps it."""
        address = self.allocate(max(nbytes, 1))
        return address, _Block(self, address)

    def copy(self, target: int, source: int, nbytes: int, stream: int) -> None:
        """Copy bytes of the device from one address to another, in a stream's order."""
        self._copy(target, source, nbytes, _DEVICE_TO_DEVICE, stream)

    def transfer(
        self, target: int, source: int, nbytes: int, *, to_gpu: bool, from_gpu: bool, stream: int
    ) -> None:
        """Copy bytes between the host and the device, and wait where the host is the target."""
        kinds = {
            (True, True): _DEVICE_TO_DEVICE,
            (True, False): _HOST_TO_DEVICE,
            (False, True): _DEVICE_TO_HOST,
        }
        if stream and not to_gpu:
            self._hip("hipStreamSynchronize", stream)
        self._copy(target, source, nbytes, kinds[to_gpu, from_gpu], stream if to_gpu else 0)

    def _copy(self, target: int, source: int, nbytes: int, kind: int, stream: int = 0) -> None:
        from hip import hip

        chosen = hip.hipMemcpyKind(kind)
        if stream and kind == _DEVICE_TO_DEVICE:
            self._hip("hipMemcpyAsync", target, source, nbytes, chosen, stream)
        else:
            # From memory of the host that is not pinned, a copy is ordered by waiting.
            if stream:
                self._hip("hipStreamSynchronize", stream)
            self._hip("hipMemcpy", target, source, nbytes, chosen)

    def _hip(self, function: str, *arguments: Any) -> Any:
        call("hipSetDevice", self.device_id, instead=_INSTEAD)
        return call(function, *arguments, instead=_INSTEAD)


_INSTEAD = "the provider's CPU device needs no GPU"


def _rounded(nbytes: int) -> int:
    """Return a size of at least 256 bytes, at most a quarter larger than what is asked for."""
    if nbytes <= 256:
        return 256
    step = 1 << max((nbytes - 1).bit_length() - 3, 8)
    return -(-nbytes // step) * step
