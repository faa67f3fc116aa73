# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Eviction: which entries go, what trimming does to readers, writers, clocks and leftovers."""

from __future__ import annotations

import fcntl
import logging
import os
import random
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from hipdnn_iree.jit.cache import CacheKey, CacheStore

SIZE = 4000


def key(number: int) -> CacheKey:
    return CacheKey({"graph": f"g{number}"})


def files(number: int) -> dict[str, bytes]:
    return {"module.vmfb": random.Random(number).randbytes(SIZE)}


def file_of(store: CacheStore, number: int) -> Path:
    digest = key(number).digest
    return store.root / "v2" / digest[:2] / digest


def fill(store: CacheStore, numbers: range, ages: dict[int, float] | None = None) -> None:
    """Put entries; ``ages`` are seconds since the last use, negative ones in the future."""
    now = time.time()
    for number in numbers:
        store.put(key(number), files(number), {"n": number})
        used = now - (ages or {}).get(number, 0)
        os.utime(file_of(store, number), (used, used))


def present(store: CacheStore, numbers: range) -> set[int]:
    return {number for number in numbers if file_of(store, number).is_file()}


@pytest.fixture(autouse=True)
def _no_fsync(monkeypatch) -> None:
    """Hundreds of puts on a busy disk take a minute; no test here cuts the power."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


@pytest.fixture
def store(tmp_path) -> CacheStore:
    return CacheStore(tmp_path / "cache", max_bytes=None)


def warnings(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_trim_removes_the_least_recently_used_down_to_the_cap(store) -> None:
    ages = {0: 500, 1: 100, 2: 400, 3: 200, 4: 300}
    fill(store, range(5), ages)
    each = store.info().nbytes // 5
    assert store.trim().entries == 0  # no cap
    removed = store.trim(3 * each + 50)
    assert (removed.entries, removed.nbytes_left) == (2, store.info().nbytes)
    assert present(store, range(5)) == {1, 3, 4}
    assert store.trim(each + 50).entries == 2
    assert present(store, range(5)) == {1}
    assert store.trim(0).entries == 1
    assert store.info().entries == store.info().nbytes == 0
    assert os.listdir(store.root / "v2/tmp") == []


def test_use_saves_an_entry_from_eviction(store) -> None:
    fill(store, range(4), {0: 4000, 1: 3000, 2: 2000, 3: 1000})
    assert store.get(key(0)) is not None
    store.trim(int(2.5 * store.info().nbytes / 4))
    assert present(store, range(4)) == {0, 3}


def test_time_of_use_is_written_at_most_once_a_minute(store, monkeypatch) -> None:
    calls = []
    real = os.utime

    def counted(*args, **options):
        calls.append(args)
        real(*args, **options)

    fill(store, range(1), {0: 59})
    monkeypatch.setattr(os, "utime", counted)
    store.get(key(0))
    assert calls == []
    real(file_of(store, 0), (time.time() - 61,) * 2)
    for _ in range(5):
        assert store.get(key(0)) is not None
    assert len(calls) == 1


def test_clock_skew_a_use_in_the_future_is_put_right(store) -> None:
    fill(store, range(3), {0: -1e6, 1: 100, 2: 200})
    assert store.info().newest > time.time() + 1e5
    assert store.get(key(0)) is not None
    assert abs(store.info().newest - time.time()) < 30
    fill(store, range(3), {0: -1e6, 1: 100, 2: 200})
    os.utime(file_of(store, 0), (time.time() + 1e6,) * 2)
    assert store.trim(0).entries == 3
    assert store.info().entries == 0


def test_put_keeps_the_cache_under_its_cap(tmp_path) -> None:
    cap = 20 * SIZE
    store = CacheStore(tmp_path / "cache", max_bytes=cap)
    for number in range(60):
        made = store.put(key(number), files(number), {})
        assert made.path is not None
        assert made.path.is_file()  # the newest one is never evicted for itself
        assert store.info().nbytes <= cap
    assert store.info().entries >= 10
    assert store.verify() == []


def test_put_sees_what_other_processes_have_added(tmp_path) -> None:
    cap = 10 * SIZE
    store = CacheStore(tmp_path / "cache", max_bytes=cap)
    store.put(key(0), files(0), {})
    fill(CacheStore(store.root, max_bytes=None), range(100, 140))
    for number in range(1, 70):
        store.put(key(number % 5), files(number % 5), {})
    assert store.info().nbytes <= cap


def test_a_put_does_not_look_at_all_entries(tmp_path, monkeypatch) -> None:
    layout = type(CacheStore(tmp_path)._layout)
    real, counts = layout.entries, []

    def counted(self):
        counts.append(1)
        return real(self)

    monkeypatch.setattr(layout, "entries", counted)
    for number in range(20):  # each time as a new process would
        CacheStore(tmp_path / "cache", max_bytes=10**9).put(key(number), files(number), {})
    assert len(counts) == 1
    assert layout(tmp_path / "cache").sizes.add(0) == CacheStore(tmp_path / "cache").info().nbytes


@pytest.mark.parametrize(
    "damage",
    [b"", b"=x\n", b"=-5\n", b"=1\n\n", b"=" + b"9" * 40 + b"\n", b"1\n", b"\xff\n"],
)
def test_a_damaged_sizes_is_made_anew(tmp_path, damage) -> None:
    store = CacheStore(tmp_path / "cache", max_bytes=10**9)
    fill(store, range(3))
    sizes = store.root / "v2/sizes"
    sizes.write_bytes(damage)
    store.put(key(3), files(3), {})
    assert int(sizes.read_text()[1:]) == store.info().nbytes
    assert store.info().entries == 4


def test_a_wrong_sizes_removes_nothing_that_may_stay(tmp_path) -> None:
    store = CacheStore(tmp_path / "cache", max_bytes=100 * SIZE)
    fill(store, range(5))
    (store.root / "v2/sizes").write_bytes(b"=123456789012\n")
    store.put(key(5), files(5), {})
    assert present(store, range(6)) == set(range(6))
    assert int((store.root / "v2/sizes").read_text()[1:]) == store.info().nbytes


def test_the_entries_are_counted_again_now_and_then(tmp_path) -> None:
    store = CacheStore(tmp_path / "cache", max_bytes=100 * SIZE)
    fill(store, range(2))
    (store.root / "v2/sizes").write_bytes(b"=0\n" + b"0\n" * 1025)
    store.put(key(2), files(2), {})
    assert int((store.root / "v2/sizes").read_text()[1:]) == store.info().nbytes


def test_entry_above_the_cap_is_returned_but_not_stored(tmp_path, caplog) -> None:
    store = CacheStore(tmp_path / "cache", max_bytes=SIZE + 500)
    fill(store, range(1))
    made = store.put(key(1), {"module.vmfb": bytes(10 * SIZE)}, {})
    assert made.path is None
    assert made.read("module.vmfb") == bytes(10 * SIZE)
    store.put(key(2), {"module.vmfb": bytes(10 * SIZE)}, {})
    assert present(store, range(3)) == {0}
    assert len(warnings(caplog)) == 1


def test_entry_used_after_the_look_stays(store, monkeypatch) -> None:
    fill(store, range(3), {0: 3000, 1: 2000, 2: 1000})
    each = store.info().nbytes // 3
    layout = type(store._layout)
    real = layout.remove

    def used_meanwhile(self, place, inode):
        if place == file_of(store, 0):
            store.get(key(1))
        return real(self, place, inode)

    monkeypatch.setattr(layout, "remove", used_meanwhile)
    assert store.trim(each + 10).entries == 2
    assert present(store, range(3)) == {1}


def test_entry_replaced_after_the_look_stays(store) -> None:
    fill(store, range(1))
    old = store._layout.look(file_of(store, 0))
    other = store.root / "other"
    file_of(store, 0).rename(other)  # keeps its inode taken, so that the new one differs
    fill(store, range(1))
    assert old is not None
    assert not store._layout.remove(file_of(store, 0), old.inode)
    assert store.get(key(0)) is not None


def test_clear_removes_entries_and_nothing_else(store) -> None:
    fill(store, range(5), {0: -1e6})
    for name in ("notes.txt", "v2/notes.txt", "v2/ab/notes.txt", "v0/ab/" + "a" * 64 + "/x"):
        (store.root / name).parent.mkdir(parents=True, exist_ok=True)
        (store.root / name).write_bytes(b"mine")
    removed = store.clear()
    assert (removed.entries, removed.nbytes_left) == (5, 0)
    assert store.info().entries == 0
    left = sorted(str(p.relative_to(store.root)) for p in store.root.rglob("*") if p.is_file())
    assert left == sorted(
        ["notes.txt", "v2/notes.txt", "v2/ab/notes.txt", "v0/ab/" + "a" * 64 + "/x"]
    )


def test_leftovers_of_the_dead_go_after_an_hour_and_those_of_the_living_stay(store) -> None:
    fill(store, range(1))
    scratch, locks = store.root / "v2/tmp", store.root / "v2/locks"
    now = time.time()
    ages = {"young": 60, "ahead": -1, "old": 3700, "future": -5000, "old-but-alive": 3700}
    for name, age in ages.items():
        (scratch / name).write_bytes(b"half")
        os.utime(scratch / name, (now - age, now - age))
    (scratch / "file").write_bytes(b"")
    os.utime(scratch / "file", (now - 4000, now - 4000))
    (locks / key(5).digest).write_bytes(b"")
    (locks / key(6).digest).write_bytes(b"")
    alive = os.open(scratch / "old-but-alive", os.O_RDONLY)
    held = os.open(locks / key(6).digest, os.O_RDWR)
    try:
        fcntl.flock(alive, fcntl.LOCK_EX)
        fcntl.flock(held, fcntl.LOCK_EX)
        assert store.trim().leftovers == 4
        assert sorted(os.listdir(scratch)) == ["ahead", "old-but-alive", "young"]
        assert os.listdir(locks) == [key(6).digest]
    finally:
        os.close(alive)
        os.close(held)
    assert store.trim().leftovers == 2
    assert sorted(os.listdir(scratch)) == ["ahead", "young"]
    assert os.listdir(locks) == []
    assert store.get(key(0)) is not None


def test_a_reader_keeps_what_it_has_opened(store, monkeypatch, caplog) -> None:
    """An entry is one file, which is there until its last reader has closed it."""
    fill(store, range(1))
    real, opened = os.open, []

    def removed_while_open(path, *args, **options):
        fd = real(path, *args, **options)
        if str(path).endswith(file_of(store, 0).name) and not opened:
            opened.append(1)
            store.clear()
        return fd

    monkeypatch.setattr(os, "open", removed_while_open)
    entry = store.get(key(0))
    assert opened == [1]
    assert entry is not None
    assert entry.read("module.vmfb") == files(0)["module.vmfb"]
    assert store.get(key(0)) is None
    assert warnings(caplog) == []
    assert store.info().damaged == 0


def test_reads_writes_and_trims_at_the_same_time(store, caplog, until) -> None:
    numbers = range(12)
    fill(store, numbers)
    stop = threading.Event()
    wrong: list[object] = []
    hits = [0]
    rounds: Counter[int] = Counter()

    def guarded(work) -> None:
        try:
            data = random.Random(work.__name__)
            while not stop.is_set():
                work(data.choice(numbers))
                rounds[threading.get_ident()] += 1
        except BaseException as exc:
            wrong.append(exc)

    def read(number: int) -> None:
        entry = store.get(key(number))
        if entry is not None:
            hits[0] += 1
            if entry.read("module.vmfb") != files(number)["module.vmfb"]:
                wrong.append(number)

    def write(number: int) -> None:
        made = store.put(key(number), files(number), {"n": number})
        if made.path is None or made.read("module.vmfb") != files(number)["module.vmfb"]:
            wrong.append(made)

    def trim(number: int) -> None:
        store.trim(number * SIZE)

    def clear(number: int) -> None:
        store.clear()
        time.sleep(0.01)

    threads = [
        threading.Thread(target=guarded, args=(work,))
        for work in (read, read, write, write, trim, trim, clear)
    ]
    for thread in threads:
        thread.start()
    until(lambda: wrong or (hits[0] > 10 and len(rounds) == 7 and min(rounds.values()) > 30))
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert warnings(caplog) == []
    assert store.info().damaged == 0
    assert store.verify() == []
    assert store.info().nbytes <= sum(entry.nbytes + 1000 for entry in store.entries())
    assert os.listdir(store.root / "v2/tmp") == []
