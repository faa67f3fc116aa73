"""A memo in front of the store: what this process has loaded, least recently used goes first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Generic, TypeVar

from .locks import run_in_forked_child

__all__ = ["MemoryCache", "MemoryInfo"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MemoryInfo:
    """Contents and counters of a memo."""

    entries: int
    nbytes: int
    max_bytes: int
    hits: int
    misses: int


class MemoryCache(Generic[T]):
    """Values by digest, at most ``max_bytes`` of them; safe for threads and after a fork.

    Parameters
    ----------
    max_bytes : int
        Cap on the sum of the sizes that ``put`` is told; 0 keeps nothing.

    Notes
    -----
    The values are shared, so they must not be changed.  A child made by ``fork`` keeps what its
    parent had loaded, unless another thread was just changing the memo: then it starts empty.
    Counters start at zero in the child.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._values: OrderedDict[str, tuple[T, int]] = OrderedDict()
        self._start()
        run_in_forked_child(self._after_fork)

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._nbytes = sum(size for _, size in self._values.values())
        self._hits = self._misses = 0

    def _after_fork(self) -> None:
        if self._lock.locked():  # by a thread that does not exist in this child
            self._values = OrderedDict()
        self._start()

    def get(self, digest: str) -> T | None:
        """Return the value of a digest and mark it as used, or None."""
        with self._lock:
            found = self._values.get(digest)
            if found is None:
                self._misses += 1
                return None
            self._hits += 1
            self._values.move_to_end(digest)
            return found[0]

    def put(self, digest: str, value: T, nbytes: int) -> T:
        """Keep a value of ``nbytes`` bytes and return the one that is kept.

        If another thread was first, its value stays and is returned, so that all threads share
        one.  A value above the cap is returned but not kept.
        """
        dropped: list[tuple[T, int]] = []  # freed after the lock: a finaliser may come back here
        with self._lock:
            found = self._values.get(digest)
            if found is not None:
                self._values.move_to_end(digest)
                return found[0]
            if nbytes > self.max_bytes:
                return value
            self._values[digest] = (value, nbytes)
            self._nbytes += nbytes
            while self._nbytes > self.max_bytes:
                dropped.append(self._values.popitem(last=False)[1])
                self._nbytes -= dropped[-1][1]
        return value

    def discard(self, digest: str) -> bool:
        """Forget one digest; return whether it was there."""
        with self._lock:
            found = self._values.pop(digest, None)
            if found is not None:
                self._nbytes -= found[1]
            return found is not None

    def clear(self) -> None:
        """Forget everything; the counters stay."""
        with self._lock:
            dropped, self._values = self._values, OrderedDict()
            self._nbytes = 0
        dropped.clear()

    def info(self) -> MemoryInfo:
        """Return number, bytes and counters."""
        with self._lock:
            return MemoryInfo(
                len(self._values), self._nbytes, self.max_bytes, self._hits, self._misses
            )
