# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Hosts that are killed at any moment: no process and no folder of theirs stays."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from tools.soak.attack import Budget, Result

__all__ = ["kill", "replay", "run"]

_STAYS_S = 5.0
_MARK = "SOAK_HOST"

# Names what it is about to do.  The start of the worker and the first job lie in "build".
_HOST = """
import os, sys
def at(phase):
    print(phase, flush=True)
at("import")
from hipdnn_iree import Graph
import numpy as np
at("build")
for n in range(1, 9):
    graph = Graph(io_data_type="float", compute_data_type="float")
    x = graph.tensor(dims=(32, 32 * n))
    y = graph.relu(graph.add(x, x)).set_output()
    plan = graph.build("cpu")
    at("execute")
    plan.run({x.uid: np.ones((32, 32 * n), np.float32)})
    if n == 1 and "fork" in sys.argv and (child := os.fork()):
        with open(os.environ["SOAK_HOST"] + "/child", "w") as file:
            file.write(str(child))
    elif n == 1 and "fork" in sys.argv:
        import time
        time.sleep(600)
    at("again")
"""
_LONGEST_S = {"import": 0.3, "build": 2.0, "worker": 0.6, "again": 1.0}
"""Phases, and how long after their begin a host is killed at the latest."""


def run(budget: Budget, seed: int) -> Result:
    """Kill hosts until the time is over."""
    rng, found = Random(seed), Result()
    for _ in budget.rounds(found):
        case = draw(rng)
        budget.box.put(json.dumps(case).encode())
        kill(found, budget.scratch, case)
    return found


def replay(budget: Budget, case: bytes) -> Result:
    """Kill one host in the same phase, at about the same moment."""
    found = Result()
    kill(found, budget.scratch, json.loads(case))
    return found


def draw(rng: Random) -> dict[str, Any]:
    """Return when a host is to be killed, and whether it has a forked child."""
    phase = rng.choice(list(_LONGEST_S))
    delay = rng.random() * _LONGEST_S[phase]
    return {"phase": phase, "delay": delay, "fork": rng.random() < 0.1}


def kill(found: Result, scratch: Path, case: dict[str, Any]) -> None:
    """Start a host, kill it, and look what is left."""
    place = scratch / f"host{time.monotonic_ns()}"
    (place / "tmp").mkdir(parents=True)
    environment = {
        **os.environ,
        _MARK: str(place),
        "TMPDIR": str(place / "tmp"),
        "HIPDNN_IREE_CACHE_DIR": str(place / "cache"),
        "HIPDNN_IREE_REPRODUCERS_DIR": str(place / "reproducers"),
    }
    host = subprocess.Popen(
        [sys.executable, "-c", _HOST, *(["fork"] if case["fork"] else [])],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert host.stdout is not None
    assert host.stderr is not None
    reach = "build" if case["phase"] == "worker" else case["phase"]
    while (line := host.stdout.readline()) and line.decode().strip() != reach:
        pass
    if case["phase"] == "worker":
        while host.poll() is None and not _processes(place) - {host.pid}:
            time.sleep(0.0005)
    time.sleep(case["delay"])
    ended = host.poll()
    host.send_signal(signal.SIGKILL)
    host.wait()
    said = host.stderr.read().decode() if ended else ""
    for pipe in (host.stdout, host.stderr):
        pipe.close()
    if ended:
        found.fail(f"the host ended by itself with status {ended}", detail=said)
    found.counts["hosts"] += 1
    begin = time.monotonic()
    while (left := _left(place)) and time.monotonic() - begin < _STAYS_S:
        time.sleep(0.02)
    if left:
        found.fail(f"{left} left after {case['phase']}", json.dumps(case).encode())
    for pid in {*_processes(place), *_child(place)}:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _left(place: Path) -> str:
    processes = len(_processes(place) - _child(place))
    folders = sum(len(names) for _, names, _ in os.walk(place / "tmp"))
    counted = {"processes": processes, "folders": folders}
    return ", ".join(f"{number} {what}" for what, number in counted.items() if number)


def _child(place: Path) -> set[int]:
    """Return the child that a host has forked, which goes on when its parent is killed."""
    with suppress(OSError, ValueError):
        return {int((place / "child").read_text())}
    return set()


def _processes(place: Path) -> set[int]:
    """Return the processes that run for a host, however they were started."""
    mark, found = f"{_MARK}={place}\0".encode(), set()
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                environment = Path(entry.path, "environ").read_bytes()
            except OSError:  # it ended, or is not ours
                continue
            if mark in environment:
                found.add(int(entry.name))
    return found
