# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Processes that do what must not happen in this one: compile, load libraries of others.

Whatever such a process does, this one goes on: it has a session of its own, so that it is ended
with all that it started, it never outlives its work, and what it printed is kept for an error.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..graph_api.errors import CompileError

__all__ = ["ChildProcess", "import_folder", "interpreter", "question", "search_path"]

# -P: neither the working directory nor a script's folder may shadow a module.  The host's own
# search path comes last: it matters where a host found this package by means of its own.
_BOOT = """\
import sys
from importlib import import_module
root, module, count = sys.argv[1], sys.argv[2], 4 + int(sys.argv[3])
sys.path.insert(0, root)
main = import_module(module).main
del sys.path[0]
sys.path += [path for path in [root, *sys.argv[count:]] if path not in sys.path]
main(*sys.argv[4:count])
"""

_LIBRARIES = ("OMP", "OPENBLAS", "MKL")


class ChildProcess:
    """A Python process that runs the function ``main`` of one of our modules.

    Parameters
    ----------
    python : str
        Interpreter, see `interpreter`.
    module : str
        Full name of the module.
    arguments : iterable of str
        What ``main`` is called with.
    path : iterable of str
        Search path of modules, behind that of the interpreter.
    stdin, stdout : int
        As for ``subprocess.Popen``; stdout goes to the file of what it prints by default.
    unbuffered : bool
        Whether what it prints, C's stdout too, comes in order, and before a crash.
    pass_fds : iterable of int
        Descriptors that it inherits.
    threads : int
        Of BLAS and OpenMP, in its children too; 0: their own choice.

    Attributes
    ----------
    pid : int
        Process id, which is also the id of its process group and session.

    Raises
    ------
    OSError
        If it cannot be started.
    """

    def __init__(
        self,
        python: str,
        module: str,
        arguments: Iterable[str],
        path: Iterable[str],
        *,
        stdin: int,
        stdout: int | None = None,
        unbuffered: bool = False,
        pass_fds: Iterable[int] = (),
        threads: int = 0,
    ) -> None:
        self._owner = os.getpid()
        self._printed = tempfile.TemporaryFile(prefix="hipdnn-iree-")  # noqa: SIM115
        # Appending, so that the file can be emptied while it is in use.
        fcntl.fcntl(self._printed, fcntl.F_SETFL, os.O_APPEND)
        given = list(arguments)
        limits = [f"{library}_NUM_THREADS={threads}" for library in _LIBRARIES]
        words = ["/usr/bin/env", *limits] if threads else []
        words += [python, "-P", *(["-u"] if unbuffered else []), "-W", "ignore", "-c", _BOOT]
        try:
            # A session of its own: Ctrl-C in the terminal stops the host, not the child.
            self._process = subprocess.Popen(
                [*words, import_folder(), module, str(len(given)), *given, *path],
                stdin=stdin,
                stdout=self._printed if stdout is None else stdout,
                stderr=self._printed,
                pass_fds=tuple(pass_fds),
                start_new_session=True,
            )
        except BaseException:
            self._printed.close()
            raise
        self.pid = self._process.pid

    @property
    def ours(self) -> bool:
        """Whether this very process has started it, and not one that this was forked from."""
        return os.getpid() == self._owner

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self.ours and self._process.poll() is None

    def write(self, data: bytes) -> None:
        """Write to its stdin, which has to be a pipe, and close it."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError), self._process.stdin:
            self._process.stdin.write(data)

    def wait(self, seconds: float) -> bool:
        """Wait for its end; return whether it came."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(max(seconds, 0.01))
        return self._process.poll() is not None

    def printed(self, most: int) -> str:
        """Return the end of what it printed, at most so many bytes."""
        size = os.fstat(self._printed.fileno()).st_size
        start = max(0, size - most)
        data = os.pread(self._printed.fileno(), size - start, start)
        return data.decode("utf-8", "backslashreplace")

    def forget_printed(self) -> None:
        """Drop what it has printed so far."""
        self._printed.truncate(0)

    def end(self, grace_s: float = 0.0) -> int:
        """End it and all that it started; return its exit status.

        The status is 0 too when somebody else has taken it, as a host does that reaps all children.

        Parameters
        ----------
        grace_s : float
            Seconds that it may take to end by itself, so that the status tells its own reason.
        """
        # Gone already if the host reaps all children, or ignores SIGCHLD.
        with suppress(ChildProcessError, ProcessLookupError):
            # Not reaped before the group is killed: until then nobody else can have its id.
            self._wait_unreaped(grace_s)
            os.killpg(self.pid, signal.SIGKILL)
        return self._process.wait()

    def kill(self) -> bool:
        """End it from another thread than the one that reaps it; return whether it ran."""
        if not self.ours or self._process.returncode is not None:
            return False
        with suppress(ChildProcessError, ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
            self._wait_unreaped(1.0)
        return True

    def close(self) -> None:
        """Free what is held; in a forked child only let go of what was inherited."""
        if not self.ours:
            self._process.returncode = 0  # not ours to wait for
        self._printed.close()

    def cpu_seconds(self) -> float:
        """Return the CPU time that it has taken; 0 when it is gone or the system does not tell."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _wait_unreaped(self, seconds: float) -> None:
        how = os.WEXITED | os.WNOWAIT | os.WNOHANG
        give_up = time.monotonic() + seconds
        while os.waitid(os.P_PID, self.pid, how) is None and time.monotonic() < give_up:
            time.sleep(0.002)


def question(code: str, *arguments: str, timeout_s: float = 60.0) -> dict[str, Any] | str:
    """Run a short program in an interpreter of its own and return what it answers.

    Parameters
    ----------
    code : str
        Prints a JSON object on its last line; whatever it prints before does not matter.
    *arguments : str
        Its ``sys.argv[1:]``.

    Returns
    -------
    dict or str
        The object, or why there is none: the last line of what it complained of.
    """
    words = [sys.executable, "-I", "-c", code, *arguments]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=timeout_s, check=False, errors="replace"
        )
    except subprocess.TimeoutExpired:
        return f"it did not answer within {timeout_s:g} s"
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["(nothing)"]
        return f"it ended with status {done.returncode}: {last[0]}"
    last = done.stdout.splitlines()[-1:] or ["nothing"]
    try:
        found = json.loads(last[0])
    except ValueError:
        found = None
    return found if isinstance(found, dict) else f"it answers {last[0][:200]!r}"


def search_path() -> list[str]:
    """Return ``sys.path`` for a process of ours, without the folder of the user's script.

    A file named ``iree.py`` there would hide the compiler, wherever it stands on the path: IREE
    is a namespace package, which any plain module of that name replaces.
    """
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    beside = os.path.dirname(os.path.abspath(script)) if script else None
    return [folder for folder in sys.path if folder and folder != beside]


_PYTHON = re.compile(r"python(\d+(\.\d+)?)?[dt]*")


def interpreter(chosen: Path | None) -> str:
    """Return the Python executable that runs workers and probes.

    ``chosen`` if given, else the one that runs this code.  In a program that embeds Python,
    ``sys.executable`` may be that program: then one is looked for under ``sys.prefix``.

    Raises
    ------
    CompileError
        If there is none.
    """
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    prefixes = dict.fromkeys((sys.prefix, sys.exec_prefix, sys.base_prefix))
    guesses = [f"{p}/bin/{n}" for p in prefixes for n in (f"python{version}", "python3")]
    if _PYTHON.fullmatch(os.path.basename(sys.executable or "")):
        guesses.insert(0, sys.executable)
    if chosen is not None:
        guesses = [str(chosen)]
    for path in guesses:
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    raise CompileError(
        f"no Python to run the compiler in: tried {', '.join(guesses)}; "
        "set HIPDNN_IREE_PYTHON to the interpreter that has hipdnn-iree installed",
        stage="crash",
        cause="host",
    )


def import_folder() -> str:
    """Return the folder that has to be on ``sys.path`` to import this package."""
    package = sys.modules[__name__.partition(".")[0]]
    return os.path.dirname(os.path.dirname(os.path.abspath(str(package.__file__))))
