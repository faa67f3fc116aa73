# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Work in processes that may crash, hang or take all memory; whatever one does, the work goes on.

A task has parts, and a process answers them in order.  One that ends costs the part that it was
at: the others are given to a new process.  All of the parent's side runs in one thread, which
also watches time and memory; `process_worker` is the other side.
"""

from __future__ import annotations

import os
import pickle
import re
import signal
import socket
import subprocess
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Literal, Protocol, TypeVar

import msgspec

from ...jit.child_process import ChildProcess, interpreter, search_path

__all__ = ["Ended", "Limits", "ProcessPool", "Result", "Task", "Timed"]

_START_S = 60.0  # for Python and its libraries, on a machine that is busy
_LOOK_S = 0.05  # between two looks at time and memory
_TAIL = 16 << 10  # bytes of what a process printed
_SPARE = 0.5  # of the memory limit; a process that keeps more after a task is replaced
_PAGE = os.sysconf("SC_PAGE_SIZE")
_NO_MEMORY = re.compile(r"bad_alloc|MemoryError|[Cc]annot allocate memory|out of memory")


class Task(Protocol):
    """What a process is given, pickled.  It is served from the first part to the last."""

    @property
    def parts(self) -> int:
        """How many answers it has."""


Work = TypeVar("Work", bound=Task)


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What a part may take.

    Attributes
    ----------
    timeout_s : float
        Seconds for one part; starting a process does not count.
    memory : int
        Bytes of private memory of a process; 0: no limit.
    """

    timeout_s: float = 300.0
    memory: int = 0


Timed = deque[tuple[Work, Limits]]
"""Tasks with limits of their own, which have a GPU to themselves, or the machine."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """How a process ended before it answered.

    Attributes
    ----------
    reason : str
        ``"crash"``, ``"timeout"`` or ``"out-of-memory"``.
    detail : str
        One line.
    step : str
        What it was at, in its own words.
    facts : mapping
        What it has told of the part before.
    log : str
        The end of what it printed.
    """

    reason: Literal["crash", "timeout", "out-of-memory"]
    detail: str
    step: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    log: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Result(Generic[Work]):
    """What came of one part of a task: an answer, or how the process ended."""

    task: Work
    part: int
    answer: dict[str, Any] | Ended
    seconds: float


class ProcessPool:
    """A few processes that serve tasks; a context manager.

    A process that is timed shares neither memory nor threads with those that build and check: these
    have their share of the processors for BLAS and OpenMP, with which references are computed.

    Parameters
    ----------
    module : str
        Full name of the module whose ``main(descriptor, host, memory, slot)`` a process runs:
        it calls `process_worker.serve`.
    jobs : int
        Processes at one time.
    limits : Limits
    gpus : int
        GPUs; there is one more process for each, which only takes what is timed.
    """

    def __init__(self, module: str, jobs: int, limits: Limits, *, gpus: int = 1) -> None:
        self.limits = limits
        self.jobs = jobs
        self._gpus = gpus
        self._module = module
        self._processes: list[_Process | None] = [None] * (jobs + gpus)

    def __enter__(self) -> ProcessPool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all processes and what they have started."""
        for slot, process in enumerate(self._processes):
            if process is not None:
                process.end()
                self._processes[slot] = None

    def results(
        self, tasks: Iterable[Work] = (), *, timed: Timed[Work] | None = None, alone: bool = False
    ) -> Iterator[Result[Work]]:
        """Yield what comes of every part of every task, as soon as it is known.

        Tasks are taken from the iterable when a process is free, so it may be long.  When the
        caller stops early, or is interrupted, processes that are at work are ended.

        Parameters
        ----------
        tasks : iterable of Task
        timed : deque of (task, Limits), optional
            More tasks, for the processes that have a GPU each.  The caller may add to it while it
            goes through the results.
        alone : bool
            Whether each task has the whole machine to itself.
        """
        source, again = iter(tasks), deque[tuple[Work, int]]()
        first = deque() if timed is None else timed
        busy: dict[int, _Served[Work]] = {}
        slots = range(self.jobs)
        timing = range(self.jobs, self.jobs + (1 if alone else self._gpus))
        try:
            while True:
                for slot in timing:
                    if first and slot not in busy:
                        task, limits = first.popleft()
                        busy[slot] = _Served(self._free(slot), task, 0, limits)
                for slot in slots:
                    if slot not in busy and (given := _next(source, again)) is not None:
                        busy[slot] = _Served(self._free(slot), *given, self.limits)
                if not busy:
                    return
                wait([served.process.connection for served in busy.values()], _LOOK_S)
                for slot, served in list(busy.items()):
                    yield from served.results()
                    if served.left is not None:
                        del busy[slot]
                        self._done(slot, served)
                        again.extend(served.left)
        finally:
            for slot, served in busy.items():
                served.process.end()
                self._processes[slot] = None

    def _free(self, slot: int) -> _Process:
        process = self._processes[slot]
        if process is None:
            # Those that time choose for themselves, as a program of a user would.
            share = max(1, len(os.sched_getaffinity(0)) // self.jobs) if slot < self.jobs else 0
            process = _Process(self._module, slot, self.limits.memory, share)
            self._processes[slot] = process
        return process

    def _done(self, slot: int, served: _Served[Any]) -> None:
        """Keep a process for the next task if it is in order."""
        memory = served.limits.memory
        if served.process.gone or (memory and served.process.memory() > _SPARE * memory):
            served.process.end()
            self._processes[slot] = None


def _next(source: Iterator[Work], again: deque[tuple[Work, int]]) -> tuple[Work, int] | None:
    if again:
        return again.popleft()
    task = next(source, None)
    return None if task is None else (task, 0)


class _Process:
    """One process: messages to and from it, its memory, its end."""

    def __init__(self, module: str, slot: int, memory: int, threads: int) -> None:
        ours, theirs = socket.socketpair()
        try:
            self._child = ChildProcess(
                interpreter(None),
                module,
                (str(theirs.fileno()), str(os.getpid()), str(memory), str(slot)),
                search_path(),
                stdin=subprocess.DEVNULL,
                unbuffered=True,
                pass_fds=(theirs.fileno(),),
                threads=threads,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self.connection = Connection(ours.detach())
        self.gone = False
        self._end: tuple[int, str] | None = None

    def ask(self, task: object, part: int) -> None:
        """Give it a task, from a part on."""
        self._child.forget_printed()
        with suppress(OSError):  # it has ended; this is noticed when its answer is read
            self.connection.send_bytes(pickle.dumps((task, part)))

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield what it has said meanwhile; afterwards ``gone`` tells if it has ended."""
        try:
            while self.connection.poll():
                yield msgspec.json.decode(self.connection.recv_bytes(), type=dict[str, Any])
        except (EOFError, OSError, msgspec.DecodeError):
            self.gone = True

    def memory(self) -> int:
        """Return the bytes of its own that are in memory; 0 when that is not known."""
        try:
            fields = Path(f"/proc/{self._child.pid}/statm").read_text().split()
        except OSError:
            return 0
        return (int(fields[1]) - int(fields[2])) * _PAGE if len(fields) > 2 else 0

    def end(self, grace_s: float = 0.0) -> tuple[int, str]:
        """End it, once; return its exit status and the end of what it printed."""
        self.gone = True
        if self._end is None:
            self.connection.close()
            status = self._child.end(grace_s)
            self._end = status, self._child.printed(_TAIL)
            self._child.close()
        return self._end


class _Served(Generic[Work]):
    """A task in a process.  ``left`` is None until that is over: then what others have to do."""

    def __init__(self, process: _Process, task: Work, part: int, limits: Limits) -> None:
        self.process = process
        self.limits = limits
        self.left: list[tuple[Work, int]] | None = None
        self._task, self._part = task, part
        self._step, self._facts = "start", dict[str, Any]()
        self._begin = time.monotonic()
        self._deadline = self._begin + _START_S + limits.timeout_s
        process.ask(task, part)

    def results(self) -> Iterator[Result[Work]]:
        """Yield what has come meanwhile."""
        for message in self.process.messages():
            if "step" in message:
                if message["step"] == "begin":
                    self._begin = time.monotonic()
                    self._deadline = self._begin + self.limits.timeout_s
                self._step = message["step"]
                self._facts |= message["facts"]
            elif "answer" in message:
                yield self._result(message["answer"])
            else:  # done
                self.left = []
                return
        ended = self._ended()
        if ended is not None and self._part >= self._task.parts:  # all was said
            self.left = []
        elif ended is not None:
            more = self._part + 1 < self._task.parts
            self.left = [(self._task, self._part + 1)] if more else []
            yield self._result(ended)

    def _result(self, answer: dict[str, Any] | Ended) -> Result[Work]:
        now = time.monotonic()
        found = Result(task=self._task, part=self._part, answer=answer, seconds=now - self._begin)
        self._part += 1
        self._begin, self._facts, self._step = now, {}, "next"
        self._deadline = now + _START_S + self.limits.timeout_s
        return found

    def _ended(self) -> Ended | None:
        """Return how the process ended; end it if it takes too much."""
        if self.process.gone:
            return self._told(*_death(*self.process.end(grace_s=5.0)))
        taken, allowed = self.process.memory(), self.limits.memory
        if allowed and taken > allowed:
            _, log = self.process.end()
            text = f"it took {taken >> 20:,} MiB of memory; {allowed >> 20:,} MiB are allowed"
            return self._told("out-of-memory", text, log)
        if time.monotonic() > self._deadline:
            _, log = self.process.end()
            return self._told("timeout", f"no end within {self.limits.timeout_s:g} s", log)
        return None

    def _told(
        self, reason: Literal["crash", "timeout", "out-of-memory"], text: str, log: str
    ) -> Ended:
        detail = f"{self._step}: {text}"
        return Ended(reason=reason, detail=detail, step=self._step, facts=self._facts, log=log)


def _death(status: int, log: str) -> tuple[Literal["crash", "out-of-memory"], str, str]:
    """Return why a process has ended by itself."""
    lines = [line for line in log.splitlines() if line.strip()]
    last = f": {lines[-1][:300]}" if lines else ""
    text = f"the process ended with status {status}{last}"
    if status < 0:
        with suppress(ValueError):
            text = f"the process was ended by {signal.Signals(-status).name}{last}"
    # C++ ends a process that cannot have more memory as one that has a bug.
    return "out-of-memory" if _NO_MEMORY.search(log) else "crash", text, log
