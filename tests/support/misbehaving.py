# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builders of cases that do what a broken kernel does; processes of a sweep import them by name."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import time
from pathlib import Path

from hipdnn_iree import DataType, Graph

__all__ = [
    "abort_for_memory",
    "crash",
    "fine",
    "grow",
    "huge",
    "loop",
    "loop_in_c",
    "lose_worker",
    "other",
    "raise_error",
    "stop",
    "tell_threads",
]


def fine(data_type: DataType) -> Graph:
    """Return a small graph."""
    graph = Graph(io_data_type=data_type, compute_data_type="float")
    x = graph.tensor(dims=(3, 5), name="x")
    graph.output(graph.relu(graph.add(x, x)), name="y")
    return graph


def crash(data_type: DataType) -> Graph:
    """Read from address 0."""
    print("about to read address 0")
    ctypes.string_at(0)
    raise AssertionError


def stop(data_type: DataType) -> Graph:
    """End the process without a word, as a library does that calls exit."""
    os._exit(3)


def loop(data_type: DataType) -> Graph:
    """Never return."""
    while True:
        pass


def loop_in_c(data_type: DataType) -> Graph:
    """Never return, and let no other thread of Python run, as C code does that keeps the lock."""
    ctypes.PyDLL(None).sleep(1000)
    raise AssertionError


def huge(data_type: DataType) -> Graph:
    """Ask for 100 GB and write to it."""
    import numpy as np

    np.ones(100 << 30, np.uint8)
    raise AssertionError("there are 100 GB")


def grow(data_type: DataType) -> Graph:
    """Take more and more memory, past a limit that the process has taken away."""
    resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    taken = []
    while True:
        taken.append(b"\1" * (16 << 20))
        time.sleep(0.01)


def abort_for_memory(data_type: DataType) -> Graph:
    """End as a C++ program does that gets no memory."""
    os.write(2, b"terminate called after throwing an instance of 'std::bad_alloc'\n")
    os.abort()


def raise_error(data_type: DataType) -> Graph:
    """Fail as a program with a bug does."""
    raise KeyError("a bug")


def other(data_type: DataType) -> Graph:
    """Return another small graph than `fine`."""
    graph = Graph(io_data_type=data_type, compute_data_type="float")
    graph.output(graph.relu(graph.tensor(dims=(3, 5), name="x")), name="y")
    return graph


def lose_worker(marker: Path, most: int, data_type: DataType) -> Graph:
    """End the worker of a cluster whose process this is, the first few times.

    Parameters
    ----------
    marker : Path
        File that has a line for each time.
    most : int
        How often it is done at most.
    """
    host = os.getppid()
    if b"spawn_main" in Path(f"/proc/{host}/cmdline").read_bytes():  # not where there is no cluster
        with marker.open("a+") as file:
            file.seek(0)
            if len(file.readlines()) < most:
                file.write("lost\n")
                file.flush()
                os.kill(host, signal.SIGKILL)
                time.sleep(60)
    return fine(data_type)


def tell_threads(data_type: DataType) -> Graph:
    """Raise an error that says how many threads libraries may have."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    raise RuntimeError(f"threads: {[os.environ.get(name) for name in names]}")
