# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A compiler worker that loses its host while it answers, and cannot say so, removes its folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

from hipdnn_iree.jit import scratch

Until = Callable[[Callable[[], bool]], None]

# As `jit.compiler.worker` is started, but that it takes its time to remove the folder.
WORKER = """
import os, sys, time
from hipdnn_iree.jit import scratch
from hipdnn_iree.jit.compiler import worker
host, remove = int(sys.argv[1]), scratch.remove
def slowly(path):
    time.sleep(0.3)
    remove(path)
def answer(*arguments):
    while os.getppid() == host:
        time.sleep(0.001)
    raise BrokenPipeError("nobody reads the answer")
scratch.remove, worker._work = slowly, answer
worker.main(sys.argv[1], sys.argv[2], "600", "cold")
"""

# Starts one with a stderr that nobody reads, and is killed once it has made its folder.
HOST = """
import os, signal, socket, subprocess, sys, time
ours, theirs = socket.socketpair()
read, write = os.pipe()
os.close(read)
command = [sys.executable, "-c", sys.argv[1], str(os.getpid()), sys.argv[2]]
subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=write)
while not os.path.exists(sys.argv[2]):
    time.sleep(0.001)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_worker_that_can_neither_answer_nor_say_why_removes_its_folder(until: Until) -> None:
    """2 folders of 1 killed host in some 500 stayed: the thread that removed them was cut short."""
    folder = scratch.reserve()
    subprocess.run([sys.executable, "-c", HOST, WORKER, folder], check=False)
    assert os.path.exists(folder)
    until(lambda: not os.path.exists(folder))
