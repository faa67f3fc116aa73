# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The store under many processes: integrity, kill -9, one build for all, forks."""

from __future__ import annotations

import fcntl
import inspect
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hipdnn_iree.jit.cache import CacheKey, CacheStore, Entry
from hipdnn_iree.jit.cache.locks import key_lock

ROOT = Path(__file__).resolve().parents[2]


def key(n: int) -> CacheKey:
    return CacheKey({"graph": f"g{n}", "flags": ("-a", str(n))})


def files(n: int) -> dict[str, bytes]:
    data = random.Random(n)
    return {"module.vmfb": data.randbytes(data.randrange(100_000)), "module.mlir": b"m" * (n % 97)}


def check(n: int, entry: Entry) -> None:
    """Contents follow from the number, in parent and children alike."""
    assert entry.manifest == {"n": n}, (n, entry.manifest)
    assert {name: entry.read(name) for name in entry.names} == files(n), n


COMMON = """
from __future__ import annotations
import logging, os, random, signal, sys, time
signal.alarm(300)  # whatever goes wrong, no process outlives its test for long
from hipdnn_iree.jit.cache import CacheKey, CacheStore
logging.basicConfig(level=logging.WARNING, format="%(message)s")  # to stderr
""" + "".join(map(inspect.getsource, (key, files, check)))


_started: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def _end_all_processes() -> Iterator[None]:
    yield
    while _started:
        process = _started.pop()
        process.kill()
        process.communicate()


def start(code: str, *args: object) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", COMMON + code, *map(str, args)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    _started.append(process)
    return process


def finish(process: subprocess.Popen[str], timeout: float = 300) -> str:
    out, err = process.communicate(timeout=timeout)
    assert process.returncode == 0, err
    assert err == ""  # no warning either
    return out


def says(path: Path, text: str) -> bool:
    return path.exists() and text in path.read_text()


Until = Callable[[Callable[[], object]], None]
UsersOf = Callable[[Path, int], int]


def scratch(root: Path) -> list[str]:
    return [path.name for kind in ("tmp", "locks") for path in (root / "v2" / kind).glob("*")]


CROWD = """
root, seed, cap, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) or None, int(sys.argv[4])
store = CacheStore(root, max_bytes=cap)
order = list(range(count)) * 2
random.Random(seed).shuffle(order)
built = 0
for i, n in enumerate(order):
    if i % 3 == 0:
        entry = store.get(key(n)) or store.put(key(n), files(n), {"n": n})
    else:
        entry, hit = store.get_or_build(key(n), lambda: (files(n), {"n": n}))
        built += not hit
    check(n, entry)
    if cap and i % 17 == 0:
        store.trim(cap // 2)
if cap:
    store.trim(cap // 2)  # whoever is last: in between all four add to it
info = store.info()
assert info.damaged == 0 and not info.off, info
print(built, info.hits)
"""


@pytest.mark.parametrize("cap", [0, 1_500_000])
def test_four_processes_read_and_write_the_same_keys(tmp_path, cap) -> None:
    root, count = tmp_path / "cache", 80
    crowd = [start(CROWD, root, seed, cap, count) for seed in range(4)]
    outs = [finish(process).split() for process in crowd]
    store = CacheStore(root)
    assert store.verify() == []
    assert scratch(root) == []
    found = {n: entry for n in range(count) if (entry := store.get(key(n))) is not None}
    for n, entry in found.items():
        check(n, entry)
    if cap:
        assert store.info().nbytes <= cap // 2
        assert 0 < len(found) < count
    else:
        assert len(found) == count
        assert sum(int(built) for built, _ in outs) <= count
        assert sum(int(hits) for _, hits in outs) >= 4 * count


VICTIM = """
store = CacheStore(sys.argv[1])
first = int(sys.argv[2])
print("ready", flush=True)
for n in range(first, first + 10_000):
    if n % 2:
        store.put(key(n), files(n), {"n": n})
    else:
        store.get_or_build(key(n), lambda: (files(n), {"n": n}))
    if n % 5 == 4:
        store.discard(key(n - 4))
    if n % 20 == 19:
        store.trim(500_000)
"""


def test_kill_9_at_random_moments_leaves_only_whole_entries(tmp_path, caplog) -> None:
    root = tmp_path / "cache"
    data = random.Random(7)
    leftovers = 0
    for attempt in range(300):
        # Enough, unless the kills came at harmless moments only.
        if attempt >= 20 and leftovers:
            break
        # Neighbours share keys, so that the next one meets what the dead one left.
        victim = start(VICTIM, root, attempt * 3)
        assert victim.stdout is not None
        victim.stdout.readline()
        time.sleep(data.uniform(0, 0.04))
        victim.kill()
        _, err = victim.communicate()
        assert victim.returncode == -signal.SIGKILL
        assert err == ""
        leftovers += len(scratch(root))
    assert leftovers > 0
    store = CacheStore(root, scratch_age_s=0)
    assert store.verify() == []
    entries = store.entries()
    assert entries
    for entry in entries:
        check(entry.manifest["n"], entry)
    store.trim()
    assert scratch(root) == []
    for n in range(100):
        entry, _ = store.get_or_build(key(n), lambda n=n: (files(n), {"n": n}))
        check(n, entry)
    assert store.info().damaged == 0
    assert caplog.records == []


BUILDER = """
root, log, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
store = CacheStore(root)
def build():
    with open(log, "a") as file:
        file.write(f"{os.getpid()} builds\\n")
    time.sleep(seconds)
    return files(1), {"n": 1}
entry, hit = store.get_or_build(key(1), build, float(sys.argv[4]))
check(1, entry)
print("hit" if hit else "built")
"""


def test_processes_that_want_one_key_build_it_once(tmp_path) -> None:
    root, log = tmp_path / "cache", tmp_path / "log"
    crowd = [start(BUILDER, root, log, 0.5, 60) for _ in range(3)]
    outs = sorted(finish(process).strip() for process in crowd)
    assert outs == ["built", "hit", "hit"]
    assert log.read_text().count("builds") == 1
    assert scratch(root) == []


def test_waiter_takes_over_when_the_builder_is_killed(
    tmp_path: Path, until: Until, users_of: UsersOf
) -> None:
    root, log = tmp_path / "cache", tmp_path / "log"
    first = start(BUILDER, root, log, 600, 600)
    until(lambda: says(log, "builds"))
    second = start(BUILDER, root, log, 0, 600)
    until(lambda: users_of(root / "v2" / "locks", second.pid))  # it waits
    first.kill()
    assert finish(second).strip() == "built"  # long before its own time is up
    first.communicate()
    assert log.read_text().count("builds") == 2
    assert scratch(root) == []
    assert finish(start(BUILDER, root, log, 0, 60)).strip() == "hit"


def test_waiter_builds_itself_when_the_time_is_up(tmp_path: Path, until: Until) -> None:
    root, log = tmp_path / "cache", tmp_path / "log"
    first = start(BUILDER, root, log, 600, 60)
    until(lambda: says(log, "builds"))
    assert finish(start(BUILDER, root, log, 0, 0.2)).strip() == "built"
    assert CacheStore(root).trim().leftovers == 0  # the lock of the living one stays
    first.kill()
    first.communicate()
    assert CacheStore(root).trim().leftovers == 1
    assert scratch(root) == []


def test_a_stopped_builder_is_waited_for_no_longer_than_asked(tmp_path: Path, until: Until) -> None:
    root, log = tmp_path / "cache", tmp_path / "log"
    first = start(BUILDER, root, log, 5, 60)
    until(lambda: says(log, "builds"))
    first.send_signal(signal.SIGSTOP)
    try:
        assert finish(start(BUILDER, root, log, 0, 0.2)).strip() == "built"
        assert finish(start(BUILDER, root, log, 0, 0.2)).strip() == "hit"
    finally:
        first.send_signal(signal.SIGCONT)
    assert finish(first).strip() == "built"  # and keeps what it found stored
    assert log.read_text().count("builds") == 2
    assert CacheStore(root).verify() == []
    assert scratch(root) == []


def test_child_forked_during_the_build_does_not_keep_the_lock(tmp_path) -> None:
    """It inherits the descriptor; whoever waits for the lock must get it all the same."""
    code = """
import threading
store = CacheStore(sys.argv[1])
def opened():
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink("/proc/self/fd/" + name))
        except FileNotFoundError:  # that of the listing itself, or closed meanwhile
            pass
    return sum("/v2/locks/" in path for path in found)
def build():
    global child
    child = os.fork()
    if child == 0:
        time.sleep(600)
        os._exit(0)
    waiter.start()
    while opened() < 2:  # then both have it open: the builder and who waits
        time.sleep(0.005)
    return files(1), {"n": 1}
def fail():
    raise AssertionError("built twice")
waiter = threading.Thread(target=lambda: took.append(store.get_or_build(key(1), fail, 600)[1]))
took = []
store.get_or_build(key(1), build)
waiter.join()
os.kill(child, 9)
os.waitpid(child, 0)
assert took == [True], took
"""
    finish(start(code, tmp_path / "cache"))


def test_lock_of_a_file_that_was_removed_does_not_count(
    tmp_path: Path, until: Until, users_of: UsersOf
) -> None:
    """Waiting for a removed lock file must not let two owners in."""
    path = tmp_path / "lock"
    old = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(old, fcntl.LOCK_EX)
    held: list[bool] = []

    def wait() -> None:
        with key_lock(str(path), 600) as got:
            held.append(got)

    waiter = threading.Thread(target=wait)
    waiter.start()
    until(lambda: users_of(path, os.getpid()) == 2)  # it waits for the file that goes
    path.unlink()
    new = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(new, fcntl.LOCK_EX)
    os.close(old)
    until(lambda: held or users_of(path, os.getpid()) == 2)  # and now for the other one
    assert held == []
    os.close(new)
    waiter.join()
    assert held == [True]
    assert not path.exists()


def test_threads_that_want_one_key_build_it_once(tmp_path) -> None:
    code = """
import threading
store = CacheStore(sys.argv[1])
built = []
def build():
    built.append(1)
    time.sleep(0.2)
    return files(1), {"n": 1}
def work():
    check(1, store.get_or_build(key(1), build)[0])
threads = [threading.Thread(target=work) for _ in range(8)]
for t in threads: t.start()
for t in threads: t.join()
info = store.info()
print(len(built), info.hits, info.misses)
"""
    assert finish(start(code, tmp_path / "cache")).split() == ["1", "7", "1"]


FORKS = """
import threading
store = CacheStore(sys.argv[1], max_bytes=400_000)
store.put(key(0), files(0), {"n": 0})
stop = threading.Event()
def spin(seed):
    data = random.Random(seed)
    while not stop.is_set():
        n = data.randrange(1, 30)
        check(n, store.get_or_build(key(n), lambda: (files(n), {"n": n}))[0])
        store.get(key(data.randrange(30)))
threads = [threading.Thread(target=spin, args=(s,), daemon=True) for s in range(3)]
for t in threads: t.start()
for i in range(30):
    if i % 2:
        store._lock.acquire()       # for sure in a bad moment
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)            # a child does not inherit it
        try:
            counts = store._counts.copy()
            assert set(counts.values()) == {0}, counts
            for n in (40 + i, 0, 3):
                check(n, store.get_or_build(key(n), lambda: (files(n), {"n": n}))[0])
            os._exit(0)
        except BaseException as exc:
            print(repr(exc), file=sys.stderr, flush=True)
            os._exit(1)
    if i % 2:
        store._lock.release()
    assert os.waitpid(pid, 0)[1] == 0
stop.set()
for t in threads: t.join()
assert store.verify() == [] and store.info().damaged == 0
"""


def test_fork_while_other_threads_use_the_store(tmp_path) -> None:
    finish(start(FORKS, tmp_path / "cache"))
