# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The values used most recently, by key, each made when first asked for."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar
from weakref import WeakSet

__all__ = ["LruCache"]

V = TypeVar("V")


class LruCache(Generic[V]):
    """Values by key; each is made once, even when several threads ask for it at the same time.

    Parameters
    ----------
    size : int
        Number of values to keep; the least recently used one is dropped first.
    in_use : callable, optional
        Whether a value must not be dropped yet.  While it holds for the least recently used
        value, the cache grows past ``size``.
    """

    __slots__ = ("__weakref__", "_in_use", "_lock", "_size", "_slots")

    def __init__(self, size: int, in_use: Callable[[V], bool] | None = None) -> None:
        self._size = size
        self._in_use = in_use
        self._slots: OrderedDict[Hashable, _Slot[V]] = OrderedDict()
        self._lock = threading.Lock()
        _caches.add(self)

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """Return the value of a key; ``make`` is called if there is none.

        An exception of ``make`` is not remembered.
        """
        with self._lock:
            slot = self._slots.get(key)
            if slot is None:
                slot = self._slots[key] = _Slot()
                self._trim()
            else:
                self._slots.move_to_end(key)
        if slot.value is not None:
            return slot.value[0]
        with slot.lock:  # only this key waits
            if slot.value is None:
                try:
                    slot.value = (make(),)
                except BaseException:
                    with self._lock:
                        if self._slots.get(key) is slot:
                            del self._slots[key]
                    raise
            return slot.value[0]

    def find(self, key: Hashable) -> V | None:
        """Return the value of a key, or None if there is none yet."""
        with self._lock:
            slot = self._slots.get(key)
            if slot is None or slot.value is None:
                return None
            self._slots.move_to_end(key)
            return slot.value[0]

    def values(self) -> list[V]:
        """Return the values, the least recently used one first."""
        with self._lock:
            return [slot.value[0] for slot in self._slots.values() if slot.value is not None]

    def drop(self, key: Hashable) -> None:
        """Drop the value of a key, if there is one."""
        with self._lock:
            self._slots.pop(key, None)

    def clear(self) -> None:
        """Drop all values."""
        with self._lock:
            self._slots.clear()

    def __len__(self) -> int:
        return len(self._slots)

    def _begin(self) -> None:
        """In a forked child, let go of what threads hold or make that it has not got."""
        self._lock = threading.Lock()
        for key in [key for key, slot in self._slots.items() if slot.value is None]:
            del self._slots[key]

    def _trim(self) -> None:
        while len(self._slots) > self._size:
            oldest = next(iter(self._slots.values())).value
            if oldest is not None and self._in_use is not None and self._in_use(oldest[0]):
                return
            self._slots.popitem(last=False)


class _Slot(Generic[V]):
    __slots__ = ("lock", "value")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.value: tuple[V] | None = None


_caches: WeakSet[LruCache[Any]] = WeakSet()


def _after_fork() -> None:
    for cache in tuple(_caches):
        cache._begin()


os.register_at_fork(after_in_child=_after_fork)
