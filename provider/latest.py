"""The values used last, each made when first asked for."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

__all__ = ["Latest"]

V = TypeVar("V")


class Latest(Generic[V]):
    """Values by key, each made once, also when several threads ask at the same time.

    Parameters
    ----------
    keep : int
        How many are kept; the one used least recently goes first.
    """

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._slots: OrderedDict[Hashable, _Slot[V]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """Return the value of a key; ``make`` is called when there is none.

        What ``make`` raises is not remembered.
        """
        with self._lock:
            slot = self._slots.get(key)
            if slot is None:
                slot = self._slots[key] = _Slot()
                while len(self._slots) > self._keep:
                    self._slots.popitem(last=False)
            else:
                self._slots.move_to_end(key)
        if slot.value is not None:
            return slot.value[0]
        with slot.lock:  # other keys go on meanwhile
            if slot.value is None:
                try:
                    slot.value = (make(),)
                except BaseException:
                    with self._lock:
                        if self._slots.get(key) is slot:
                            del self._slots[key]
                    raise
            return slot.value[0]

    def drop(self, key: Hashable) -> None:
        """Let go of the value of a key, if there is one."""
        with self._lock:
            self._slots.pop(key, None)

    def clear(self) -> None:
        """Let go of all values."""
        with self._lock:
            self._slots.clear()

    def __len__(self) -> int:
        return len(self._slots)


class _Slot(Generic[V]):
    __slots__ = ("lock", "value")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.value: tuple[V] | None = None
