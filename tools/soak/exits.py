# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs that end while something goes on in them: no signal, no hang, whatever it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

from tools.soak.attack import Budget, Result

__all__ = ["PHASES", "RUNNING", "leave", "replay", "run"]

_HANGS_S = 120.0
_BEGIN = """
import sys, threading, time

def daemon(call):
    threading.Thread(target=call, daemon=True).start()

def forever(call):
    def loop():
        while True:
            call()
    daemon(loop)
"""
_WATCH = """
import atexit
over, inside, late = [], [], []

def look():
    over.append(True)
    late.extend(inside)
    time.sleep(0.1)
    if late:
        print("threads in IREE after the end:", len(late), file=sys.stderr)

atexit.register(look)  # the first, so the last to be called
import hipdnn_iree, hipdnn_iree.jit.runtime.iree_native as native

def watch(owner, name):
    original = getattr(owner, name)
    def call(*arguments, **options):
        me = threading.get_ident()
        inside.append(me)
        late.extend(over)
        try:
            return original(*arguments, **options)
        finally:
            inside.remove(me)
    setattr(owner, name, call)

watch(native.iree().VmContext, "invoke")
watch(native.iree().HalSemaphore, "wait")
"""
# The two calls into IREE that let go of Python's lock.  A thread that takes it again while Python
# is taken down aborts the process; whether one does is chance, so this tells of all that could.
_PLAN = """
import numpy as np
from hipdnn_iree import Graph

def memory(n):
    raw = np.zeros(n * n + 16, np.float32)
    start = -raw.ctypes.data % 64 // 4
    return raw[start:start + n * n].reshape(n, n)

def chain(n, length):
    graph = Graph(io_data_type="float", compute_data_type="float")
    x = y = graph.tensor(dims=(n, n), name="x")
    for _ in range(length):
        y = graph.matmul(y, x)
    y.set_output().set_name("y")
    return graph.build("cpu")

n, length = {size}
plan = chain(n, length)
sets = [dict(x=memory(n), y=memory(n)) for _ in range(4)]
"""
_SMALL, _LARGE = _PLAN.replace("{size}", "256, 3"), _PLAN.replace("{size}", "640, 20")
_NEW = """
from random import randrange
from hipdnn_iree import Graph
def new():
    graph = Graph(io_data_type="float", compute_data_type="float")
    x = graph.tensor(dims=(randrange(1, 10**6), 3))
    graph.relu(graph.add(x, x)).set_output()
    return graph
"""

PHASES: dict[str, tuple[str, float]] = {
    "import": ("import hipdnn_iree", 0.3),
    "import in a thread": ("def load():\n    import hipdnn_iree, numpy\ndaemon(load)", 0.3),
    "first compile in a thread": (_NEW + "daemon(lambda: new().build('cpu'))", 2.0),
    "compiles in a thread": (_NEW + "new().build('cpu')\nforever(lambda: new().build('cpu'))", 0.5),
    "compiles in threads": (_NEW + "for _ in range(3): forever(lambda: new().build('cpu'))", 2.5),
    "many graphs at once": (
        _NEW + "from hipdnn_iree import precompile\n"
        "daemon(lambda: precompile([(new(), 'cpu') for _ in range(20)], jobs=2))",
        3.0,
    ),
    "pending held": (_LARGE + "held = plan.execute_async(sets[0])", 0.1),
    "pending dropped": (_LARGE + "plan.execute_async(sets[0])", 0.1),
    "pending of a bound plan": (_LARGE + "held = plan.bind(sets[0]).submit()", 0.1),
    "pending, several": (_LARGE + "held = [plan.execute_async(s) for s in sets]", 0.1),
    "pending, and memory that is freed": (_LARGE + "plan.execute_async(sets.pop())", 0.1),
    "waited for in a thread": (_LARGE + "daemon(plan.execute_async(sets[0]).wait)", 0.1),
    "asked in a thread": (
        _SMALL + "held = plan.execute_async(sets[0])\nforever(lambda: held.done)",
        0.1,
    ),
    "awaited": (
        _LARGE + "import asyncio\nasync def main():\n"
        "    asyncio.ensure_future(plan.execute_async(sets[0])._awaited())\n"
        "    await asyncio.sleep(0.01)\nasyncio.run(main())",
        0.1,
    ),
    "executes in a thread": (_SMALL + "forever(lambda: plan.execute(sets[0]))", 0.1),
    "executes in threads": (
        _SMALL + "for s in sets: forever(lambda s=s: plan.execute(s))",
        0.1,
    ),
    "executes for long in a thread": (_LARGE + "daemon(lambda: plan.execute(sets[0]))", 0.2),
    "bound plan in a thread": (_SMALL + "forever(plan.bind(sets[0]))", 0.1),
    "staged in a thread": (_SMALL + "forever(lambda: plan.run({'x': np.ones((n, n), 'f')}))", 0.1),
    "binds in a thread": (_SMALL + "forever(lambda: plan.bind(sets[0])())", 0.1),
    "submits in a thread": (_SMALL + "forever(lambda: plan.execute_async(sets[0]))", 0.1),
    "submits and waits in threads": (
        _SMALL + "for s in sets: forever(lambda s=s: plan.execute_async(s).wait())",
        0.1,
    ),
    "sets of buffers in a thread": (_SMALL + "forever(lambda: plan.execute_many(sets))", 0.1),
    "futures": (
        _SMALL + "from concurrent.futures import ThreadPoolExecutor\n"
        "pool = ThreadPoolExecutor(2)\nfor _ in range(20): pool.submit(plan.execute, sets[0])",
        0.1,
    ),
    "executes when it ends": (
        "import atexit\natexit.register(lambda: plan.execute(sets[0]))\n"
        + _SMALL
        + "atexit.register(lambda: plan.execute(sets[0]))\nheld = plan.execute_async(sets[1])",
        0.1,
    ),
    "in circles": (
        _LARGE + "class A: pass\na, b = A(), A()\na.b, b.a = b, a\n"
        "a.held, b.plan = plan.execute_async(sets[0]), plan.bind(sets[1])\nb.plan()",
        0.1,
    ),
}
"""What goes on, by name: the program, and how long after that it ends at the latest."""

RUNNING = tuple(name for name, (program, _) in PHASES.items() if "plan." in program)
"""Those in which a plan is executed."""

_ENDS = {
    "falls off its end": "",
    "exits": "sys.exit(0)",
    "exits in a function": "def f():\n    local = dict(globals())\n    sys.exit(0)\nf()",
}
_DRIVERS = ("local-task", "local-sync")


def run(budget: Budget, seed: int) -> Result:
    """Let programs end until the time is over."""
    rng, found = Random(seed), Result()
    for _ in budget.rounds(found):
        case = draw(rng)
        budget.box.put(json.dumps(case).encode())
        leave(found, budget.scratch, case)
    return found


def replay(budget: Budget, case: bytes) -> Result:
    """Let one program end at about the same moment."""
    found = Result()
    leave(found, budget.scratch, json.loads(case))
    return found


def draw(rng: Random, phase: str = "") -> dict[str, Any]:
    """Return what goes on, and when and how the program ends."""
    phase = phase or rng.choice(list(PHASES))
    delay = rng.random() * PHASES[phase][1]
    end = rng.choice(list(_ENDS))
    return {
        "phase": phase,
        "delay": delay,
        "end": end,
        "driver": rng.choice(_DRIVERS),
        "watched": phase in RUNNING and rng.random() < 0.5,
    }


def leave(found: Result, scratch: Path, case: dict[str, Any]) -> None:
    """Run one program and look how it ends."""
    begin = _BEGIN + _WATCH if case.get("watched") else _BEGIN
    program = f"{begin}\n{PHASES[case['phase']][0]}\ntime.sleep({case['delay']})\n"
    environment = {
        **os.environ,
        "HIPDNN_IREE_CACHE_DIR": str(scratch / "cache"),
        "HIPDNN_IREE_REPRODUCERS_KEEP": "0",
        "HIPDNN_IREE_DRIVER": case["driver"],
        "PYTHONFAULTHANDLER": "1",
    }
    data = json.dumps(case).encode()
    found.counts["exits"] += 1
    try:
        done = subprocess.run(
            [sys.executable, "-c", program + _ENDS[case["end"]]],
            env=environment,
            capture_output=True,
            timeout=_HANGS_S,
            check=False,
        )
    except subprocess.TimeoutExpired as hang:
        said = (hang.stderr or b"").decode(errors="replace")
        found.fail(f"hangs: {case['phase']}", data, said)
        return
    said = done.stderr.decode(errors="replace")
    if done.returncode:
        found.fail(f"status {done.returncode}: {case['phase']}", data, said)
    elif any(
        word in said
        for word in ("Fatal", "terminate called", "leaked", "ignored in:", "after the end")
    ):
        found.fail(f"complains: {case['phase']}", data, said)
