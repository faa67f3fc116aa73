# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The process of a `ProcessPool`: it answers tasks part by part until its host is gone."""

from __future__ import annotations

import ctypes
import os
import pickle
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

import msgspec

__all__ = ["Handler", "Tell", "serve"]

_PR_SET_PDEATHSIG = 1

Tell = Callable[..., None]
"""``tell(step, **facts)``: what a part is at, and what is known of it, should the process end."""

Handler = Callable[[Any, int, Tell], Iterator[dict[str, Any]]]
"""From a task, the first part to serve and `Tell`: an answer for each part from there on."""


def serve(descriptor: str, host: str, memory: str, handler: Handler) -> NoReturn:
    """Answer tasks; does not return.

    Parameters
    ----------
    descriptor, host, memory : str
        As ``main`` of the module has them from the pool: of the socket, the host's process id,
        bytes that this process may take (0: any).
    handler : callable
        What it raises ends the process; a pool tells that as a crash.
    """
    _guard(int(host))
    connection, status = Connection(int(descriptor)), 0

    def say(**message: Any) -> None:
        connection.send_bytes(msgspec.json.encode(message))

    def tell(step: str, **facts: Any) -> None:
        say(step=step, facts=facts)

    try:
        while True:
            task, part = pickle.loads(connection.recv_bytes())
            _limit(int(memory))
            tell("begin")
            for answer in handler(task, part, tell):
                say(answer=answer)
                tell("begin")
            say(done=True)
    except (EOFError, ConnectionError):
        pass
    except BaseException:
        traceback.print_exc()
        status = 1
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    # Libraries that a faulty kernel has damaged must not get a chance to crash once more.
    os._exit(status)


def _guard(host: int) -> None:
    """Let this process not outlive its host."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != host:  # it died before that took hold
        os._exit(1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash is expected


def _limit(memory: int) -> None:
    """Let the work from here on take so many bytes: an allocation beyond that fails at once.

    The limit is for private memory that can be written, not for what is only reserved, as GPU
    drivers do in plenty.  The stacks of threads that run already do not count.
    """
    if not memory:
        return
    fields = Path("/proc/self/statm").read_text().split()
    limit = int(fields[5]) * os.sysconf("SC_PAGE_SIZE") + memory
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
