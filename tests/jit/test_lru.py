# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The one cache of recently used values."""

from __future__ import annotations

import threading

import pytest
from hipdnn_iree.jit.lru import LruCache


def test_the_most_recently_used_values_are_kept() -> None:
    made = []

    def make(key: int) -> int:
        made.append(key)
        if key < 0:
            raise ValueError(key)
        return key * 10

    cache: LruCache[int] = LruCache(2)
    for key in (1, 2, 1, 3, 1, 2):
        assert cache.get(key, lambda k=key: make(k)) == key * 10  # type: ignore[misc]
    assert made == [1, 2, 3, 2]
    assert len(cache) == 2
    for _ in range(2):
        with pytest.raises(ValueError, match="-1"):
            cache.get(-1, lambda: make(-1))
    assert made[-2:] == [-1, -1]


def test_find_makes_nothing_and_counts_as_use() -> None:
    cache: LruCache[str] = LruCache(2)
    assert cache.find("a") is None
    for key in "ab":
        cache.get(key, key.upper)
    assert cache.find("a") == "A"
    cache.get("c", lambda: "C")
    assert cache.find("b") is None
    cache.drop("a")
    assert cache.find("a") is None
    cache.clear()
    assert len(cache) == 0


def test_a_value_in_use_is_not_dropped() -> None:
    used = {1}
    cache: LruCache[int] = LruCache(1, in_use=used.__contains__)
    for key in (1, 2, 3):
        cache.get(key, lambda k=key: k)  # type: ignore[misc]
    assert len(cache) == 3
    used.clear()
    cache.get(4, lambda: 4)
    assert (len(cache), cache.find(4)) == (1, 4)


def test_threads_that_ask_for_one_key_get_one_value() -> None:
    cache: LruCache[object] = LruCache(4)
    found: list[object] = []
    start = threading.Barrier(8)

    def ask() -> None:
        start.wait()
        found.append(cache.get("key", object))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(map(id, found))) == 1
