# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Asking plugins in processes of their own: whatever one does, this process goes on.

A plugin that crashes, hangs, prints, or answers nonsense costs a process and a reason.  What was
learned is remembered by the file's path, time and size, so that a plugin is not asked again
before it changes.
"""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import subprocess
import sys
import time
from base64 import b64encode
from contextlib import suppress
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from ....graph_api.errors import Problem
from ....graph_api.files import read_file, replace_file
from ....jit.child_process import ChildProcess, interpreter
from ....jit.settings import foreign
from ....jit.settings_table import Settings
from ....jit.trust import opened
from ...engine_ids import engine_id
from .foreign_rules import problem
from .probe_report import Report, Trial, Wanted

__all__ = ["identity", "look", "look_at_backend", "try_out"]

log = logging.getLogger("hipdnn_iree.foreign")

Answer = TypeVar("Answer", Report, Trial)

# Part of every key: to be raised when the meaning of what is remembered changes.
_VERSION = 1
_MOST_FILES = 4000  # answers that are kept
_START_S = 30  # for Python itself, on a machine that is busy
_TAIL = 2000  # bytes of what a plugin printed
# What decides which libraries a plugin finds, and how it behaves.
_VARIABLES = ("LD_LIBRARY_PATH", "LD_PRELOAD", "ROCM_PATH", "HIP_VISIBLE_DEVICES")


def identity(path: Path) -> list[Any]:
    """Return what tells one state of a file from another: path, time in ns, size.

    Raises
    ------
    OSError
        If there is no such file.
    """
    about = path.stat()
    return [str(path), about.st_mtime_ns, about.st_size]


def look(path: Path, settings: Settings, *, again: bool = False) -> Report:
    """Return what a plugin says of itself, from a probe process or from memory.

    Parameters
    ----------
    path : Path
        The file, links resolved.
    settings : Settings
    again : bool
        Ask even if the answer is remembered.

    Raises
    ------
    OSError
        If there is no such file.
    """
    key = [*identity(path), settings.foreign_device]
    found = None if again else _recall(key, settings, Report)
    if found is not None:
        return found
    report = _report({"path": str(path)}, path, settings)
    _remember(key, report.as_dict(), settings)
    return report


def look_at_backend(
    path: Path, plugins: list[list[Any]], settings: Settings, *, again: bool = False
) -> Report:
    """Return what hipDNN's backend says of itself and its engines, as `look` does for plugins.

    Parameters
    ----------
    path : Path
        ``libhipdnn_backend.so``.
    plugins : list
        Identities of the plugins that it will find; part of what the answer is remembered by.
    settings : Settings
    again : bool
    """
    key = ["backend", *identity(path), plugins, foreign("HIPDNN_PLUGIN_DIR")]
    found = None if again else _recall(key, settings, Report)
    if found is not None:
        return found
    report = _report({"path": str(path), "backend": True}, path, settings)
    _remember(key, report.as_dict(), settings)
    return report


def _report(request: dict[str, Any], path: Path, settings: Settings) -> Report:
    """Return what a probe process says of a library."""
    answer, problems, said = _converse(request, settings, Report)
    report = Report(path=str(path)) if answer is None else _named(answer)
    return replace(
        report,
        problems=(*report.problems, *problems),
        usable=report.usable and not problems,
        said=(*report.said, *said),
    )


def _named(report: Report) -> Report:
    """Return a report without the engines whose names do not fit their ids."""
    kept, dropped = [], []
    for one in report.engines:
        if one.name and engine_id(one.name) != one.id:
            got = f"the name {one.name[:100]!r}, whose id is {engine_id(one.name) % 2**64:#018x}"
            where = f"engine {one.id % 2**64:#018x}"
            dropped.append(problem("FOREIGN-06", where, got, "a name whose hash is the id"))
        else:
            kept.append(one)
    return replace(
        report,
        engines=tuple(kept),
        problems=(*report.problems, *dropped),
        usable=report.usable and (bool(kept) or not dropped),
    )


def try_out(path: Path, wanted: Wanted, settings: Settings) -> Trial:
    """Return how a plugin does with a graph, from a probe process or from memory."""
    asked = {
        **asdict(wanted),
        "graph": b64encode(wanted.graph).decode(),
        "config": b64encode(wanted.config).decode(),
    }
    key = [*identity(path), settings.foreign_device, asked]
    found = _recall(key, settings, Trial)
    if found is not None:
        return found
    answer, problems, said = _converse({"path": str(path), "wanted": asked}, settings, Trial)
    trial = Trial(problem=problems[0], said=said) if problems or answer is None else answer
    _remember(key, trial.as_dict(), settings)
    return trial


# ------------------------------------------------------------------ the conversation


def _converse(
    request: dict[str, Any], settings: Settings, kind: type[Answer]
) -> tuple[Answer | None, list[Problem], tuple[str, ...]]:
    """Start a probe process; return its answer, what it did wrong, and what it printed."""
    limit = settings.foreign_timeout_s
    log.info("asking %s in a process of its own", request["path"])
    ours, theirs = os.pipe()
    try:
        child = ChildProcess(
            interpreter(settings.compiler_python),
            f"{__package__}.probe_child",
            (str(theirs), str(os.getpid())),
            filter(None, sys.path),
            stdin=subprocess.PIPE,
            unbuffered=True,
            pass_fds=(theirs,),
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    try:
        child.write(json.dumps(request).encode())
        words, step, ended = _listen(ours, child, limit)
    finally:
        os.close(ours)
        status = child.end()
    said = tuple(line for line in child.printed(_TAIL).split("\n") if line.strip())
    child.close()
    problems = []
    answer = _understood(words, kind)
    if not ended:
        got = f"no answer within {limit:g} s"
        wanted, hint = "an answer", "HIPDNN_IREE_FOREIGN_TIMEOUT_S gives it more time"
        problems.append(problem("FOREIGN-04", step, got, wanted, hint))
    elif status or answer is None:
        last = f": {said[-1][:300]}" if said else ""
        problems.append(problem("FOREIGN-04", step, _end(status) + last, "an answer"))
    return answer, problems, said


def _understood(words: object, kind: type[Answer]) -> Answer | None:
    """Return an answer in its type; None for what is none: a plugin may write anything."""
    try:
        return kind.from_dict(words)
    except ValueError:
        return None


def _listen(pipe: int, child: ChildProcess, limit: float) -> tuple[object, str, bool]:
    """Return the answer, the step that was reached, and whether the process ended by itself."""
    answer: object = None
    step, data = "start", b""
    deadline = time.monotonic() + limit + _START_S
    open_ = True
    while open_ and (left := deadline - time.monotonic()) > 0:
        if not select.select([pipe], [], [], left)[0]:
            break
        chunk = os.read(pipe, 1 << 16)
        open_ = bool(chunk)
        *lines, data = (data + chunk).split(b"\n")
        for line in lines:
            found = _json(line)
            if isinstance(found, dict):
                answer, step = found.get("done", answer), str(found.get("step", step))
            deadline = time.monotonic() + limit  # for the next call
    return answer, step, child.wait(deadline - time.monotonic())


def _end(status: int) -> str:
    if status >= 0:
        return f"the process ended with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = str(-status)
    return f"the process was ended by {name}"


# ------------------------------------------------------------------ memory


def _file(key: list[Any], settings: Settings) -> Path | None:
    if settings.cache_mode == "off":
        return None
    facts = [_VERSION, key, foreign(*_VARIABLES)]
    name = sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]
    return settings.cache_dir / "foreign" / f"{name}.json"


def _recall(key: list[Any], settings: Settings, kind: type[Answer]) -> Answer | None:
    file = _file(key, settings)
    if file is None:
        return None
    try:
        with opened(settings.cache_dir, file.parent.name) as folder:
            data = read_file(file.name, dir_fd=folder)
    except OSError:
        return None
    return _understood(_json(data), kind)


def _json(data: bytes) -> object:
    """Return what JSON says; None for what is no JSON."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _remember(key: list[Any], answer: dict[str, Any], settings: Settings) -> None:
    """Store an answer at once, for all processes; that it cannot be stored is no error."""
    file = _file(key, settings)
    if file is None:
        return
    try:
        with opened(settings.cache_dir, file.parent.name, make=True):
            replace_file(file, json.dumps(answer).encode(), sync=False)
            _trim(file.parent)
    except OSError as error:
        log.info("what %s said is not remembered: %s", answer.get("path", "a plugin"), error)


def _trim(folder: Path) -> None:
    """Drop the older half of the answers when there are too many."""
    files = list(folder.iterdir())
    if len(files) <= _MOST_FILES:
        return
    ages = []
    for file in files:
        with suppress(FileNotFoundError):  # another process trims as well
            ages.append((file.stat().st_mtime_ns, file))
    for _, file in sorted(ages)[: len(ages) // 2]:
        file.unlink(missing_ok=True)
