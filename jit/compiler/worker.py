# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The compiler worker: a child process that compiles one job after the other.

Started by `process.WorkerProcess`; not for callers.  It leaves when the host does: a thread
watches the request pipe and the parent, also while a compilation runs, and ends the whole
process group, a running iree-compile included.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import lru_cache
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NoReturn

from .. import scratch as folders
from ..trace import span, spans_as_data, trace
from .dispatch_checks import Defective
from .flags import merge_flags
from .inprocess import Refused, compile_in_process, workspace_bytes
from .tasks import perform
from .tool import compile_with_tool, tool_path
from .wire import IDLE_EXIT, Message, Unframer, frame

__all__ = ["main"]


def main(host: str, scratch: str, idle: str, start: str) -> NoReturn:
    """Serve jobs from stdin until the host is gone.

    Parameters
    ----------
    host : str
        Its process id.
    scratch : str
        Folder for temporary files; the host removes it, or a child of this process when the host
        is gone.
    idle : str
        Seconds without a job after which to leave.
    start : str
        ``"warm"``: the compiler is loaded before the first job.
    """
    parent, idle_s, warm = int(host), float(idle), start == "warm"
    alive = _watched(parent)
    folders.make(scratch)
    requests_fd, answers_fd = os.dup(0), os.dup(1)
    jobs: SimpleQueue[Message] = SimpleQueue()
    arguments = (requests_fd, alive, parent, scratch, jobs)
    listener = threading.Thread(target=_listen, args=arguments, daemon=True)
    listener.start()
    try:
        _prepare(scratch)
        _work(jobs, _Answers(answers_fd), idle_s, warm, os.path.dirname(scratch))
        status = IDLE_EXIT
    except BaseException:  # the host, if it is there, shows it
        with suppress(OSError):  # stderr may be a pipe that nobody reads any more
            traceback.print_exc()
        status = 1
    with suppress(OSError):
        sys.stderr.flush()
    if os.getppid() != parent:
        listener.join()  # it ends the process, and has the folder removed: not to be cut short
    folders.remove(scratch)
    os._exit(status)  # a job that arrives right now is asked again of a new worker


def _prepare(scratch: str) -> None:
    """Undo what was inherited from the host, and keep apart what the compiler reads and writes."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash is expected; 200 MB are not
    # A linker that is run must be waited for, and signals must come.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    tempfile.tempdir = scratch
    os.putenv("TMPDIR", scratch)  # for the compiler's own temporary files
    # Whatever the compiler or the tool reads and prints must not meet the messages.
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)


def _work(
    jobs: SimpleQueue[Message], answers: _Answers, idle_s: float, warm: bool, place: str
) -> None:
    """Do jobs until none has come for so many seconds."""
    answers.send({"event": "hello", "compiler": _compiler_version(), "tool": tool_path()})
    if warm:
        # The runtime, which reads the workspace size, loads beside the compiler.
        threading.Thread(target=_load, args=("iree.runtime",), daemon=True).start()
        _load("iree.compiler.api")
    folders.sweep(place)
    while True:
        try:
            job, source = jobs.get(timeout=idle_s)
        except Empty:
            return
        _serve(job, source, answers)


class _Answers:
    """The answer pipe; diagnostics may come from any of the compiler's threads."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = threading.Lock()

    def send(self, header: dict[str, Any], payload: bytes = b"") -> None:
        rest = memoryview(frame(header, payload))
        with self._lock:
            while rest:
                rest = rest[os.write(self._fd, rest) :]

    def diagnostic(self, severity: str, text: str) -> None:
        self.send({"event": "diagnostic", "severity": severity, "text": text})


def _watched(parent: int) -> int:
    """Return a descriptor that becomes readable when the host ends; -1 where there is none."""
    try:
        found = os.pidfd_open(parent)
    except (AttributeError, OSError):  # an old kernel, or a filter
        found = -1
    if os.getppid() != parent:  # it ended before, and its id may be another process's
        os._exit(0)  # with nothing to remove
    return found


def _listen(fd: int, alive: int, parent: int, scratch: str, jobs: SimpleQueue[Message]) -> NoReturn:
    """Take in jobs until the host is gone; then end all of this process, whatever it does."""
    try:
        unframer, watched = Unframer(), [fd, *([alive] if alive >= 0 else [])]
        while os.getppid() == parent:
            # The pipe stays open when the host is killed but a process that it forked holds a copy.
            ready = select.select(watched, [], [], 1.0)[0]
            if alive in ready:
                break
            # An error, not an end, when the host dies before it has read what was sent.
            if ready and not (data := os.read(fd, 1 << 20)):
                break
            for message in unframer.feed(data) if ready else ():
                jobs.put(message)
    finally:
        _end(scratch)


def _end(scratch: str) -> NoReturn:
    """End this process and then remove its folder.

    The compiler aborts where its files are gone, and what removes them would end with it.
    """
    worker = os.getpid()
    target = -worker if os.getpgrp() == worker else worker  # the linker and the tool, too
    with suppress(OSError), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads, which the child has none of
        if os.fork() == 0:
            try:
                os.setsid()
                os.kill(target, signal.SIGKILL)
                while os.getppid() == worker:
                    time.sleep(0.001)
                folders.remove(scratch)
            finally:
                os._exit(0)
        time.sleep(10)
    folders.remove(scratch)  # there is no other process to be had
    os.kill(target, signal.SIGKILL)
    os._exit(0)


def _load(module: str) -> None:
    with suppress(Exception):  # the job that needs it says what is wrong
        __import__(module)


def _compiler_version() -> str:
    try:
        from iree.compiler.version import VERSION
    except ImportError:
        return ""
    return str(VERSION)


def _serve(job: dict[str, Any], source: bytes, answers: _Answers) -> None:
    started = time.perf_counter()
    done: dict[str, Any] = {"event": "done", "number": job["number"]}
    done |= {"stage": "", "reason": "", "log": "", "signal": "", "cause": ""}
    vmfb = b""
    # Of this process and of a tool that it starts; a module must not take the machine's memory.
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    limit = job["memory"] if hard == resource.RLIM_INFINITY else min(job["memory"], hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    try:
        with trace() as found:
            if "task" in job:
                with span(job["task"], "compiler"):
                    done["facts"], vmfb = perform(job["task"], source, job["options"])
            else:
                vmfb, facts = _compile(job, source, answers)
                done |= facts
        done["spans"] = spans_as_data(found.events)
    except Refused as refused:
        done |= {
            "stage": refused.stage,
            "reason": refused.reason,
            "log": refused.log,
            "signal": refused.signal,
            "cause": refused.cause,
        }
    except Exception as error:  # anything may be wrong with the installation
        done |= {
            "stage": "crash",
            "reason": f"{type(error).__name__}: {error}",
            "log": traceback.format_exc(),
            "cause": "memory" if isinstance(error, MemoryError) else "host",
        }
    answers.send({**done, "seconds": time.perf_counter() - started}, vmfb)


def _compile(job: dict[str, Any], source: bytes, answers: _Answers) -> tuple[bytes, dict[str, Any]]:
    flags, statistics = merge_flags(_linker(), job["flags"]), None
    with ExitStack() as stack:
        if job["dump_dir"]:
            flags = merge_flags(flags, [f"--iree-hal-dump-executable-files-to={job['dump_dir']}"])
        if job["statistics"]:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="hipdnn-iree-"))
            statistics = Path(folder, "statistics.json")
            wanted = ("format=json", f"file={statistics}")
            flags = merge_flags(flags, [f"--iree-scheduling-dump-statistics-{w}" for w in wanted])
        while True:
            try:
                vmfb, backend = _either_way(job["mode"], source, flags, answers)
                break
            except Defective as error:
                found = error.found
                if not found.instead:
                    raise Refused("compile", f"{found.id}: {found.reason}") from None
                answers.diagnostic("remark", f"{found.id}: compiled with {' '.join(found.instead)}")
                flags = merge_flags(flags, found.instead)
        with span("read the workspace's size", "compiler"):
            size = workspace_bytes(vmfb, dynamic=job["dynamic"])
        return vmfb, {
            "backend": backend,
            "workspace_bytes": size,
            "statistics": json.loads(statistics.read_text()) if statistics else None,
        }


@lru_cache(maxsize=1)
def _linker() -> tuple[str, ...]:
    """Return a flag that leads to IREE's linker by a path without blanks, where that is needed.

    IREE does not quote the path when it starts the linker (W-022).
    """
    from iree.compiler import _mlir_libs

    found = os.path.join(os.path.dirname(str(_mlir_libs.__file__)), "iree-lld")
    if not any(map(str.isspace, found)):
        return ()
    link = os.path.join(tempfile.gettempdir(), "iree-lld")
    os.symlink(found, link)
    return (f"--iree-llvmcpu-embedded-linker-path={link}",)


# W-049: IREE takes these for one session, but they stay for those that follow in the same
# process: code of other graphs would be made with a tuning spec that is not in their keys.
STICKY = "--iree-codegen-"


def _either_way(
    mode: str, source: bytes, flags: Sequence[str], answers: _Answers
) -> tuple[bytes, str]:
    refused = None
    if mode == "worker" and not any(flag.startswith(STICKY) for flag in flags):
        try:
            return compile_in_process(source, flags, answers.diagnostic), "worker"
        except Refused as error:
            if error.stage != "flags":
                raise
            refused = error
    if refused is not None and not tool_path():
        raise refused
    # The tool takes the flags that IREE keeps global to a process, and names a wrong one.
    return compile_with_tool(source, flags, answers.diagnostic), "cli"
