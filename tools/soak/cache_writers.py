# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writers of one cache that are killed at any moment: no reader ever meets a wrong entry."""

from __future__ import annotations

import os
import signal
import time
import traceback
from functools import partial
from pathlib import Path
from random import Random

from hipdnn_iree.jit.cache import CacheKey, CacheStore, Entry

from tools.soak.attack import Budget, Result

__all__ = ["run"]

_KEYS = 40
_WRITERS = 3
_LONGEST_S = 0.05  # before a writer is killed: some ten entries
_CAP = 2_000_000  # bytes: about half of the entries, so that writers trim as well
_WAIT_S = 0.02  # for another writer of the same entry, which may be stopped
_NOTHING_LEFT_EVERY = 25  # rounds


def key(number: int) -> CacheKey:
    """Return the key of an entry."""
    return CacheKey({"graph": f"g{number}", "flags": ("-a", str(number))})


def files(number: int) -> dict[str, bytes]:
    """Return the content of an entry, which follows from its number."""
    rng = Random(number)
    return {"module.vmfb": rng.randbytes(rng.randrange(200_000)), "module.mlir": b"m" * number}


def wrong(number: int, entry: Entry) -> str:
    """Return what is wrong with an entry, or nothing."""
    if entry.manifest != {"n": number}:
        return f"entry {number} has the manifest {entry.manifest}"
    if entry.changed_files(files(number)):
        return f"entry {number} has wrong bytes in {entry.changed_files(files(number))}"
    return ""


def run(budget: Budget, seed: int) -> Result:
    """Kill writers until the time is over."""
    rng, found = Random(seed), Result()
    root = budget.scratch / "shared"
    reader = CacheStore(root, max_bytes=None)
    for index in budget.rounds(found):
        budget.box.put(b"")
        writers = [_start(root, budget.scratch, rng.getrandbits(32)) for _ in range(_WRITERS)]
        while writers:
            pid = writers.pop(rng.randrange(len(writers)))
            if rng.random() < 0.1:  # the others meet its locks and what it has half written
                os.kill(pid, signal.SIGSTOP)
            _read(reader, rng, time.monotonic() + rng.random() * _LONGEST_S, found)
            os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
            found.counts["killed writers"] += 1
            if not os.WIFSIGNALED(status):
                said = (budget.scratch / f"writer{pid}").read_text()
                found.fail(f"a writer ended by itself with status {status}", detail=said)
        for finding in reader.verify():
            found.fail(f"verify: {finding}"[:300])
        for entry in reader.entries():
            if what := wrong(entry.manifest["n"], entry):
                found.fail(what)
            found.counts["entries checked"] += 1
        if index % _NOTHING_LEFT_EVERY == 0:
            _clean(root, found)
    _clean(root, found)
    if reader.info().damaged:
        found.fail(f"{reader.info().damaged} entries were damaged")
    return found


def _read(reader: CacheStore, rng: Random, until: float, found: Result) -> None:
    while True:
        number = rng.randrange(_KEYS)
        entry = reader.get(key(number))
        found.counts["hits" if entry else "misses"] += 1
        if entry is not None and (what := wrong(number, entry)):
            found.fail(f"served: {what}")
        if time.monotonic() >= until:
            return


def _clean(root: Path, found: Result) -> None:
    """Remove what dead writers left, and see that nothing of it stays or is in the way."""
    store = CacheStore(root, max_bytes=None, scratch_age_s=0)
    found.counts["leftovers removed"] += store.trim().leftovers
    left = [name for kind in ("tmp", "locks") for name in os.listdir(root / "v2" / kind)]
    if left:
        found.fail(f"{len(left)} files of dead writers stay")
    if odd := [name for name in os.listdir(root / "v2") if name.startswith("aside-")]:
        found.fail(f"{len(odd)} things were set aside")


def _start(root: Path, scratch: Path, seed: int) -> int:
    """Fork a writer and return its process id."""
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.alarm(600)
        _write(CacheStore(root, max_bytes=_CAP), Random(seed))
    except BaseException:
        (scratch / f"writer{os.getpid()}").write_text(traceback.format_exc())
    finally:
        os._exit(1)


def _made(number: int) -> tuple[dict[str, bytes], dict[str, int]]:
    return files(number), {"n": number}


def _write(store: CacheStore, rng: Random) -> None:
    while True:
        number = rng.randrange(_KEYS)
        match rng.randrange(12):
            case 0:
                store.discard(key(number))
            case 1:
                store.trim(_CAP // 2)
            case 2 | 3 | 4:
                entry = store.put(key(number), files(number), {"n": number})
            case _:
                build = partial(_made, number)
                entry, _ = store.get_or_build(key(number), build, _WAIT_S)
                if what := wrong(number, entry):
                    raise AssertionError(what)
