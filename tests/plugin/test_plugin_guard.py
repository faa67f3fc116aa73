# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What goes wrong inside Python, or at the end of it, in a host that runs Python itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

LOAD = """
import ctypes, json, sys, threading, time
lib = ctypes.CDLL(sys.argv[1])
def text():
    found = ctypes.c_char_p()
    lib.hipdnnPluginGetLastErrorString(ctypes.byref(found))
    return found.value
def create():
    handle = ctypes.c_void_p()
    return lib.hipdnnEnginePluginCreate(ctypes.byref(handle))
"""


def python(library: Path, program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", LOAD + program, library],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_every_exception_becomes_a_status_and_a_text(library: Path) -> None:
    done = python(
        library,
        r"""
from hipdnn_iree.graph_api.errors import CompileError, DeviceError, SettingError
from hipdnn_iree.hipdnn_plugin.plugin import Plugin
class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no text")
def throw(error):
    def body(*arguments):
        raise error
    return body
errors = [ValueError("plain"), MemoryError("much"), RecursionError("deep"), Unprintable(),
          CompileError("no code", stage="crash"), SettingError("a\0b"), DeviceError("ä" * 3000),
          DeviceError("x" + "ä" * 3000), DeviceError("\ud800"),
          SettingError("y" * 6000 + " (NAME)"),
          SettingError("ä" * 3000 + "x")]
found = []
current = []
Plugin.create = lambda self, out: throw(current[0])()
for error in errors:
    current[:] = [error]
    status = create()
    said = text()
    found.append([status, len(said), said.decode()[:40], said.decode()[-40:]])
print(json.dumps(found))
""",
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [status for status, *_ in found] == [3, 4, 3, 3, 3, 2, 3, 3, 3, 2, 2]
    assert found[0][2] == "ValueError: plain"
    assert found[3][2] == "Unprintable, whose text cannot be had"
    assert "no code" in found[4][2]
    assert found[5][2] == "a b"
    assert [found[i][1] for i in (6, 7, 9, 10)] == [2047, 2046, 2047, 2046]  # two bytes a character
    assert found[8][2] == "\\ud800"
    assert found[9][2].startswith("yyy")
    assert found[9][3].endswith("yyy (NAME)")  # what a long path stands before is not cut off
    assert found[10][3].endswith("äääx")


FOREVER = """
def forever():
    while create() == 0:
        pass
for _ in range(4):
    threading.Thread(target=forever, daemon=True).start()
"""


@pytest.mark.parametrize("seconds", [0, 0.02, 0.3])
def test_threads_inside_the_plugin_while_python_ends(library: Path, seconds: float) -> None:
    """Daemon threads would be ended by CPython in the middle of C; they get time to leave."""
    done = python(library, f"assert create() == 0\n{FOREVER}\ntime.sleep({seconds})")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("seconds", [0, 0.001, 0.003, 0.01, 0.03])
def test_python_ends_while_threads_start_the_plugin(library: Path, seconds: float) -> None:
    """Nobody starts the Python again that has just ended, and what has begun may finish."""
    done = python(library, f"{FOREVER}\ntime.sleep({seconds})")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_call_that_does_not_end_is_given_up(library: Path) -> None:
    """After the wait CPython ends its thread, when it next wants the GIL."""
    done = python(
        library,
        """
from hipdnn_iree.hipdnn_plugin.plugin import Plugin
begun = threading.Event()
def busy(self, out):
    begun.set()
    while True:
        time.sleep(0.01)
Plugin.create = busy
threading.Thread(target=create, daemon=True).start()
assert begun.wait(120)
""",
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_threads_log_while_python_ends(library: Path) -> None:
    """The host's log function is Python, which must not be called any more."""
    done = python(
        library,
        """
sink = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p)(lambda level, text: None)
lib.hipdnnPluginSetLoggingCallback(sink)
lib.hipdnnPluginSetLogLevel(0)
def forever():
    while True:
        create()
for _ in range(4):
    threading.Thread(target=forever, daemon=True).start()
""",
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_plugin_starts_in_a_thread_that_outlives_the_main_program(library: Path) -> None:
    done = python(
        library,
        """
def late():
    threading.main_thread().join()
    print(create(), text().decode())
threading.Thread(target=late).start()
""",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 \n", "")


FORK = """
import os
def child():
    sys.stdout.flush()
    if os.fork() == 0:
        status = create()
        print("child", status, text().decode()[:23] if status else "", flush=True)
        os._exit(0)
    os.wait()
"""


def test_fork_of_a_python_that_has_started_the_plugin_is_refused(library: Path) -> None:
    done = python(library, f"{FORK}\nprint(create())\nchild()\nprint(create())")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:3] == ["0", "child 3 this process was forked", "0"]


def test_fork_before_the_first_call_is_fine(library: Path) -> None:
    """Also of a program in which the start has failed."""
    done = python(
        library,
        f"""{FORK}
child()
from hipdnn_iree.hipdnn_plugin import abi
abi.TABLE_VERSION += 1
print(create())
abi.TABLE_VERSION -= 1
child()
""",
    )
    assert done.returncode == 0, done.stderr
    assert [line.rstrip() for line in done.stdout.splitlines()] == ["child 0", "3", "child 0"]


def test_fork_while_another_thread_starts_the_plugin(library: Path) -> None:
    """The child has a half-done start and nobody to finish it; it is refused and can end."""
    done = python(
        library,
        f"""{FORK}
from hipdnn_iree.provider.native import log as module
attach = module.attach
inside, go = threading.Event(), threading.Event()
def slow(*arguments):
    inside.set()
    go.wait()
    return attach(*arguments)
module.attach = slow
thread = threading.Thread(target=create)
thread.start()
inside.wait()
child()
go.set()
thread.join()
print(create())
""",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["child 3 this process was forked", "0"]


def test_calls_after_the_end_of_python_are_refused(library: Path) -> None:
    done = python(
        library,
        """
import atexit
atexit.register(lambda: print(create(), text().decode()))  # before the plugin's own: runs after it
assert create() == 0
""",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("3 Python has ended in this process")


def test_library_of_another_version_is_refused(library: Path) -> None:
    done = python(
        library,
        """
from hipdnn_iree.hipdnn_plugin import abi
abi.TABLE_VERSION += 1
print(create(), text().decode())
""",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("3 DEPLOY-20: the library and the package do not go together: ")
    assert "plugin install" in done.stdout


def test_loggers_of_the_host_stay_as_they_are(library: Path) -> None:
    done = python(
        library,
        """
import logging
logging.basicConfig(level=logging.ERROR, stream=sys.stdout)
logging.getLogger("hipdnn_iree").setLevel(logging.INFO)
seen = []
sink = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p)(lambda level, text: seen.append(level))
lib.hipdnnPluginSetLoggingCallback(sink)
lib.hipdnnPluginSetLogLevel(4)
assert create() == 0
assert not seen and logging.getLogger("hipdnn_iree").level == logging.INFO
log = logging.getLogger("hipdnn_iree.plugin")
for level in range(5):
    assert lib.hipdnnPluginSetLogLevel(level) == 0
    log.info("i"); log.warning("w"); log.error("e"); log.critical("c")
print(seen)
""",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str([0, 1, 2, 3, 1, 2, 3, 2, 3, 3])


def test_level_that_the_host_sets_while_the_plugin_starts(library: Path) -> None:
    """It comes after Python has asked for the level, and before the start is done."""
    done = python(
        library,
        """
from hipdnn_iree.provider.native import log as module
attach = module.attach
def interrupted(*arguments):
    set_level = attach(*arguments)
    lib.hipdnnPluginSetLogLevel(0)
    return set_level
module.attach = interrupted
seen = []
sink = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p)(lambda level, text: seen.append(level))
lib.hipdnnPluginSetLoggingCallback(sink)
assert create() == 0
import logging
logging.getLogger("hipdnn_iree.plugin").info("heard")
print(seen)
""",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[0]"
