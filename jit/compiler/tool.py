# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiling with the command line tool ``iree-compile``, as a child of the worker.

Slower by the start of the tool, but it takes every flag, also those that IREE keeps global to a
process, and it prints a stack when it crashes.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from functools import lru_cache

from ..trace import span
from .consume import consuming, is_asked
from .dispatch_checks import check, checks_for
from .flags import merge_flags
from .inprocess import Refused, Report
from .loop_tiles import DECOMPOSE, lanes_of, softmax, tiled, tilings
from .phases import DISPATCHES, INPUT
from .wire import BUFFER_NAME, UNKNOWN_CPU

__all__ = ["compile_with_tool", "diagnostics_of", "tool_path"]

_HEAD = re.compile(r"(\S.*?): (error|warning|note|remark): (.*)")
_USAGE = re.compile(r"^\S*iree-compile: (.*?)(?:\s+Try: .*)?$", re.MULTILINE)


@lru_cache(maxsize=1)
def tool_path() -> str:
    """Return the path of ``iree-compile``, or ``""``."""
    from importlib.util import find_spec

    try:
        spec = find_spec("iree.compiler")
    except ModuleNotFoundError:
        spec = None
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        # The program itself; the one in bin/ is a Python script that starts it.
        path = os.path.join(folder, "_mlir_libs", "iree-compile")
        if os.access(path, os.X_OK):
            return path
    return shutil.which("iree-compile") or ""


def compile_with_tool(source: bytes, flags: Sequence[str], report: Report) -> bytes:
    """Return the VM module for MLIR text; see `inprocess.compile_in_process`.

    Raises
    ------
    Refused
        With stage ``"flags"``, ``"parse"``, ``"compile"`` or ``"crash"``.
    Defective
        If the code would be wrong.
    """
    tool = tool_path()
    if not tool:
        raise Refused(
            "crash", "iree-compile was not found; install iree-base-compiler", cause="host"
        )
    if is_asked(source):
        source = consuming(_text(tool, source, flags, report, INPUT))
        flags = (*flags, f"--compile-from={INPUT}")
    checks, lanes = checks_for(flags), lanes_of(flags)
    if checks or lanes:
        source = _text(tool, source, flags, report, DISPATCHES)
        check(checks, source)
        if lanes and softmax(source):
            source = _passed(tool, source, DECOMPOSE)
        source = tiled(source, tilings(source, lanes))
        flags = merge_flags(flags, (f"--compile-from={DISPATCHES}",))
    return _compiled(tool, source, flags, report)


def _text(tool: str, source: bytes, flags: Sequence[str], report: Report, phase: str) -> bytes:
    """Return the module after a phase."""
    upto = (f"--compile-to={phase}", "--mlir-print-debuginfo")
    return _compiled(tool, source, (*flags, *upto), report)


def _passed(tool: str, source: bytes, pipeline: str) -> bytes:
    """Return the module after passes, which the tool beside this one runs."""
    other = os.path.join(os.path.dirname(tool), "iree-opt")
    passes = f"--pass-pipeline=builtin.module({pipeline})"
    # Without aliases, as the compiler writes it, and as its text is read.
    shown = ("--mlir-print-local-scope", "--mlir-print-debuginfo")
    done = subprocess.run(
        [other, "-", passes, *shown], input=source, capture_output=True, check=False
    )
    if done.returncode:
        raise Refused("compile", log=done.stderr.decode("utf-8", "replace"))
    return done.stdout


def _compiled(tool: str, source: bytes, flags: Sequence[str], report: Report) -> bytes:
    """Return what one call of the tool writes."""
    with tempfile.TemporaryDirectory(prefix="hipdnn-iree-") as folder:
        output = os.path.join(folder, "out.vmfb")
        # The text comes by stdin, so that no folder name gets into the module.
        with span("iree-compile", "compiler"):
            done = subprocess.run(
                [tool, "-", *flags, "-o", output], input=source, capture_output=True, check=False
            )
        log = (done.stdout + done.stderr).decode("utf-8", "replace")
        found = list(diagnostics_of(log))
        for severity, text in found:
            report(severity, text)
        if done.returncode < 0:
            name = signal.Signals(-done.returncode).name
            raise Refused("crash", f"iree-compile ended by {name}", log=log, signal=name)
        if done.returncode == 0 and os.path.exists(output):
            with open(output, "rb") as file:
                return file.read()
    if done.returncode == 0:
        raise Refused("flags", "iree-compile succeeded but wrote no module", log=log)
    errors = [text for severity, text in found if severity == "error"]
    if not errors and (usage := _USAGE.findall(log)):
        raise Refused("flags", " ".join(usage), log=log)
    if not errors and UNKNOWN_CPU in log:
        raise Refused("flags", "it does not know the CPU", log=log)
    # Errors of the parser, unlike later ones, show no operation.
    parsing = errors and errors[0].startswith(BUFFER_NAME) and "see current op" not in errors[0]
    raise Refused("parse" if parsing else "compile", log=log)


def diagnostics_of(log: str) -> Iterator[tuple[str, str]]:
    """Yield severity and text of each diagnostic in the tool's output.

    The form is that of the library: notes belong to the diagnostic before them, and the
    location comes first in the text.
    """
    severity, text = "", ""
    for line in log.splitlines():
        if (head := _HEAD.fullmatch(line)) is None:
            continue  # an excerpt of the text, a dump of IR, a stack
        where, kind, what = head.groups()
        what = what if where == "<unknown>:0" else f"{where}: {what}"
        if kind == "note" and text:
            text += "\n\n" + what
            continue
        if text:
            yield severity, text
        severity, text = kind, what
    if text:
        yield severity, text
