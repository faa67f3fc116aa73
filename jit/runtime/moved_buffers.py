# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Buffers over host memory that is another at each call.

To import memory and to make a view of it costs more than a microsecond for each argument.  IREE's
buffer over host memory holds the address in one word, which all that use the buffer read; to
change it moves the buffer.  Python has no call for that, so the word is looked for, once: it must
be the only one found in two buffers over different memory, and clearing a buffer that was moved
must clear the other memory, and nothing else.  Where that does not hold, nothing is moved.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ..signature import ArgSpec
from .arrays import ALIGNMENT
from .device import Device
from .device_memory import as_view, importer

__all__ = ["MovedBuffers", "can_move", "moved_buffers"]

_WORD = 8
_REACH = 256  # bytes of IREE's structure that are looked at
_places: dict[str, _Place | None] = {}  # by driver


class _Place(NamedTuple):
    """Offsets: of the pointer in Python's object, and of the address in what it points to."""

    pointer: int
    address: int

    def word(self, buffer: Any) -> ctypes.c_size_t:
        """Return the word of a buffer, which must outlive it."""
        inner = ctypes.c_size_t.from_address(id(buffer) + self.pointer).value
        return ctypes.c_size_t.from_address(inner + self.address)


class MovedBuffers(NamedTuple):
    """Arguments whose memory can be exchanged, for one call at a time.

    Attributes
    ----------
    refs : list
        Views of the tensors, and the buffer of a workspace of the caller's.
    words : list of c_size_t
        Where each has its address.
    """

    refs: list[Any]
    words: list[ctypes.c_size_t]

    def move(self, addresses: Iterable[int]) -> None:
        """Put the buffers where the caller's memory is; it must be aligned."""
        for word, address in zip(self.words, addresses, strict=True):
            word.value = address


def can_move(device: Device) -> bool:
    """Return whether buffers of a device can be moved."""
    return _place(device) is not None


def moved_buffers(
    device: Device, specs: Sequence[ArgSpec], workspace_bytes: int, addresses: Sequence[int]
) -> MovedBuffers:
    """Return buffers over memory at addresses, the last of them that of a workspace, if any."""
    place = _place(device)
    assert place is not None, "can_move says so"
    found = MovedBuffers([], [])
    for spec, address in zip(specs, addresses, strict=False):
        buffer = importer(device, spec.nbytes)(address)
        found.refs.append(as_view(buffer, spec))
        found.words.append(place.word(buffer))
    if len(addresses) > len(specs):
        buffer = importer(device, workspace_bytes)(addresses[-1])
        found.refs.append(buffer)
        found.words.append(place.word(buffer))
    return found


def _place(device: Device) -> _Place | None:
    if device.driver not in _places:
        try:
            _places[device.driver] = _found(device) if device.on_host else None
        except OSError:  # no /proc
            _places[device.driver] = None
    return _places[device.driver]


def _found(device: Device) -> _Place | None:
    own = ctypes.create_string_buffer(3 * ALIGNMENT)
    one = -(-ctypes.addressof(own) // ALIGNMENT) * ALIGNMENT
    other = one + ALIGNMENT
    take = importer(device, ALIGNMENT)
    buffers = {address: take(address) for address in (one, other)}
    places = set.intersection(*(_holders(buffer, at) for at, buffer in buffers.items()))
    if len(places) != 1:
        return None
    (place,) = places
    word = place.word(buffers[one])
    ctypes.memset(one, 1, 2 * ALIGNMENT)
    word.value = other
    try:
        buffers[one].fill_zero(0, ALIGNMENT)
    finally:
        word.value = one
    return place if ctypes.string_at(one, 2 * ALIGNMENT) == _CLEARED else None


_CLEARED = b"\1" * ALIGNMENT + bytes(ALIGNMENT)


def _holders(buffer: Any, address: int) -> set[_Place]:
    """Return where a buffer may hold its address; memory that is not there is not touched."""
    found = set()
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        for pointer in range(0, type(buffer).__basicsize__, _WORD):
            inner = ctypes.c_size_t.from_address(id(buffer) + pointer).value
            try:
                seen = os.pread(memory.fileno(), _REACH, inner)
            except (OSError, OverflowError):
                continue
            for at in range(0, len(seen) - _WORD + 1, _WORD):
                if seen[at : at + _WORD] == address.to_bytes(_WORD, "little"):
                    found.add(_Place(pointer, at))
    return found
