"""The compiler as callers see it: requests in, results or `CompileError` out.

Compilation runs in worker processes (`process`, `worker`), never in this one.  A worker that
crashes or overruns its time is replaced at the next request.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from ...graph_api.errors import CompileError
from ..settings import Settings, settings
from . import failure
from .process import Answer, WorkerEnded, WorkerProcess, WorkerTimeout
from .python import interpreter
from .request import CompileRequest, CompileResult
from .wire import IDLE_EXIT

__all__ = [
    "CompileRequest",
    "CompileResult",
    "Compiler",
    "default_compiler",
    "worker_count",
    "workers_for",
]

log = logging.getLogger("hipdnn_iree.compiler")


@dataclass
class _Crew:
    """The workers of one process; a forked child starts with none."""

    slots: threading.Semaphore
    idle: list[WorkerProcess] = field(default_factory=list)
    busy: set[WorkerProcess] = field(default_factory=set)
    announced: set[int] = field(default_factory=set)  # threads that will ask soon
    closed: bool = False


class Compiler:
    """Compiles MLIR text, up to ``jobs`` modules at once, from any thread.

    Workers are started when first needed and stay until `close`, or the end of this process.
    After ``os.fork`` the child starts workers of its own and leaves those of its parent alone.

    Parameters
    ----------
    jobs : int
        Most compilations at one time; 0 takes the setting ``compiler.jobs``.
    """

    def __init__(self, jobs: int = 0) -> None:
        self._jobs = jobs or worker_count(settings())
        self._crews: dict[int, _Crew] = {}
        # Runs at the end of the process too, if nobody has closed it before.
        self._finalizer = weakref.finalize(self, _dismiss, self._crews)

    def __enter__(self) -> Compiler:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def jobs(self) -> int:
        """Most compilations at one time."""
        return self._jobs

    def cpu_seconds(self) -> float:
        """Return the CPU time that the workers alive now have taken, for measurements."""
        crew = self._crews.get(os.getpid())
        return sum(w.cpu_seconds() for w in (*crew.idle, *crew.busy)) if crew else 0.0

    @property
    def closed(self) -> bool:
        """Whether `close` was called in this process."""
        crew = self._crews.get(os.getpid())
        return crew is not None and crew.closed

    def close(self) -> None:
        """End all workers; a compilation in another thread fails with stage ``"crash"``."""
        self._crews.setdefault(os.getpid(), _Crew(threading.Semaphore(self._jobs)))
        _dismiss(self._crews)

    def start(self) -> None:
        """Announce a module: a worker is started if none is free for it; returns at once.

        So the worker is ready when the IR is, also when several threads begin together.
        """
        crew = self._crew()
        crew.announced.add(threading.get_ident())
        if len(crew.idle) >= len(crew.announced):
            return
        if len(crew.idle) + len(crew.busy) < self._jobs and crew.slots.acquire(blocking=False):
            try:
                crew.idle.append(_hire(settings()))
            finally:
                crew.slots.release()

    def compile(self, request: CompileRequest) -> CompileResult:
        """Compile one module.

        Raises
        ------
        CompileError
            With ``stage`` ``"flags"``, ``"parse"``, ``"compile"``, ``"crash"`` or ``"timeout"``,
            the node when it is known, and the folder of the reproducer.  The next call works.
        OSError
            If ``request.dump_dir`` cannot be made.
        """
        now = settings()
        job = {
            "mode": now.compiler_mode,
            "flags": list(request.flags),
            "statistics": request.want_statistics,
            "dynamic": request.dynamic,
            "dump_dir": _folder(request),
        }
        started = time.perf_counter()
        answer, origin = self._ask(job, request.source, now)
        seconds = time.perf_counter() - started
        if answer.done["stage"]:
            raise failure.error(request, answer, origin, now, seconds)
        log.info("compiled %s in %.3f s (%s)", request.label, seconds, answer.done["backend"])
        return _result(request, answer, seconds)

    def perform(
        self,
        task: str,
        source: bytes,
        options: Mapping[str, Any] | None = None,
        *,
        label: str,
        node: str = "",
    ) -> tuple[Mapping[str, Any], bytes]:
        """Do one of ``tasks.TASKS`` in a worker and return its facts and its text.

        Raises
        ------
        CompileError
            When the task refuses, crashes or overruns its time; ``label`` says what was worked
            on, ``node`` the label of the graph node if there is one.
        """
        now = settings()
        answer, _ = self._ask({"task": task, "options": dict(options or {})}, source, now)
        if answer.done["stage"]:
            raise failure.task_error(answer, label, node)
        return answer.done["facts"], answer.payload

    def _ask(
        self, job: dict[str, Any], source: bytes, now: Settings
    ) -> tuple[Answer, failure.Origin]:
        with self._worker(now) as (worker, crew):
            try:
                answer = worker.ask(job, source, now.compiler_timeout_s)
            except WorkerTimeout as event:
                answer = failure.of_timeout(event, now.compiler_timeout_s)
            except WorkerEnded as event:
                if crew.closed:
                    raise _closed() from None
                if event.returncode == IDLE_EXIT:
                    answer = None
                else:
                    answer = failure.of_death(event, worker.stderr_tail())
            if answer is not None:
                return answer, failure.Origin(worker.tool, worker.compiler, worker.stderr_tail())
        return self._ask(job, source, now)

    @contextmanager
    def _worker(self, now: Settings) -> Iterator[tuple[WorkerProcess, _Crew]]:
        """Lend a worker that nobody else uses."""
        crew = self._crew()
        with crew.slots:
            worker = _next_alive(crew.idle) or _hire(now)
            crew.busy.add(worker)
            crew.announced.discard(threading.get_ident())
            try:
                if crew.closed:
                    raise _closed()
                yield worker, crew
            finally:
                crew.busy.discard(worker)
                if worker.alive and not crew.closed:
                    crew.idle.append(worker)  # the last one used is the next: it is warm
                else:
                    worker.close()

    def _crew(self) -> _Crew:
        # No lock: one could be held by a thread that does not exist in a forked child.
        pid = os.getpid()
        crew = self._crews.get(pid)
        if crew is None:
            for inherited in [key for key in self._crews if key != pid]:
                _let_go(self._crews.pop(inherited, None))
            crew = self._crews.setdefault(pid, _Crew(threading.Semaphore(self._jobs)))
        if crew.closed:
            raise _closed()
        return crew


def _closed() -> CompileError:
    return CompileError("the compiler was closed", stage="crash")


def _hire(now: Settings) -> WorkerProcess:
    warm = now.compiler_mode == "worker"
    python = interpreter(now.compiler_python)
    try:
        return WorkerProcess(python, warm=warm, idle_s=now.compiler_idle_s)
    except OSError as error:
        raise CompileError(
            f"cannot start the compiler worker with {python}: {error}", stage="crash"
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


def _let_go(crew: _Crew | None) -> None:
    for worker in [*crew.idle, *crew.busy] if crew else ():
        worker.close()


def _dismiss(crews: dict[int, _Crew]) -> None:
    crew = crews.get(os.getpid())
    if crew is None:
        return
    crew.closed = True
    while (worker := _next_alive(crew.idle)) is not None:
        worker.close()
    for worker in list(crew.busy):
        worker.kill()  # its user sees the end and cleans up


def _folder(request: CompileRequest) -> str:
    if request.dump_dir is None:
        return ""
    request.dump_dir.mkdir(parents=True, exist_ok=True)
    return os.path.abspath(request.dump_dir)


def _result(request: CompileRequest, answer: Answer, seconds: float) -> CompileResult:
    return CompileResult(
        vmfb=answer.payload,
        workspace_bytes=answer.done["workspace_bytes"],
        statistics=answer.done["statistics"],
        seconds=seconds,
        diagnostics=failure.cleaned(answer.diagnostics, request.nodes, ("warning", "remark")),
        backend=answer.done["backend"],
    )


_SHARED: dict[int, Compiler] = {}  # by number of jobs; almost always one


def default_compiler() -> Compiler:
    """Return the compiler that all callers in this process share; made on first use.

    Under another setting ``compiler.jobs`` it is another one, with workers of its own.
    """
    jobs = worker_count(settings())
    found = _SHARED.get(jobs)
    if found is not None and found.closed:
        _SHARED.pop(jobs, None)
    # Making one is cheap, as it starts no process; setdefault keeps the first of a race.
    return _SHARED.get(jobs) or _SHARED.setdefault(jobs, Compiler(jobs))


@contextmanager
def workers_for(outside: Settings) -> Iterator[Compiler]:
    """Lend the default compiler; its workers leave at the end if nobody else will want them.

    Parameters
    ----------
    outside : Settings
        Those that hold after the block.
    """
    known = _SHARED.get(worker_count(settings()))
    compiler = default_compiler()
    try:
        yield compiler
    except BaseException:  # what is under way is of no use any more
        compiler.close()
        raise
    if compiler is not known and compiler.jobs != worker_count(outside):
        compiler.close()


def worker_count(now: Settings) -> int:
    """Return how many compilations may run at once under some settings."""
    return now.compiler_jobs or min(4, len(os.sched_getaffinity(0)))
