"""The end of Python, with work pending and in threads: no signal, no complaint."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.soak.attack import Result
from tools.soak.exits import PHASES, leave


@pytest.mark.parametrize("driver", ["local-task", "local-sync"])
@pytest.mark.parametrize("phase", PHASES)
def test_a_program_ends_without_a_signal(phase: str, driver: str, tmp_path: Path) -> None:
    found = Result()
    cache = Path(os.environ["HIPDNN_IREE_CACHE_DIR"])
    case = {"phase": phase, "delay": PHASES[phase][1] / 4, "end": "exits", "driver": driver}
    leave(found, cache.parent, case)
    assert found.failures == []


LATE = """
import atexit, threading, time

def last():
    print("a thread:", *told, flush=True)
    try:
        plan.execute(sets)
    except Exception as error:
        print(type(error).__name__, error)

told = []
atexit.register(last)
import numpy as np
from hipdnn_iree import Graph
graph = Graph(io_data_type="float", compute_data_type="float")
x = graph.tensor(dims=(4,), name="x")
graph.relu(x).set_output().set_name("y")
plan = graph.build("cpu")
sets = {"x": np.ones(4, np.float32), "y": np.zeros(4, np.float32)}
lock = threading.Lock()

def work():
    try:
        while True:
            with lock:
                plan.execute(sets)
    except BaseException as error:
        told.append(type(error).__name__)
        raise

thread = threading.Thread(target=work, daemon=True)
thread.start()
while not sets["y"].any():
    time.sleep(0.001)
atexit.register(lambda: plan.execute(sets))  # before the guard: served
# Before `last`, after the guard; the thread has let go of what it held.
"""


def test_calls_at_the_end_are_refused_and_threads_leave_quietly() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LATE.replace("last():\n", "last():\n    thread.join(60)\n")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "a thread: SystemExit",
        "DeviceError Python is ending in this process: nothing is executed any more",
    ]
