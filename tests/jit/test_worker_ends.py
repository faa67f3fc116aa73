# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A compiler worker that loses its host while it works removes its folder, whatever it does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
from hipdnn_iree.jit import scratch

Until = Callable[[Callable[[], bool]], None]

# As `jit.compiler.worker` is started, but that it takes its time to remove the folder.
WORKER = """
import os, sys, time
from hipdnn_iree.jit import scratch
from hipdnn_iree.jit.compiler import worker
host, remove = int(sys.argv[1]), scratch.remove
def slowly(path):
    if os.path.exists(path):
        os.rename(path, path + "0")
    time.sleep(0.3)
    remove(path)
def answer(*arguments):
    while os.getppid() == host:
        time.sleep(0.001)
    raise BrokenPipeError("nobody reads the answer")
def crash(*arguments):
    while os.path.exists(sys.argv[2]):
        time.sleep(0.001)
    os.abort()  # as the compiler does where its files are gone
scratch.remove, worker._work = slowly, {"answers": answer, "crashes": crash}[sys.argv[3]]
worker.main(sys.argv[1], sys.argv[2], "600", "cold")
"""

# Starts one with a stderr that nobody reads, and is killed once it has made its folder.
HOST = """
import os, signal, socket, subprocess, sys, time
ours, theirs = socket.socketpair()
read, write = os.pipe()
os.close(read)
command = [sys.executable, "-c", sys.argv[1], str(os.getpid()), *sys.argv[2:]]
subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=write)
while not os.path.exists(sys.argv[2]):
    time.sleep(0.001)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("when", ["answers", "crashes"])
def test_worker_that_loses_its_host_removes_its_folder(when: str, until: Until) -> None:
    """2 folders of 1 killed host in some 300 stayed: what removed them was cut short.

    It was where the worker had an answer and could not say why it cannot send it, or where the
    compiler aborted, as its files were gone.
    """
    folder = scratch.reserve()
    subprocess.run([sys.executable, "-c", HOST, WORKER, folder, when], check=False)
    until(lambda: not os.path.exists(folder))
    until(lambda: not os.path.exists(f"{folder}0"))
