# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Signals: those of the host stay its own, and a call that one interrupts has not succeeded."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

GRAPH = Path(__file__).parents[1] / "data" / "opgraphs" / "pw_relu_all.bin"
FEW = 300  # a run with 10,000 takes some seconds more


@pytest.mark.parametrize("count", [FEW])
def test_a_host_in_c_is_interrupted(host: Any, make_job: Any, count: int) -> None:
    """Its handler gets every signal, every call succeeds, and no handler is another one."""
    job = make_job(GRAPH.read_bytes())
    facts = host.run("signals", *job.arguments, count)
    assert "changed" not in facts
    assert facts["wrong"] == "0"
    assert facts["arrived"] == str(count)
    job.verify()


def test_sigint_ends_a_host_in_c(host: Any, make_job: Any) -> None:
    """Also while it starts Python, imports, plans and executes; handlers are as they were."""
    arguments = make_job(GRAPH.read_bytes()).arguments
    words = host.words("signals", *arguments, 0)
    for delay in (0.0, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.4, None):
        with subprocess.Popen(
            words,
            env=host.environ(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            said = ""
            if delay is None:
                for line in process.stdout:
                    said += line
                    if line.startswith("arrived"):
                        break
            else:
                time.sleep(delay)
            process.send_signal(signal.SIGINT)
            try:
                process.wait(60)
            finally:
                process.kill()  # one that lives would be waited for without end
            assert process.returncode == -signal.SIGINT, (delay, process.stderr.read())
            if delay is None:
                assert "changed" not in said
                assert "wrong 0\n" in said


SET_UP = """
import ctypes, os, random, signal, sys, threading, time
import numpy as np
lib, count, starts = ctypes.CDLL(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "start"
HANDLER = signal.getsignal(signal.SIGINT)
class Data(ctypes.Structure):
    _fields_ = [("ptr", ctypes.c_char_p), ("size", ctypes.c_size_t)]
class Buffer(ctypes.Structure):
    _fields_ = [("uid", ctypes.c_int64), ("ptr", ctypes.c_void_p)]
graph, config = (open(name, "rb").read() for name in sys.argv[4:6])
graph, config = Data(graph, len(graph)), Data(config, len(config))
arrays, buffers, outputs = [], [], []
for line in open(sys.argv[6]):
    uid, size, _, _, source, target = line.rstrip("\\n").split("\\t")
    room = np.zeros(int(size) + 64, np.uint8)
    array = room[-room.ctypes.data % 64:][:int(size)]
    array[:] = 0x5A if source == "-" else np.fromfile(source, np.uint8)
    arrays.append(room)
    buffers.append(Buffer(int(uid), array.ctypes.data))
    if source == "-":
        outputs.append(array)
buffers = (Buffer * len(buffers))(*buffers)
handle, context = ctypes.c_void_p(), ctypes.c_void_p()
facts = dict.fromkeys(("calls", "errors", "wrong", "raised", "inside", "lost"), 0)
texts = set()

def last():
    text = ctypes.c_char_p()
    lib.hipdnnPluginGetLastErrorString(ctypes.byref(text))
    return text.value.decode()

def failed():
    facts["errors"] += 1
    texts.add(last())

def planned():
    if not handle.value and lib.hipdnnEnginePluginCreate(ctypes.byref(handle)):
        return failed()
    if not context.value and lib.hipdnnEnginePluginCreateExecutionContext(
        handle, ctypes.byref(config), ctypes.byref(graph), ctypes.byref(context)
    ):
        return failed()
    return True

def execute():
    facts["calls"] += 1
    for array in outputs:
        array[:] = 0x5A
    status = lib.hipdnnEnginePluginExecuteOpGraph(handle, context, None, buffers, len(buffers))
    if status:
        return failed()
    if any((array != good).any() for array, good in zip(outputs, right)):
        facts["wrong"] += 1
    return True
"""

RACE = """
right = []
if not starts:
    assert planned(), failed()
    assert not lib.hipdnnEnginePluginExecuteOpGraph(handle, context, None, buffers, len(buffers))
    right = [array.copy() for array in outputs]
go, done = threading.Event(), threading.Event()

def send():
    go.wait()
    chance = random.Random(1)
    for _ in range(count):
        time.sleep(chance.random() * (0.02 if starts else 0.0004))
        seen = facts["raised"]
        os.kill(os.getpid(), signal.SIGINT)
        until = time.monotonic() + 150  # an import on a busy machine
        while facts["raised"] == seen and time.monotonic() < until:
            time.sleep(0.0001)
        facts["lost"] += facts["raised"] == seen
    done.set()

sender = threading.Thread(target=send)
sender.start()
while not done.is_set():
    try:
        go.set()
        while not done.is_set():
            execute() if right else planned()
    except KeyboardInterrupt:
        if last() == "KeyboardInterrupt: the call was interrupted":
            facts["inside"] += 1
            lib.hipdnnEnginePluginGetEngineName(ctypes.c_int64(0), None)  # leaves another text
        facts["raised"] += 1
sender.join()
assert planned(), texts  # what was interrupted can be made again
if not right:
    assert not lib.hipdnnEnginePluginExecuteOpGraph(handle, context, None, buffers, len(buffers))
assert execute() or not right
assert signal.getsignal(signal.SIGINT) is HANDLER
for key, value in facts.items():
    print(key, value)
for text in texts:
    print("text", text)
"""


IMPORT = """
class Late:
    def __set_name__(self, owner, name):
        signal.raise_signal(signal.SIGINT)

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[3]:
            sys.meta_path.remove(self)
            type("Interrupted", (), {"late": Late()})

sys.meta_path.insert(0, Interrupts())
for attempt in range(2):
    try:
        print("planned", planned())
    except KeyboardInterrupt:
        print("raised", attempt)
"""


def python_host(
    library: Path, make_job: Any, count: int, how: str, program: str = RACE
) -> dict[str, str]:
    job = make_job(GRAPH.read_bytes())
    program = SET_UP + program
    done = subprocess.run(
        [sys.executable, "-c", program, library, str(count), how, *map(str, job.arguments)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=590,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


@pytest.mark.parametrize("count", [FEW])
def test_a_host_in_python_is_interrupted_while_it_executes(
    library: Path, make_job: Any, count: int
) -> None:
    """Every KeyboardInterrupt reaches the program, and no call says that it has run without it."""
    facts = python_host(library, make_job, count, "execute")
    assert facts["wrong"] == facts["lost"] == "0", facts
    assert facts["raised"] == str(count)
    assert int(facts["inside"]) > count / 10, facts


@pytest.mark.parametrize("count", [20])
def test_a_host_in_python_is_interrupted_while_it_plans(
    library: Path, make_job: Any, count: int
) -> None:
    facts = python_host(library, make_job, count, "start")
    assert facts["lost"] == "0", facts
    assert facts["raised"] == str(count)


@pytest.mark.parametrize(
    "module", ["provider.native.table", "hipdnn_plugin.serving", "jit.code_plan"]
)
def test_an_interrupt_that_an_import_would_lose(module: str, library: Path, make_job: Any) -> None:
    """Python makes a RuntimeError of what is raised in ``__set_name__``, until 3.12."""
    name = f"hipdnn_iree.{module}"
    facts = python_host(library, make_job, 0, name, IMPORT)
    assert facts == {"raised": "0", "planned": "True"}


HANDLER = """
import ctypes, signal, sys, threading
lib = ctypes.CDLL(sys.argv[1])
def create():
    handle = ctypes.c_void_p()
    return lib.hipdnnEnginePluginCreate(ctypes.byref(handle))
from hipdnn_iree.hipdnn_plugin.plugin import Plugin
class Stop(BaseException):
    pass
def stop(*arguments):
    raise Stop("now") if sys.argv[2] == "own" else SystemExit(7)
signal.signal(signal.SIGTERM, stop)
Plugin.create = lambda self, out: signal.raise_signal(signal.SIGTERM)
try:
    create()
    print("not stopped")
except Stop as error:
    print("stopped", error)
"""


@pytest.mark.parametrize(("how", "status"), [("own", 0), ("exit", 7)])
def test_what_a_handler_of_the_host_raises_reaches_its_program(
    library: Path, how: str, status: int
) -> None:
    """With its value, such as the exit status of ``sys.exit`` in a handler of SIGTERM."""
    done = subprocess.run(
        [sys.executable, "-c", HANDLER, library, how],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (status, "")
    assert done.stdout == ("stopped now\n" if how == "own" else "")
