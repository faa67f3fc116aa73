# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The end of Python, with work pending and in threads: no signal, no complaint."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.soak.attack import Failure, Result
from tools.soak.exits import PHASES, RUNNING, leave


# Where a plan is executed, that is watched on local-task (below), which shows what else is chance.
@pytest.mark.parametrize(
    ("phase", "driver"),
    [
        pytest.param(
            *(phase, driver),
            marks=[pytest.mark.full] if phase in RUNNING and driver == "local-task" else [],
        )
        for phase in PHASES
        for driver in ("local-task", "local-sync")
    ],
)
def test_a_program_ends_without_a_signal(phase: str, driver: str) -> None:
    assert _failures(phase, driver) == []


@pytest.mark.parametrize("phase", RUNNING)
def test_no_thread_is_in_iree_after_the_exit_functions(phase: str) -> None:
    assert _failures(phase, "local-task", watched=True) == []


def _failures(phase: str, driver: str, *, watched: bool = False) -> list[Failure]:
    found = Result()
    cache = Path(os.environ["HIPDNN_IREE_CACHE_DIR"])
    delay = PHASES[phase][1] / 4
    about = {"phase": phase, "delay": delay, "end": "exits", "driver": driver, "watched": watched}
    leave(found, cache.parent, about)
    return found.failures


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


DROPPED = """
import atexit, sys

def last():
    point = device.hal.create_semaphore(0), 1
    Pending(device, point)
    sys.held = Pending(device, point)

atexit.register(last)
from hipdnn_iree.jit.runtime.device import Device
from hipdnn_iree.jit.runtime.pending import Pending
device = Device.open("local-sync")
"""


def test_executions_that_are_dropped_after_the_exit_functions_stay() -> None:
    done = subprocess.run(
        [sys.executable, "-c", DROPPED], capture_output=True, text=True, check=False
    )
    assert (done.stderr, done.returncode) == ("", 0)


COPIES = """
import atexit, threading

def last():
    go.set()
    thread.join(60)
    print(thread.is_alive(), copies, flush=True)

atexit.register(last)
import numpy as np
from hipdnn_iree import Graph
from hipdnn_iree.jit.runtime.bound_plan import BoundPlan
graph = Graph(io_data_type="float", compute_data_type="float")
x = graph.tensor(dims=(4,), name="x")
graph.relu(x).set_output().set_name("y")
plan = graph.build("cpu")
parts = plan.bind({"x": np.ones(4, np.float32), "y": np.zeros(4, np.float32)})._parts
copies, go = [], threading.Event()
parts.before.append(lambda: copies.append("copied"))
bound = BoundPlan(parts)
thread = threading.Thread(target=lambda: go.wait() and bound(), daemon=True)
thread.start()
"""


def test_nothing_is_copied_for_a_call_that_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-c", COPIES], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == ("False []\n", "", 0)


FORKED = """
import os, sys, threading, time
from hipdnn_iree.jit.exit_guard import Sections

sections, inside = Sections(), threading.Event()

def stay():
    with sections:
        inside.set()
        time.sleep(600)

threading.Thread(target=stay, daemon=True).start()
inside.wait()
now = time.monotonic()
child = os.fork()
if child == 0:
    os._exit(0 if sections.empty(now) else 1)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(status, sections.empty(now), flush=True)
os._exit(0)  # the end of Python would wait for the thread
"""


def test_a_forked_child_does_not_wait_for_threads_that_it_has_not_got() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("0 False\n", 0), done.stderr
