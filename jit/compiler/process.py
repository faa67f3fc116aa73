# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One compiler worker as the host sees it: start it, ask it, end it."""

from __future__ import annotations

import logging
import os
import select
import socket
import time
from contextlib import suppress
from typing import Any, NamedTuple

from .. import scratch
from ..child_process import ChildProcess, search_path
from .wire import Unframer, frame

__all__ = ["Answer", "WorkerEnded", "WorkerProcess", "WorkerTimeout"]

log = logging.getLogger("hipdnn_iree.compiler")

_LOG_TAIL = 64 << 10  # bytes of the worker's stderr that are kept for an error
_CHUNK = 1 << 18


Diagnostics = list[tuple[str, str]]  # severity and text, as they came


class Answer(NamedTuple):
    """The worker's last message, the diagnostics before it, and the module."""

    done: dict[str, Any]
    diagnostics: Diagnostics
    payload: bytes


class WorkerEnded(Exception):  # noqa: N818 - an event, told to the caller with what is known
    """The worker is gone before it answered; ``returncode`` is None when nobody knows it."""

    def __init__(self, returncode: int | None, diagnostics: Diagnostics) -> None:
        super().__init__(returncode)
        self.returncode = returncode
        self.diagnostics = diagnostics


class WorkerTimeout(Exception):  # noqa: N818
    """The worker did not answer in time and was ended."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        super().__init__()
        self.diagnostics = diagnostics


class WorkerProcess:
    """A running worker; one job at a time, so its user holds it alone.

    Parameters
    ----------
    python : str
        Interpreter, see `python.interpreter`.
    warm : bool
        Whether the worker loads the compiler at once.
    idle_s : float
        Seconds without a job after which it leaves by itself.

    Attributes
    ----------
    pid : int
        Process id, which is also the id of its process group and session.
    tool : str
        Path of iree-compile as the worker found it; ``""`` until the first answer.
    compiler : str
        Version of the compiler; ``""`` until the first answer.

    Raises
    ------
    OSError
        If it cannot be started.
    """

    def __init__(self, python: str, *, warm: bool, idle_s: float) -> None:
        # For temporary files of the compiler, which it leaves behind when it crashes.  The worker
        # makes it, as it also removes it when this process is killed at any moment.
        self._scratch = scratch.reserve()
        # A socket, as writing to a pipe whose reader has died sends SIGPIPE, which ends a program
        # that embeds Python and left the signal alone.
        self._socket, theirs = socket.socketpair()
        arguments = (str(os.getpid()), self._scratch, repr(idle_s), "warm" if warm else "cold")
        try:
            self._child = ChildProcess(
                python,
                f"{__package__}.worker",
                arguments,
                search_path(),
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
            )
        except BaseException:  # also an interrupt
            self._free()
            raise
        finally:
            theirs.close()
        self._socket.setblocking(False)
        self._answers = Unframer()
        self._jobs = 0
        self.pid = self._child.pid
        self.tool = self.compiler = ""
        log.debug("started compiler worker %d with %s", self.pid, python)

    @property
    def alive(self) -> bool:
        """Whether it can take a job: running, not ended by us, and started by this process."""
        return self._socket.fileno() >= 0 and self._child.running

    def cpu_seconds(self) -> float:
        """Return the CPU time that it has taken; 0 when it is gone or the system does not tell."""
        return self._child.cpu_seconds()

    def ask(self, job: dict[str, Any], source: bytes, timeout_s: float) -> Answer:
        """Send a job and return its answer.

        Raises
        ------
        WorkerEnded, WorkerTimeout
            In both cases it is ended and must not be used again.
        """
        said: Diagnostics = []
        try:
            if self._jobs:  # before the first job lies what went wrong at the start
                self._child.forget_printed()
            self._jobs += 1
            request = frame({**job, "number": self._jobs}, source)
            answer = self._exchange(memoryview(request), timeout_s, said)
            if answer.done["number"] != self._jobs:
                raise ValueError("the compiler worker answered another request")
            return answer
        except (ValueError, LookupError) as error:
            log.warning("worker %d is not understood: %s", self.pid, error)
            self.end()
            raise WorkerEnded(None, said) from error
        except BaseException:
            # Also for KeyboardInterrupt: an answer that comes late would meet the next job.
            if self.alive:
                self.end()
            raise

    def _exchange(self, request: memoryview, timeout_s: float, said: Diagnostics) -> Answer:
        deadline = time.monotonic() + timeout_s
        poll = select.poll()
        poll.register(self._socket, select.POLLIN | select.POLLOUT)
        while (left := deadline - time.monotonic()) > 0:
            ready = dict(poll.poll(min(left, 60) * 1000)).get(self._socket.fileno(), 0)
            if ready & select.POLLOUT:
                with suppress(BlockingIOError, ConnectionError):  # gone: the read below tells
                    request = request[self._socket.send(request[:_CHUNK], socket.MSG_NOSIGNAL) :]
                if not request:
                    poll.modify(self._socket, select.POLLIN)
            if not ready & ~select.POLLOUT:
                continue
            for header, payload in self._answers.feed(self._receive(said)):
                if header["event"] == "done":
                    return Answer(header, said, payload)
                if header["event"] == "hello":
                    self.tool, self.compiler = header["tool"], header["compiler"]
                else:
                    said.append((header["severity"], header["text"]))
        self.end()
        raise WorkerTimeout(said)

    def _receive(self, said: Diagnostics) -> bytes:
        try:
            data = self._socket.recv(_CHUNK)
        except ConnectionError:
            data = b""
        if not data:
            raise WorkerEnded(self.end(grace_s=2.0), said)
        return data

    def stderr_tail(self) -> str:
        """Return the end of what the worker printed since its last job began."""
        return self._child.printed(_LOG_TAIL)

    def end(self, grace_s: float = 0.0) -> int | None:
        """End the worker and all that it started; return its exit status if it is known.

        ``grace_s`` are seconds that it may take to end by itself.
        """
        if not self._child.ours:
            return None
        scratch.remove(self._scratch)  # the worker ends that if this process dies now
        status = self._child.end(grace_s)
        self._socket.close()
        return status or None  # the worker never exits with 0

    def kill(self) -> None:
        """End it from another thread than the one that waits for its answer and reaps it."""
        scratch.remove(self._scratch)
        self._child.kill()
        scratch.remove(self._scratch)  # it may have been about to make it

    def close(self) -> None:
        """End it and free all it holds; in a forked child only let go of what was inherited."""
        if self.alive:
            self.end()
        self._child.close()
        if self._child.ours:
            self._free()
        else:
            self._socket.close()

    def _free(self) -> None:
        self._socket.close()
        scratch.remove(self._scratch)
