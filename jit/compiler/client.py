# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The compiler as callers see it: requests in, results or `CompileError` out.

Compilation runs in worker processes (`pool`, `process`, `worker`), never in this one.  A worker
that crashes or overruns its time is replaced at the next request.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from ..options import WorkerOptions
from ..trace import span, tell_spans
from . import failure
from .pool import WorkerPool, closed_error
from .process import Answer, WorkerEnded, WorkerTimeout
from .request import CompileRequest, CompileResult
from .wire import IDLE_EXIT

__all__ = ["CompileRequest", "CompileResult", "Compiler", "default_compiler", "workers_for"]

log = logging.getLogger("hipdnn_iree.compiler")


class Compiler:
    """Compiles MLIR text, several modules at once, from any thread.

    Parameters
    ----------
    options : WorkerOptions
        Time limit, mode, reproducers, and what workers are started with.
    pool : WorkerPool, optional
        Workers that are shared with others; by default it starts its own, ``options.workers``.
    """

    def __init__(self, options: WorkerOptions, pool: WorkerPool | None = None) -> None:
        self.options = options
        self.pool = pool or WorkerPool(options.workers)

    def __enter__(self) -> Compiler:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all workers; a compilation in another thread fails with stage ``"crash"``."""
        self.pool.shutdown()

    def start(self) -> None:
        """Announce a module: a worker is started if none is free for it; returns at once."""
        self.pool.start(self.options)

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
        job = {
            "mode": self.options.mode,
            "flags": list(request.flags),
            "statistics": request.want_statistics,
            "dynamic": request.dynamic,
            "dump_dir": _folder(request),
        }
        started = time.perf_counter()
        answer, origin = self._ask(job, request.source)
        seconds = time.perf_counter() - started
        if answer.done["stage"]:
            raise failure.error(request, answer, origin, self.options, seconds)
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
        answer, _ = self._ask({"task": task, "options": dict(options or {})}, source)
        if answer.done["stage"]:
            raise failure.task_error(answer, label, node)
        return answer.done["facts"], answer.payload

    def _ask(self, job: dict[str, Any], source: bytes) -> tuple[Answer, failure.Origin]:
        limit_s, job = self.options.timeout_s, {**job, "memory": self.options.memory}
        with self.pool.lend(self.options) as worker:
            try:
                with span("ask the worker", worker=worker.pid):
                    answer = worker.ask(job, source, limit_s)
                tell_spans(answer.done.get("spans", ()), pid=worker.pid, process="compiler worker")
            except WorkerTimeout as event:
                answer = failure.of_timeout(event, limit_s)
            except WorkerEnded as event:
                if self.pool.closed:
                    raise closed_error() from None
                if event.returncode == IDLE_EXIT:
                    answer = None
                else:
                    answer = failure.of_death(event, worker.stderr_tail())
            if answer is not None:
                return answer, failure.Origin(worker.tool, worker.compiler, worker.stderr_tail())
        return self._ask(job, source)


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


_SHARED: dict[int, WorkerPool] = {}  # by number of jobs; almost always one


def default_compiler(options: WorkerOptions) -> Compiler:
    """Return a compiler whose workers all callers in this process share.

    With another number of jobs it has workers of its own.
    """
    return Compiler(options, _shared_pool(options.workers))


def _shared_pool(jobs: int) -> WorkerPool:
    found = _SHARED.get(jobs)
    if found is not None and found.closed:
        _SHARED.pop(jobs, None)
    # Making one is cheap, as it starts no process; setdefault keeps the first of a race.
    return _SHARED.get(jobs) or _SHARED.setdefault(jobs, WorkerPool(jobs))


@contextmanager
def workers_for(jobs: int, afterwards: int) -> Iterator[WorkerPool]:
    """Lend the shared workers; they leave at the end if nobody else will want them.

    Parameters
    ----------
    jobs : int
        How many workers.
    afterwards : int
        How many the caller's settings ask for outside of the block.
    """
    known = _SHARED.get(jobs)
    pool = _shared_pool(jobs)
    try:
        yield pool
    except BaseException:  # what is under way is of no use any more
        pool.shutdown()
        raise
    if pool is not known and jobs != afterwards:
        pool.shutdown()
