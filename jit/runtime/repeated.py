# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Executing a plan many times between two waits: how kernels of a GPU are timed.

A host that waits for each execution measures its own wait as well: 50 us or more, where the kernel
may take 5.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from .device import Device
from .device_memory import allocate

__all__ = ["FLUSH_BYTES", "Flush", "Repeated", "flush_of"]

FLUSH_BYTES = 512 << 20
"""Bytes that are moved to push all else out of a GPU's caches; the largest cache is the MI300's,
of 256 MB."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Repeated:
    """A call whose data is in a GPU's memory; each function takes a count and waits once.

    Attributes
    ----------
    run : callable
        Executes it so many times.
    cold : callable
        The same, each after other memory was written that is larger than the caches.
    flush : callable
        Writes that memory so many times, and executes nothing: what is subtracted.
    """

    run: Callable[[int], None]
    cold: Callable[[int], None]
    flush: Callable[[int], None]


class Flush:
    """Two buffers of a device, larger than its caches when they are copied to each other."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._buffers = [allocate(device, FLUSH_BYTES // 2) for _ in range(2)]

    def enqueue(self, after: list[tuple[Any, int]], done: tuple[Any, int]) -> None:
        """Copy one to the other on the device."""
        self._device.hal.queue_copy(*self._buffers, after, [done])


@lru_cache(maxsize=4)
def flush_of(device: Device) -> Flush:
    """Return the buffers of a device, which are made once."""
    return Flush(device)
