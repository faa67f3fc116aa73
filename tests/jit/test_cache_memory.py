"""The memo in memory: least recently used goes first, by bytes; threads; forks."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from pathlib import Path

from hipdnn_iree.jit.cache import MemoryCache
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[2]


def test_least_recently_used_goes_first() -> None:
    memo: MemoryCache[str] = MemoryCache(100)
    for name in "abc":
        memo.put(name, name.upper(), 30)
    assert memo.get("a") == "A"
    memo.put("d", "D", 30)
    assert memo.get("b") is None
    assert [memo.get(name) for name in "acd"] == ["A", "C", "D"]
    info = memo.info()
    assert (info.entries, info.nbytes, info.hits, info.misses) == (3, 90, 4, 1)


def test_first_value_stays_and_too_large_ones_are_not_kept() -> None:
    memo: MemoryCache[str] = MemoryCache(100)
    assert memo.put("a", "first", 10) == "first"
    assert memo.put("a", "second", 10) == "first"
    assert memo.put("b", "huge", 101) == "huge"
    assert memo.get("b") is None
    assert memo.get("a") == "first"
    assert memo.discard("a")
    assert not memo.discard("a")
    memo.put("c", "x", 100)
    memo.clear()
    assert (memo.info().entries, memo.info().nbytes) == (0, 0)
    none: MemoryCache[str] = MemoryCache(0)
    assert none.put("a", "x", 1) == "x"
    assert none.get("a") is None


@given(
    st.lists(st.tuples(st.sampled_from("pgd"), st.integers(0, 6), st.integers(0, 50)), max_size=60)
)
def test_memo_behaves_like_a_list_in_order_of_use(steps) -> None:
    memo: MemoryCache[int] = MemoryCache(100)
    model: list[tuple[str, int]] = []  # oldest first: name, size; the size is the value
    for step, number, size in steps:
        name = str(number)
        known = dict(model)
        if step == "g":
            assert memo.get(name) == known.get(name)
        elif step == "d":
            assert memo.discard(name) is (name in known)
        else:
            assert memo.put(name, size, size) == known.get(name, size)
        if name in known:
            model.remove((name, known[name]))
        if step != "d" and name in known:
            model.append((name, known[name]))
        elif step == "p":
            model.append((name, size))
        while sum(size for _, size in model) > 100:
            model.pop(0)
        info = memo.info()
        assert (info.entries, info.nbytes) == (len(model), sum(size for _, size in model))


def test_threads_share_one_value_and_never_pass_the_cap() -> None:
    memo: MemoryCache[tuple[str, int]] = MemoryCache(500)
    wrong: list[object] = []

    def work(seed: int) -> None:
        data = random.Random(seed)
        for _ in range(3000):
            name = str(data.randrange(20))
            found = memo.get(name) or memo.put(name, (name, seed), 50)
            if found[0] != name:
                wrong.append((name, found))
            if data.random() < 0.05:
                memo.discard(name)
            if memo.info().nbytes > 500:
                wrong.append(memo.info())

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert memo.info().nbytes == 50 * memo.info().entries


def test_finaliser_of_a_dropped_value_may_use_the_memo() -> None:
    memo: MemoryCache[object] = MemoryCache(10)

    class Asks:
        def __del__(self) -> None:
            seen.append(memo.info().entries)

    seen: list[int] = []
    memo.put("a", Asks(), 10)
    memo.put("b", object(), 10)
    memo.put("a", Asks(), 10)
    memo.discard("a")
    memo.put("a", Asks(), 10)
    memo.clear()
    assert len(seen) == 3


FORKS = """
import os, signal, sys, threading
signal.alarm(100)  # whatever goes wrong, no process outlives its test for long
from hipdnn_iree.jit.cache import MemoryCache
memo = MemoryCache(1000)
memo.put("kept", "value", 1)
memo.get("kept")
def spin():
    n = 0
    while True:
        n += 1
        memo.put(str(n % 50), n, 7)
        memo.get(str(n % 31))
for _ in range(3):
    threading.Thread(target=spin, daemon=True).start()
locked = 0
for n in range(60):
    if n % 2:                       # every second time for sure in a bad moment
        memo._lock.acquire()
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)            # a child does not inherit it
        info = memo.info()          # would hang for ever on a lock nobody holds
        good = info.hits == 0 and info.nbytes <= 1000
        memo.put("new", "child", 5)
        good = good and memo.get("new") == "child"
        os._exit(0 if good else 1)
    if n % 2:
        memo._lock.release()
    if os.waitpid(pid, 0)[1]:
        sys.exit("a child failed")
print("ok")
"""


def test_fork_while_other_threads_use_the_memo() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKS],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.stdout.strip(), done.returncode) == ("ok", 0), done.stderr
