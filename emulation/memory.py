# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Device memory: allocations of this process, read and written at 64 lanes' addresses at a time.

Each allocation has an address for kernels and a place in this process, which are the same unless
the caller says otherwise.  Every access of a kernel is checked against the allocations; bytes next
to one belong to none.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from threading import RLock
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .errors import EmulationError

__all__ = ["POISON", "Allocation", "Memory", "Region", "aligned"]

POISON = 0xFF  # NaN in every floating-point format that has one under it
FIRST = 4096  # NumPy takes a null pointer for "none", and nothing lies in the first page
SPACE = (1 << 47) - FIRST  # what a process on x86-64 can address
ALIGN = 256
GUARD = 256  # bytes around an allocation that belong to none

Words: TypeAlias = NDArray[np.uint32]
Offsets: TypeAlias = NDArray[np.int64]


class _Everything:
    """The address space of this process as an array; nothing is touched by making it."""

    def __init__(self, start: int, size: int, typestr: str, itemsize: int) -> None:
        self.__array_interface__ = {
            "data": (start, False),
            "shape": (size // itemsize,),
            "typestr": typestr,
            "version": 3,
        }


class Region:
    """Bytes with loads and stores at any alignment: LDS, scratch, or the whole address space.

    Parameters
    ----------
    data : numpy.ndarray of uint8, shape (size,)
        The bytes; 16-byte aligned, or slow.
    """

    def __init__(self, data: NDArray[np.uint8]) -> None:
        self.u8 = data
        self.u16 = data[: data.size & ~1].view(np.uint16)
        self.u32 = data[: data.size & ~3].view(np.uint32)
        self.u64 = data[: data.size & ~7].view(np.uint64)
        self.u128 = data[: data.size & ~15].view("V16")

    def load(self, at: Offsets, size: int) -> list[Words]:
        """Load `size` bytes (1, 2, or 4 for each word) at each offset.

        Returns
        -------
        list of numpy.ndarray of uint32, each of the shape of `at`
            One array for each 32-bit word; narrower values are extended with zeros.
        """
        words = (size + 3) // 4
        bits = int(np.bitwise_or.reduce(at, axis=None)) if at.size else 0
        if size == 16 and not bits & 15:
            block = self.u128[at >> 4][..., None].view(np.uint32)
            return [block[..., k] for k in range(4)]
        if size == 8 and not bits & 7:
            block = self.u64[at >> 3][..., None].view(np.uint32)
            return [block[..., k] for k in range(2)]
        if size >= 4 and not bits & 3:
            first = at >> 2
            return [self.u32[first + k if k else first] for k in range(words)]
        if size == 2 and not bits & 1:
            return [self.u16[at >> 1].astype(np.uint32)]
        return [self._bytes(at + 4 * k, min(4, size - 4 * k)) for k in range(words)]

    def _bytes(self, at: Offsets, size: int) -> Words:
        out = self.u8[at].astype(np.uint32)
        for j in range(1, size):
            out |= self.u8[at + j].astype(np.uint32) << np.uint32(8 * j)
        return out

    def store(self, at: Offsets, size: int, words: list[Words]) -> None:
        """Store `size` bytes out of `words` at each offset; of equal offsets the last one wins."""
        bits = int(np.bitwise_or.reduce(at, axis=None)) if at.size else 0
        if size >= 4 and not bits & 3:
            first = at >> 2
            for k, x in enumerate(words):
                self.u32[first + k if k else first] = x
        elif size == 2 and not bits & 1:
            self.u16[at >> 1] = words[0].astype(np.uint16)
        else:
            for k, x in enumerate(words):
                for j in range(min(4, size - 4 * k)):
                    self.u8[at + (4 * k + j)] = (x >> np.uint32(8 * j)).astype(np.uint8)


@dataclass(frozen=True, slots=True)
class Allocation:
    """One allocation.

    Attributes
    ----------
    address, size : int
        Bytes.
    name : str
        For messages.
    read_only : bool
        Kernels may not write it (arguments, code).
    data : numpy.ndarray of uint8 or None
        What keeps the bytes alive; None for memory that the caller owns.
    at : int
        Where the bytes lie in this process.
    """

    address: int
    size: int
    name: str
    read_only: bool
    data: NDArray[np.uint8] | None
    at: int


def aligned(size: int, guard: int = 0) -> NDArray[np.uint8]:
    """Return so many bytes, of which the first is 256-byte aligned, between others."""
    data = np.empty(size + ALIGN + 2 * guard, np.uint8)
    start = (-int(data.ctypes.data) - guard) % ALIGN + guard
    return data[start : start + size]


class Memory:
    """The memory of one device.

    Parameters
    ----------
    limit : int
        Bytes that may be allocated at the same time.
    own : int, optional
        The address that the first of its own allocations has for kernels, the next ones after
        it; by default each has the one that it has in this process.

    Notes
    -----
    Calls from several threads are safe; a buffer freed while a kernel uses it is not.
    """

    def __init__(self, limit: int = 8 << 30, *, own: int | None = None) -> None:
        self.limit = limit
        self.used = 0
        self._next = own
        self._table: dict[int, Allocation] = {}
        self._starts: list[int] = []
        self._lock = RLock()
        self.space = Region(np.asarray(_Everything(FIRST, SPACE, "|u1", 1)))

    def allocate(self, size: int, name: str = "", *, read_only: bool = False) -> int:
        """Allocate poisoned memory, 256-byte aligned; return its address.

        Raises
        ------
        EmulationError
            If the limit of this device would be passed.
        """
        with self._lock:
            if self.used + size > self.limit:
                raise EmulationError(
                    f"device memory: {size} bytes wanted, {self.used} in use,"
                    f" the limit is {self.limit}"
                )
            data = aligned(size, GUARD)
            data[:] = POISON
            address = at = int(data.ctypes.data)
            if self._next is not None:
                address = self._next
                self._next += (size + GUARD + ALIGN) // ALIGN * ALIGN
            name = name or f"allocation {address:#x}"
            self._add(Allocation(address, size, name, read_only, data, at))
            self.used += size
            return address

    def register(
        self,
        address: int,
        size: int,
        name: str = "",
        *,
        read_only: bool = False,
        at: int | None = None,
    ) -> None:
        """Let kernels use memory of the caller, who keeps it alive until `free`.

        It lies at ``at`` in this process (by default at its address), which is aligned likewise.
        """
        name = name or f"host memory {address:#x}"
        at = address if at is None else at
        with self._lock:
            self._add(Allocation(address, size, name, read_only, None, at))

    def protect(self, address: int) -> None:
        """Make the allocation that begins there read-only for kernels."""
        with self._lock:
            self._table[address] = replace(self._table[address], read_only=True)

    def free(self, address: int) -> None:
        """Forget what `allocate` or `register` gave this address.

        Raises
        ------
        EmulationError
            If no allocation begins there.
        """
        with self._lock:
            gone = self._table.pop(address, None)
            if gone is None:
                raise EmulationError(f"device memory: no allocation begins at {address:#x}")
            self._starts.remove(address)
            if gone.data is not None:
                self.used -= gone.size

    def find(self, address: int) -> Allocation | None:
        """Return the allocation that holds this byte."""
        with self._lock:
            at = bisect_right(self._starts, address) - 1
            if at < 0:
                return None
            found = self._table[self._starts[at]]
            return found if address < found.address + found.size else None

    def view(self, address: int, size: int) -> NDArray[np.uint8]:
        """Return the bytes there as an array that shares them.

        Raises
        ------
        EmulationError
            If they do not all lie in one allocation.
        """
        found = self.find(address)
        if size and (found is None or address + size > found.address + found.size):
            raise EmulationError(
                f"device memory: {size} bytes at {address:#x} are in no allocation"
            )
        start = address - FIRST + (found.at - found.address if found else 0)
        return self.space.u8[start : start + size]

    def _add(self, new: Allocation) -> None:
        at = bisect_right(self._starts, new.address)
        before = self._table[self._starts[at - 1]] if at else None
        after = self._starts[at] if at < len(self._starts) else None
        if (before and before.address + before.size > new.address) or (
            after is not None and new.address + new.size > after
        ):
            raise EmulationError(f"device memory: {new.name} overlaps another allocation")
        self._starts.insert(at, new.address)
        self._table[new.address] = new

    def check(self, address: Offsets, size: int, *, write: bool) -> Offsets:
        """Check the addresses of one access; return them as offsets into `space`.

        Parameters
        ----------
        address : numpy.ndarray of int64, any shape
            Of the lanes that are on.
        size : int
            Bytes at each.
        write : bool
            Whether the access writes.

        Raises
        ------
        EmulationError
            If any byte is outside all allocations, or may not be written.
        """
        low, high = int(address.min()), int(address.max())
        found = self.find(low)
        if found is None or high + size > found.address + found.size:
            return self._check_each(address, size, write)
        if write and found.read_only:
            raise EmulationError(f"store into {found.name} at {low:#x}, which is read-only")
        return address + (found.at - found.address - FIRST)

    def _check_each(self, address: Offsets, size: int, write: bool) -> Offsets:
        with self._lock:
            starts = np.array([0, *self._starts], np.int64)
            items = [self._table[x] for x in self._starts]
        ends = np.array([0, *(x.address + x.size for x in items)], np.int64)
        at = np.searchsorted(starts, address, side="right") - 1
        bad = (address < 0) | (address + size > ends[np.maximum(at, 0)])
        if bad.any():
            raise EmulationError(self._explain(int(address[bad].flat[0]), size, write))
        if write:
            fixed = np.array([False, *(x.read_only for x in items)])[at]
            if fixed.any():
                where = int(address[fixed].flat[0])
                raise EmulationError(
                    f"store into {items[int(at[fixed].flat[0]) - 1].name} at {where:#x},"
                    " which is read-only"
                )
        return address + np.array([0, *(x.at - x.address - FIRST for x in items)], np.int64)[at]

    def _explain(self, address: int, size: int, write: bool) -> str:
        kind = "store" if write else "load"
        text = f"{kind} of {size} bytes at {address & (1 << 64) - 1:#x} is outside every allocation"
        with self._lock:
            at = bisect_right(self._starts, address) - 1
            near = []
            if at >= 0:
                x = self._table[self._starts[at]]
                near.append(
                    f"{address - x.address - x.size:+d} bytes from the end of {x.name}"
                    f" ({x.size} bytes)"
                )
            if at + 1 < len(self._starts):
                x = self._table[self._starts[at + 1]]
                near.append(
                    f"{address - x.address:+d} bytes from the start of {x.name} ({x.size} bytes)"
                )
        return text + (": " + "; ".join(near) if near else "")


def view_as(memory: Memory, address: int, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Return an array of that shape and type that shares device memory."""
    kind = np.dtype(dtype)
    size = kind.itemsize * int(np.prod(shape, dtype=np.int64))
    array: NDArray[Any] = memory.view(address, size).view(kind).reshape(shape)
    return array
