# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What ``hipdnn-iree doctor`` looks at: a table of checks, each of them guarded.

Standard library only at import, as what is broken may be a package.  A check that fails itself is
a problem, and stops no other.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any, NamedTuple

from . import probes

__all__ = ["CHECKS", "Finding", "as_dict", "examine"]


class Finding(NamedTuple):
    """One thing that was looked at.

    Attributes
    ----------
    check : str
        What was looked at, from `CHECKS`.
    state : str
        ``"ok"``, ``"note"`` (may be meant) or ``"problem"`` (something that is needed is broken).
    found : str
    remedy : str
        What to do; empty where all is well.
    """

    check: str
    state: str
    found: str
    remedy: str = ""


class _Said(NamedTuple):
    """What a check says; `examine` adds its name."""

    state: str
    found: str
    remedy: str = ""


_INSTALL = "install the package with all its dependencies: docs/install.md"
_PATIENCE_S = 180.0


def examine(*, runs: bool = True) -> list[Finding]:
    """Look at everything, and return what was found.

    Parameters
    ----------
    runs : bool
        Compile and run a small graph, which takes two seconds.
    """
    found: list[Finding] = []
    for name, check in CHECKS.items():
        if name == "graph" and not runs:
            continue
        try:
            found += [Finding(name, *said) for said in check()]
        except Exception as error:  # whatever is broken here is what the report is for
            text = f"this cannot be looked at: {type(error).__name__}: {error}"
            found.append(Finding(name, "problem", text, _INSTALL))
    return found


def as_dict(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the JSON form."""
    return {
        "ok": all(one.state != "problem" for one in findings),
        "findings": [one._asdict() for one in findings],
    }


# ---------------------------------------------------------------------------- Python, packages


def _python() -> Iterator[_Said]:
    here = f"{platform.python_implementation()} {platform.python_version()} at {sys.executable}"
    machine = f"{platform.system()} {platform.machine()}"
    if platform.python_implementation() != "CPython" or sys.version_info < (3, 11):
        yield _Said("problem", here, "install it for CPython 3.11 or newer")
    elif machine != "Linux x86_64":
        yield _Said("problem", f"{here}, {machine}", "IREE's packages are for Linux on x86-64")
    else:
        yield _Said("ok", f"{here}, {machine}")


_REQUIREMENT = re.compile(r"^([\w.-]+)(?:\[.*?\])?\s*([<>=!~][^;]*)?(?:;\s*(.*))?$")
_CLAUSE = re.compile(r"(>=|<)\s*([\w.]+)")


def _numbers(text: str) -> tuple[int, ...]:
    """Return a version's leading numbers: enough for the ranges that we ask for."""
    match = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(map(int, match[0].split("."))) if match else ()


def fits(found: str, wanted: str) -> bool:
    """Whether a version is within a range of ``>=`` and ``<``."""
    have = _numbers(found)
    for sign, bound in _CLAUSE.findall(wanted):
        limit = _numbers(bound)
        width = max(len(have), len(limit))
        a, b = (v + (0,) * (width - len(v)) for v in (have, limit))
        if (a < b) if sign == ">=" else (a >= b):
            return False
    return True


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _packages() -> Iterator[_Said]:
    try:
        wanted = requires("hipdnn-iree") or []
    except PackageNotFoundError:
        yield _Said(
            "note",
            "hipdnn-iree runs from a folder and is not installed: versions cannot be compared",
            "scripts/setup in a checkout, or pip install",
        )
        return
    sound = []
    for line in wanted:
        match = _REQUIREMENT.match(line)
        if match is None:
            continue
        name, asked, condition = match[1], (match[2] or "").strip(" ()"), match[3] or ""
        extra = "extra ==" in condition
        found = _installed(name)
        if found is None and not extra:
            state = "problem" if name != "hip-python" or os.path.exists(_DRIVER) else "note"
            yield _Said(state, f"{name} is missing; wanted {asked}", f"pip install '{name}{asked}'")
        elif found is not None and not fits(found, asked):
            state, remedy = "problem", f"pip install '{name}{asked}'"
            yield _Said("note" if extra else state, f"{name} {found}; wanted {asked}", remedy)
        elif found is not None:
            sound.append(f"{name} {found}")
    compiler, runtime = map(_installed, ("iree-base-compiler", "iree-base-runtime"))
    if compiler and runtime and compiler != runtime:
        text = f"the compiler is of version {compiler}, the runtime of {runtime}"
        yield _Said("problem", text, f"pip install iree-base-runtime=={compiler}")
    if _installed("mlir-python-bindings"):
        text = "mlir-python-bindings is not needed: the bindings are inside torch-mlir's wheel"
        yield _Said("note", text, "pip uninstall mlir-python-bindings")
    yield _Said("ok", ", ".join(dict.fromkeys(sound)) or "none")


# ---------------------------------------------------------------------------- settings, cache


def _settings() -> Iterator[_Said]:
    from ...graph_api.errors import SettingError
    from ...jit.settings import settings, unknown_variables

    for name, near in unknown_variables().items():
        remedy = f"set {near}, or unset it" if near else f"unset {name}"
        yield _Said("note", f"{name} is no setting", remedy)
    try:
        settings()
    except SettingError as error:
        for line in str(error).splitlines():
            yield _Said("problem", line, "unset it, or give it an allowed value")
        return
    yield _Said("ok", "all are allowed values")


def _cache() -> Iterator[_Said]:
    from ...jit.cache import CacheStore
    from ...jit.settings import settings
    from ..native.deployment import unusable

    now = settings()
    if now.cache_mode == "off":
        yield _Said("note", "it is switched off: each build compiles", "unset HIPDNN_IREE_CACHE")
        return
    other = "HIPDNN_IREE_CACHE_DIR names another folder"
    if reason := unusable(now.cache_dir):
        yield _Said("problem", f"{now.cache_dir}: {reason}", f"mend that, or {other}")
        return
    store = CacheStore(now.cache_dir, now.cache_max_bytes)
    damaged, about = store.verify(), store.info()
    if about.off:
        yield _Said("problem", f"{about.root}: {about.off}", f"mend that, or {other}")
    elif damaged:
        text = f"{about.root}: {len(damaged)} damaged, the first is {damaged[0]}"
        yield _Said("problem", text, "hipdnn-iree cache verify --repair")
    else:
        yield _Said("ok", f"{about.root}: {about.entries} entries, {about.nbytes:,} bytes")


def _scratch() -> Iterator[_Said]:
    place = tempfile.gettempdir()
    with tempfile.TemporaryFile(dir=place) as file:  # OSError: `examine` tells it
        file.write(b"text")
    free = os.statvfs(place)
    room = free.f_bavail * free.f_frsize
    if " " in place:
        text = f"{place} has a space in its name, which IREE's linker step does not quote"
        yield _Said("problem", text, "TMPDIR names a folder without")
    elif room < 64 << 20:
        yield _Said("problem", f"{place}: {room:,} bytes are free", "make room, or set TMPDIR")
    else:
        yield _Said("ok", place)


# ---------------------------------------------------------------------------- compiler, runtime

# Run with our search path, which the interpreter would not have with -P or -I.
_MAIN = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from hipdnn_iree.provider.cli.main import main
main(sys.argv[2:])
"""


def _ourselves(*words: str) -> tuple[int, dict[str, Any]]:
    """Run a command of ours in another process; return its status and what it printed.

    What is not JSON comes back as ``{"error": {"message": last line of stderr}}``.
    """
    command = [sys.executable, "-c", _MAIN, json.dumps(sys.path), *words, "--json"]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            errors="replace",
            check=False,
        )
    except subprocess.TimeoutExpired:
        return -1, {"error": {"message": f"it did not end within {_PATIENCE_S:g} s"}}
    try:
        return done.returncode, dict(json.loads(done.stdout))
    except ValueError:
        last = done.stderr.strip().splitlines()[-1:] or ["nothing"]
        text = f"it ended with status {done.returncode} and said: {last[0]}"
        return done.returncode, {"error": {"message": text}}


def _graph() -> Iterator[_Said]:
    from ..graph import Graph

    graph = Graph("doctor", io_data_type="float", compute_data_type="float")
    x, y = (graph.tensor(dims=(16, 16), name=name) for name in "xy")
    graph.relu(graph.add(x, y)).set_output()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "graph.json")
        graph.save(path)
        status, about = _ourselves("run", str(path), "--verify", "--cache", "off")
    if "error" in about:
        said = " ".join(str(about["error"].get("message", "")).split())
        yield _Said("problem", f"a graph for this CPU: {said}", _INSTALL)
    elif status or not about["verified"]:
        text = f"a result on this CPU is wrong by {about['max_abs_error']}"
        yield _Said("problem", text, f"report it with `hipdnn-iree env --json`; {_INSTALL}")
    else:
        took = about["compile_s"]
        yield _Said("ok", f"a graph for this CPU: built in {took:.2f} s, run, and right")


def _compiler() -> Iterator[_Said]:
    from shutil import which

    from ...jit.settings import foreign

    name = foreign("CC")["CC"] or "cc"
    shipped = Path(__file__).resolve().parents[2] / "hipdnn_plugin" / "engines"
    if os.path.isdir(shipped):
        yield _Said("ok", "not needed: the libraries for hosts are in the package")
    elif which(name.split()[0]):
        yield _Said("ok", f"{which(name.split()[0])} builds the libraries for hosts")
    else:
        text = f"no {name}: the libraries for hipDNN, ONNX Runtime and emulation cannot be built"
        yield _Said("note", text, "install gcc, or install a wheel")


# ---------------------------------------------------------------------------- GPU, hipDNN

_DRIVER = "/dev/kfd"
_SERVED = ("gfx908", "gfx90a", "gfx942", "gfx950")


def _gpu() -> Iterator[_Said]:
    about = probes.rocm(probe=True)
    gpus, libraries = about["gpus"], about["libraries"]
    asked = about.get("probe")
    if isinstance(gpus, dict):  # the kernel's list cannot be read
        yield _Said("problem", f"the kernel's list of GPUs: {gpus['error']}", "see `rocminfo`")
        gpus = []
    if not about["kernel_driver"] and not gpus:
        text = f"there is none ({_DRIVER} is missing); the CPU serves"
        where = f"; {libraries[0]} is there" if libraries else ""
        yield _Said("note", text + where, "on a machine with one: install the driver amdgpu")
        return
    if not os.access(_DRIVER, os.R_OK | os.W_OK):
        text = f"user {os.geteuid()} may not use {_DRIVER}"
        yield _Said("problem", text, "add the user to the groups render and video; log in again")
    if not libraries:
        text = f"{', '.join(gpus) or 'a GPU'} is here, and ROCm's libamdhip64.so is not found"
        yield _Said("problem", text, "install ROCm, or put its lib folder on LD_LIBRARY_PATH")
        return
    if not isinstance(asked, dict) or "error" in asked:
        said = asked["error"] if isinstance(asked, dict) else asked
        yield _Said("problem", f"{libraries[0]}: {said}", "reinstall ROCm for this driver")
        return
    if not asked["devices"] or any(asked["errors"]):
        text = f"HIP finds {asked['devices']} devices (errors {asked['errors']})"
        remedy = "see `rocminfo`; HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES may hide them"
        yield _Said("problem", text, remedy)
        return
    if _installed("hip-python") is None:
        text = "hip-python is missing: plans for GPUs cannot be executed"
        yield _Said("problem", text, "pip install hip-python")
    foreign_archs = [arch for arch in gpus if arch not in _SERVED]
    if foreign_archs:
        text = f"{', '.join(foreign_archs)}: no code is made for it"
        yield _Said("note", text, f"served are {', '.join(_SERVED)}")
    if len(foreign_archs) < len(gpus):
        yield _Said("ok", f"{', '.join(gpus)}; HIP {asked['runtime_version']}, {libraries[0]}")


def _hipdnn() -> Iterator[_Said]:
    from ...jit.settings import settings
    from ..engines.foreign.discovery import backends

    found = backends(settings())
    if not found:
        text = "libhipdnn_backend.so is not found: graphs are served without hipDNN"
        yield _Said("note", text, "to serve hipDNN: install it, and see docs/plugin.md")
        return
    _, about = _ourselves("plugin", "doctor")
    if "error" in about:
        said = str(about["error"].get("message", ""))
        yield _Said("problem", f"{found[0]}: {said}", "hipdnn-iree plugin doctor")
        return
    wrong = [one for one in about["findings"] if one["state"] == "problem"]
    for one in wrong:
        yield _Said("problem", f"{one['check']}: {one['text']}", "hipdnn-iree plugin doctor")
    if not wrong:
        yield _Said("ok", f"{found[0]} can use the engine")


CHECKS: dict[str, Callable[[], Iterator[_Said]]] = {
    "python": _python,
    "packages": _packages,
    "settings": _settings,
    "cache": _cache,
    "scratch": _scratch,
    "graph": _graph,
    "compiler": _compiler,
    "gpu": _gpu,
    "hipdnn": _hipdnn,
}
"""Each yields what it has found; the names are those of ``check`` in JSON."""
