"""One compiler worker as the host sees it: start it, ask it, end it."""

from __future__ import annotations

import fcntl
import logging
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from .python import import_folder
from .wire import Unframer, frame

__all__ = ["Answer", "WorkerEnded", "WorkerProcess", "WorkerTimeout"]

log = logging.getLogger("hipdnn_iree.compiler")

# -P: neither the working directory nor a script's folder may shadow a module.  The host's own
# search path comes last: it matters where a host found this package by means of its own.
_BOOT = """\
import sys
root, parent, scratch, idle, warm = sys.argv[1:6]
sys.path.insert(0, root)
from hipdnn_iree.jit.compiler.worker import main
del sys.path[0]
sys.path += [path for path in [root, *sys.argv[6:]] if path not in sys.path]
main(int(parent), scratch, float(idle), warm == "warm")
"""

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


def _search_path() -> list[str]:
    """Return ``sys.path`` for the worker, without the folder of the user's script.

    A file named ``iree.py`` there would hide the compiler, wherever it stands on the path: IREE
    is a namespace package, which any plain module of that name replaces.
    """
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    beside = os.path.dirname(os.path.abspath(script)) if script else None
    return [folder for folder in sys.path if folder and folder != beside]


def _folder_without_blanks() -> str:
    """Return the folder for temporary files; IREE does not quote its path to the linker."""
    usual = tempfile.gettempdir()
    if not any(map(str.isspace, usual)):
        return usual
    return next((d for d in ("/tmp", "/var/tmp") if os.access(d, os.W_OK)), usual)


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
        self._owner = os.getpid()
        self._stderr = tempfile.TemporaryFile(prefix="hipdnn-iree-")  # noqa: SIM115
        # Appending, so that the file can be emptied between jobs.
        fcntl.fcntl(self._stderr, fcntl.F_SETFL, os.O_APPEND)
        # A socket, as writing to a pipe whose reader has died sends SIGPIPE, which ends a program
        # that embeds Python and left the signal alone.
        self._socket, theirs = socket.socketpair()
        # Temporary files of the compiler, which it leaves behind when it crashes.
        self._scratch = tempfile.mkdtemp(prefix="hipdnn-iree-", dir=_folder_without_blanks())
        arguments = [import_folder(), str(self._owner), self._scratch, repr(idle_s)]
        arguments += ["warm" if warm else "cold", *_search_path()]
        try:
            # A session of its own: Ctrl-C in the terminal stops the host, not the compiler.
            self._process = subprocess.Popen(
                [python, "-P", "-W", "ignore", "-c", _BOOT, *arguments],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=self._stderr,
                start_new_session=True,
            )
        except OSError:
            self._free()
            raise
        finally:
            theirs.close()
        self._socket.setblocking(False)
        self._answers = Unframer()
        self._jobs = 0
        self.pid = self._process.pid
        self.tool = self.compiler = ""
        log.debug("started compiler worker %d with %s", self.pid, python)

    @property
    def alive(self) -> bool:
        """Whether it can take a job: running, not ended by us, and started by this process."""
        return (
            self._socket.fileno() >= 0
            and os.getpid() == self._owner
            and self._process.poll() is None
        )

    def cpu_seconds(self) -> float:
        """Return the CPU time that it has taken; 0 when it is gone or the system does not tell."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

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
                self._stderr.truncate(0)
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
        size = os.fstat(self._stderr.fileno()).st_size
        start = max(0, size - _LOG_TAIL)
        return os.pread(self._stderr.fileno(), size - start, start).decode("utf-8", "replace")

    def end(self, grace_s: float = 0.0) -> int | None:
        """End the worker and all that it started; return its exit status if it is known.

        Parameters
        ----------
        grace_s : float
            Seconds that it may take to end by itself, so that the status tells its own reason.
        """
        if os.getpid() != self._owner:
            return None
        # Gone already if the host reaps all children, or ignores SIGCHLD.
        with suppress(ChildProcessError, ProcessLookupError):
            # Not reaped before the group is killed: until then nobody else can have its id.
            self._wait_unreaped(grace_s)
            os.killpg(self.pid, signal.SIGKILL)
        status = self._process.wait()
        self._socket.close()
        # Popen reports 0 when somebody else took the status; the worker never exits with 0.
        return status or None

    def kill(self) -> None:
        """End it from another thread than the one that waits for its answer and reaps it."""
        if os.getpid() == self._owner and self._process.returncode is None:
            with suppress(ChildProcessError, ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
                self._wait_unreaped(1.0)
            shutil.rmtree(self._scratch, ignore_errors=True)

    def close(self) -> None:
        """End it and free all it holds; in a forked child only let go of what was inherited."""
        if os.getpid() == self._owner:
            if self.alive:
                self.end()
            self._free()
        else:
            self._process.returncode = 0  # not ours to wait for
            self._socket.close()
            self._stderr.close()

    def _wait_unreaped(self, seconds: float) -> None:
        how = os.WEXITED | os.WNOWAIT | os.WNOHANG
        give_up = time.monotonic() + seconds
        while os.waitid(os.P_PID, self.pid, how) is None and time.monotonic() < give_up:
            time.sleep(0.002)

    def _free(self) -> None:
        self._socket.close()
        self._stderr.close()
        shutil.rmtree(self._scratch, ignore_errors=True)
