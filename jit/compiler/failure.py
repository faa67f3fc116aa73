# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From an answer that is not a module to a `CompileError` that tells what to do."""

from __future__ import annotations

import logging
import platform
import signal
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ... import __version__
from ...graph_api.errors import CompileError
from ..options import WorkerOptions
from . import reproducer
from .diagnostics import clean, crash_reason, find_node
from .process import Answer, WorkerEnded, WorkerTimeout
from .request import CompileRequest
from .wire import OUT_OF_MEMORY, UNKNOWN_CPU

__all__ = ["Origin", "cleaned", "error", "of_death", "of_timeout", "task_error"]

log = logging.getLogger("hipdnn_iree.compiler")

_MESSAGES = {
    "flags": "the compiler does not take the flags for {label}",
    "parse": "the compiler cannot read the module of {label}",
    "compile": "the compiler cannot compile {label}",
    "crash": "the compiler broke down on {label}",
    "timeout": "the compiler did not finish {label}",
}

_TASK_MESSAGES = {
    "compile": "cannot convert {label}",
    "crash": "the MLIR library broke down on {label}",
    "timeout": "the MLIR library did not finish {label}",
}


class Origin(NamedTuple):
    """Who answered: path of iree-compile, version of the compiler, what the worker printed."""

    tool: str
    compiler: str
    stderr: str


def of_timeout(event: WorkerTimeout, limit_s: float) -> Answer:
    """Return the answer that stands for a worker that ran out of time."""
    reason = f"stopped after {limit_s:g} s; HIPDNN_IREE_COMPILER_TIMEOUT_S sets the limit"
    return Answer(_done("timeout", reason, "time"), event.diagnostics, b"")


# By these only the host or its user ends a process.
_BY_SOMEBODY = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")


def of_death(event: WorkerEnded, stderr: str) -> Answer:
    """Return the answer that stands for a worker that ended before it answered."""
    status, name, stage, cause = event.returncode, "", "crash", ""
    if status is None:
        reason, cause = "its process is gone", "host"
    elif status < 0:
        name = signal.Signals(-status).name
        reason = f"its process was ended by {name}"
    else:
        reason = f"its process left with status {status}"
    if UNKNOWN_CPU in stderr:
        stage, reason = "flags", "it does not know the CPU"
    return Answer({**_done(stage, reason, cause), "signal": name}, event.diagnostics, b"")


def _explained(done: dict[str, Any], printed: str, memory: int) -> dict[str, Any]:
    """Return an answer with the cause of a crash, as far as signal and output tell it."""
    name, cause, more = done["signal"], "", ""
    if done["stage"] != "crash" or done["cause"]:
        return done
    if name == "SIGKILL":
        cause, more = "killed", "; the machine may be short of memory"
    elif name in _BY_SOMEBODY:
        cause = "host"
    elif any(text in printed for text in OUT_OF_MEMORY):
        allowed = f"{memory / 2**30:.3g} GiB of memory"
        cause, more = "memory", f"; HIPDNN_IREE_COMPILER_MAX_MEMORY allows {allowed}"
    return {**done, "cause": cause, "reason": done["reason"] + more}


def _done(stage: str, reason: str, cause: str) -> dict[str, Any]:
    return {"stage": stage, "reason": reason, "log": "", "signal": "", "cause": cause}


def error(
    request: CompileRequest,
    answer: Answer,
    origin: Origin,
    options: WorkerOptions,
    seconds: float,
) -> CompileError:
    """Return the error for an answer whose stage is not empty, with a reproducer on disk."""
    printed = "\n".join(filter(None, (answer.done["log"], origin.stderr)))
    done = _explained(answer.done, printed, options.memory)
    said = [text for severity, text in answer.diagnostics if severity == "error"]
    source = request.source.decode("utf-8", "replace")
    node = "" if done["stage"] == "flags" else find_node(said, source, request.nodes)
    texts = list(cleaned(answer.diagnostics, request.nodes, ("error",)))
    reason = crash_reason(printed) if done["stage"] in ("crash", "flags") else ""
    if reason and not any(reason in text for text in texts):
        texts.append(reason)
    result = {
        "stage": done["stage"],
        "reason": done["reason"],
        "signal": done["signal"],
        "cause": done["cause"],
        "node": node,
        "label": request.label,
        "seconds": round(seconds, 3),
        "diagnostics": texts,
        "versions": {
            "hipdnn-iree": __version__,
            "iree-base-compiler": origin.compiler,
            "python": platform.python_version(),
        },
    }
    folder = reproducer.write(
        options.reproducers_dir,
        options.reproducers_keep,
        request,
        result,
        _log_text(answer, printed),
        origin.tool,
    )
    log.info("%s: %s, %s (%s)", request.label, done["stage"], done["reason"], folder)
    message = _MESSAGES[done["stage"]].format(label=request.label)
    return CompileError(
        f"{message}: {done['reason']}" if done["reason"] else message,
        stage=done["stage"],
        node=node,
        diagnostics=texts,
        reproducer=folder,
        cause=done["cause"],
    )


def task_error(answer: Answer, label: str, node: str) -> CompileError:
    """Return the error for a task that was not done: `Compiler.perform`."""
    done = answer.done
    texts = [text for severity, text in answer.diagnostics if severity == "error"]
    log.info("%s: %s, %s", label, done["stage"], done["reason"])
    said = [line for line in done["log"].splitlines() if line.strip()]
    return CompileError(
        f"{_TASK_MESSAGES[done['stage']].format(label=label)}: {done['reason']}",
        stage=done["stage"],
        node=node,
        diagnostics=texts or said,
        cause=done["cause"],
    )


def cleaned(
    found: Iterable[tuple[str, str]], nodes: Mapping[str, str], severities: Sequence[str]
) -> tuple[str, ...]:
    """Return the diagnostics of these severities, readable, each once, in order."""
    texts = (clean(text, nodes) for kind, text in found if kind in severities)
    return tuple(dict.fromkeys(texts))


def _log_text(answer: Answer, printed: str) -> str:
    parts = [f"{severity}: {text}\n" for severity, text in answer.diagnostics]
    return "\n".join([*parts, "--- printed by the compiler ---", printed, ""])
