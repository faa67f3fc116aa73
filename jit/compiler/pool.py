# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The worker processes that this process has started, and who uses which."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from weakref import WeakSet

from ...graph_api.errors import CompileError
from ..child_process import interpreter
from ..options import WorkerOptions
from ..trace import span
from .process import WorkerProcess

__all__ = ["WorkerPool", "closed_error"]


class WorkerPool:
    """Up to ``jobs`` worker processes, for all threads of this process.

    Workers are started when first needed and stay until `shutdown`, or the end of this process.
    After ``os.fork`` the child starts workers of its own and leaves those of its parent alone.
    """

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._states: dict[int, _State] = {}
        _pools.add(self)
        # Runs at the end of the process too, if nobody has shut it down before.
        self._finalizer = weakref.finalize(self, _shutdown, self._states)

    def cpu_seconds(self) -> float:
        """Return the CPU time that the workers alive now have taken, for measurements."""
        state = self._states.get(os.getpid())
        return sum(w.cpu_seconds() for w in (*state.idle, *state.busy)) if state else 0.0

    @property
    def closed(self) -> bool:
        """Whether `shutdown` was called in this process."""
        state = self._states.get(os.getpid())
        return state is not None and state.closed

    def shutdown(self) -> None:
        """End all workers; a compilation in another thread fails with stage ``"crash"``."""
        self._states.setdefault(os.getpid(), _State(threading.Semaphore(self.jobs)))
        _shutdown(self._states)

    def start(self, options: WorkerOptions) -> None:
        """Announce a module: a worker is started if none is free for it; returns at once.

        So the worker is ready when the IR is, also when several threads begin together.
        """
        state = self._state()
        state.announced.add(threading.get_ident())
        if len(state.idle) >= len(state.announced):
            return
        if len(state.idle) + len(state.busy) < self.jobs and state.slots.acquire(blocking=False):
            try:
                state.idle.append(_start(options))
            finally:
                state.slots.release()

    def let_go(self) -> None:
        """In a forked child, let go of the workers of its parent."""
        for state in self._states.values():
            for worker in (*state.idle, *state.busy):
                worker.close()
        self._states.clear()

    @contextmanager
    def lend(self, options: WorkerOptions) -> Iterator[WorkerProcess]:
        """Lend a worker that nobody else uses; one is started if none is idle."""
        state = self._state()
        with state.slots:
            worker = _next_alive(state.idle) or _start(options)
            state.busy.add(worker)
            state.announced.discard(threading.get_ident())
            try:
                if state.closed:
                    raise closed_error()
                yield worker
            finally:
                state.busy.discard(worker)
                if worker.alive and not state.closed:
                    state.idle.append(worker)  # the last one used is the next: it is warm
                else:
                    worker.close()

    def _state(self) -> _State:
        # No lock: one could be held by a thread that does not exist in a forked child.
        state = self._states.setdefault(os.getpid(), _State(threading.Semaphore(self.jobs)))
        if state.closed:
            raise closed_error()
        return state


@dataclass
class _State:
    """The workers that one process has started; a forked child starts with none."""

    slots: threading.Semaphore
    idle: list[WorkerProcess] = field(default_factory=list)
    busy: set[WorkerProcess] = field(default_factory=set)
    announced: set[int] = field(default_factory=set)  # threads that will ask soon
    closed: bool = False


_pools: WeakSet[WorkerPool] = WeakSet()


def _after_fork() -> None:
    for pool in tuple(_pools):
        pool.let_go()


os.register_at_fork(after_in_child=_after_fork)


def closed_error() -> CompileError:
    """Return the error of a pool that was shut down.

    A thread that still compiles when Python ends is ended without a word: the traceback that it
    would print can hold the lock of stderr when Python is taken down, which aborts the process.
    """
    main = threading.main_thread()
    if not main.is_alive() and threading.current_thread() is not main:
        raise SystemExit
    return CompileError("the compiler was closed", stage="crash", cause="host")


def _start(options: WorkerOptions) -> WorkerProcess:
    python = interpreter(options.python)
    try:
        with span("start a worker"):
            return WorkerProcess(python, warm=options.mode == "worker", idle_s=options.idle_s)
    except OSError as error:
        raise CompileError(
            f"cannot start the compiler worker with {python}: {error}",
            stage="crash",
            cause="host",
        ) from error


def _next_alive(idle: list[WorkerProcess]) -> WorkerProcess | None:
    while True:
        try:
            worker = idle.pop()
        except IndexError:
            return None
        if worker.alive:
            return worker
        worker.close()  # killed while it had nothing to do; nothing is lost


def _shutdown(states: dict[int, _State]) -> None:
    state = states.get(os.getpid())
    if state is None:
        return
    state.closed = True
    while (worker := _next_alive(state.idle)) is not None:
        worker.close()
    for worker in list(state.busy):
        worker.kill()  # its user sees the end and cleans up
