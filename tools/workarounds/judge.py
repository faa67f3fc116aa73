# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The verdict on a defect: compile and run its reproducer in child processes with limits."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from ctypes.util import find_library
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from .schema import Baseline, Check, Defect

__all__ = ["MENDED", "NEEDED", "UNKNOWN", "Verdict", "judge"]

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "check_workarounds"
NEEDED, MENDED, UNKNOWN = "needed", "mended", "cannot tell"


@dataclass(frozen=True, slots=True)
class Done:
    """How a child process ended."""

    code: int
    text: str
    seconds: float

    @property
    def ending(self) -> str:
        """What there is beside an exit status: a signal, or a limit."""
        if self.code < 0:
            return f"signal {-self.code} ({signal.Signals(-self.code).name})"
        return ""


def _run(command: Sequence[str | Path], folder: Path, check: Check) -> Done:
    """Run a command in a process group of its own, with bounded time and memory."""
    limited = [
        "sh",
        "-c",
        f'ulimit -c 0; ulimit -v {int(check.memory_gb * 2**20)}; exec "$@"',
        "sh",
        *command,
    ]
    begin = time.monotonic()
    with (
        open(folder / "log", "wb") as log,
        subprocess.Popen(
            limited,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        ) as child,
    ):
        try:
            code, late = child.wait(check.limit_s), ""
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            code, late = child.wait(), f"time limit: ended after {check.limit_s:g} s\n"
    seconds = time.monotonic() - begin
    text = (folder / "log").read_text("utf-8", errors="replace")
    done = Done(1 if late else code, late + text, seconds)
    # What LLVM prints where an allocation fails.
    if re.search(r"bad_alloc|out of memory|Cannot allocate memory|MemoryError", done.text):
        done = Done(done.code, f"memory limit of {check.memory_gb:g} GB\n{done.text}", seconds)
    return done if not done.ending else Done(code, f"{done.ending}\n{done.text}", seconds)


@cache
def _compiler() -> str:
    """Return the path of the program ``iree-compile``; the one in bin/ only starts it."""
    import iree.compiler

    return os.path.join(next(iter(iree.compiler.__path__)), "_mlir_libs", "iree-compile")


def _compile(d: Defect, folder: Path, side: Baseline) -> tuple[Done, Path]:
    """Compile one side of a case; returns the module's path as well."""
    folder.mkdir(parents=True, exist_ok=True)
    module = folder / "module.vmfb"
    source = d.folder / (side.file or d.check.file)
    command: list[str | Path] = [
        _compiler(),
        source,
        *(side.flags or d.check.flags),
        "-o",
        module,
    ]
    return _run(command, folder, d.check), module


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found of a defect."""

    id: str
    verdict: str
    reason: str
    seconds: float = 0.0
    versions: Mapping[str, str] = field(default_factory=dict)


def judge(d: Defect) -> Verdict:
    """Try one defect on the installed compiler."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="check-workarounds-") as scratch:
        try:
            verdict, reason = _JUDGES[d.check.kind](d, Path(scratch))
        except Exception as error:  # a case must not end the others
            verdict, reason = UNKNOWN, f"the check failed: {type(error).__name__}: {error}"
    reason = " ".join(reason.replace(f"{d.folder}/", "").split())
    reason = reason if len(reason) <= 160 else reason[:159] + "…"
    return Verdict(d.id, verdict, reason, round(time.monotonic() - begin, 1), _versions())


Found = tuple[str, str]


def _matched(d: Defect, done: Done) -> Found:
    """Return the verdict on a child that did not end well."""
    line = next((x for x in done.text.splitlines() if re.search(d.check.message, x)), "")
    if d.check.message and (line or re.search(d.check.message, done.text)):
        silent = f"exit status {done.code} without a message"
        return NEEDED, line or (d.check.message if done.text.strip() else silent)
    first = next((x for x in done.text.splitlines() if re.search("error|signal|limit", x)), "")
    return UNKNOWN, f"fails in another way: {first or f'exit status {done.code}'}"


def _judge_compile(d: Defect, scratch: Path) -> Found:
    done, _ = _compile(d, scratch, Baseline())
    return _matched(d, done) if done.code else (MENDED, f"compiles in {done.seconds:.1f} s")


def _judge_script(d: Defect, scratch: Path) -> Found:
    done = _run([sys.executable, d.folder / d.check.file], scratch, d.check)
    last = next((line for line in reversed(done.text.splitlines()) if line.strip()), "")
    if done.code in (0, 1) and not done.text.startswith(("time limit", "memory limit")):
        return (NEEDED if done.code else MENDED), last
    return _matched(d, done)


def _judge_none(d: Defect, scratch: Path) -> Found:
    return UNKNOWN, d.check.reason


def _judge_numbers(d: Defect, scratch: Path) -> Found:
    import numpy as np

    from .numbers import difference, expected

    c = d.check
    if d.targets[0] == "cuda" and not find_library("cuda"):
        return UNKNOWN, "needs a CUDA GPU"
    sides = {"repro": Baseline()}
    if c.expected == "baseline":
        assert c.baseline is not None
        sides["baseline"] = c.baseline
    got = {}
    for name, side in sides.items():
        done, module = _compile(d, scratch / name, side)
        if not done.code:
            done = _execute(d, scratch / name, module)
        if done.code:
            return _matched(d, done) if name == "repro" else (UNKNOWN, "the baseline fails")
        with np.load(scratch / name / "results.npz") as results:
            got[name] = results[f"arr_{c.output}"]
    wanted = got["baseline"] if "baseline" in got else expected(c)
    error = difference(got["repro"], wanted)
    verdict = MENDED if error <= c.tolerance else NEEDED
    return verdict, f"error {error:.2g} of the largest value"


def _judge_time(d: Defect, scratch: Path) -> Found:
    c, seconds = d.check, {}
    assert c.baseline is not None
    for name, side in {"baseline": c.baseline, "repro": Baseline()}.items():
        done, module = _compile(d, scratch / name, side)
        seconds[name] = done.seconds
        if not done.code and c.measure == "run":
            done = _execute(d, scratch / name, module)
            if not done.code:
                seconds[name] = float((scratch / name / "seconds").read_text())
        if done.code:
            return _matched(d, done) if name == "repro" else (UNKNOWN, "the baseline fails")
    ratio = seconds["repro"] / max(seconds["baseline"], 1e-9)
    text = f"{ratio:.1f} times as long (threshold {c.ratio:g})"
    return (NEEDED if ratio > c.ratio else MENDED), text


_JUDGES = {
    "compile": _judge_compile,
    "run": _judge_numbers,
    "emulate": _judge_numbers,
    "time": _judge_time,
    "script": _judge_script,
    "none": _judge_none,
}


def _execute(d: Defect, folder: Path, module: Path) -> Done:
    """Run a module in a child process, which writes results and seconds beside it."""
    return _run([sys.executable, SCRIPT, "--child", d.folder, module], folder, d.check)


@cache
def _versions() -> dict[str, str]:
    found = {}
    for name in ("iree-base-compiler", "iree-base-runtime", "torch-mlir"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
