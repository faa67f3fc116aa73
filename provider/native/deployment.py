# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is wrong with a deployment: the causes in words, and what can be checked in no time.

The words are those of ``causes.h``, whose other reader is a library in C.  The checks run when one
starts in a host, and for ``hipdnn-iree plugin doctor``: they import nothing, and look at some
files.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from ...jit.settings_table import Settings
from ...jit.trust import unsafe_reason

__all__ = [
    "Cause",
    "DeploymentError",
    "causes",
    "compiles",
    "limits",
    "packages",
    "told",
    "unusable",
]

_SOURCE = Path(__file__).with_name("causes.h")
_INSTALL = "hipdnn-iree plugin install"


class Cause(NamedTuple):
    """Something that stops hipDNN from using the plugin, or limits what it serves."""

    name: str
    id: str
    text: str
    remedy: str


class DeploymentError(Exception):
    """The plugin cannot serve here; the text has the cause, what was found, and what to do."""

    def __init__(self, name: str, found: object, install: str = _INSTALL) -> None:
        super().__init__(told(name, found, install=install))
        self.cause = causes()[name].id


@cache
def causes() -> dict[str, Cause]:
    """Return every cause by its name, in the order of the ids."""
    text = _SOURCE.read_text(encoding="utf-8").replace('" INSTALL "', "INSTALL")
    rows = re.findall(r'^CAUSE\((\w+), "([^"]*)", "([^"]*)", "([^"]*)"\)$', text, re.M)
    return {row[0]: Cause(*row) for row in rows}


def told(name: str, found: object, folder: str | Path = "DIR", install: str = _INSTALL) -> str:
    """Return the text of a cause as a library in C has it.

    ``install`` is the command that puts it into ``folder``.
    """
    cause = causes()[name]
    remedy = cause.remedy.replace("INSTALL DIR", f"{install} {folder}")
    return f"{cause.id}: {cause.text}: {found}; {remedy}"


class _Need(NamedTuple):
    """A distribution: a top-level package, and a module of it that is made for one Python."""

    distribution: str
    package: str
    module: str


_RUN = (
    _Need("iree-base-runtime", "iree", "_runtime_libs/_runtime"),
    _Need("numpy", "numpy", "_core/_multiarray_umath"),
    _Need("ml_dtypes", "ml_dtypes", "_ml_dtypes_ext"),
)
_COMPILE = (
    _Need("iree-base-compiler", "iree", "compiler/_mlir_libs/_mlir"),
    _Need("torch-mlir", "torch_mlir", "_mlir_libs/_mlir"),
)


def _state(need: _Need) -> str:
    """Return ``""``, ``"missing"``, or ``"other"``: there for another version of Python."""
    try:
        spec = find_spec(need.package)
    except (ImportError, ValueError):  # one that somebody else has put into sys.modules
        return ""
    if spec is None:
        return "missing"
    folders = [f for f in spec.submodule_search_locations or () if os.path.isdir(f)]
    if not folders:  # in an archive, or made by an import hook
        return ""
    places = [os.path.join(folder, need.module) for folder in folders]
    if any(os.path.exists(place + suffix) for place in places for suffix in EXTENSION_SUFFIXES):
        return ""
    stem = f"{os.path.basename(need.module)}."
    inside = (name for place in places for name in _names(os.path.dirname(place)))
    return "other" if any(n.startswith(stem) and n.endswith(".so") for n in inside) else "missing"


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _lacking(needs: tuple[_Need, ...], cause: str) -> Iterator[DeploymentError]:
    states = {need.distribution: _state(need) for need in needs}
    here = f"Python {sys.version.split()[0]} ({sys.executable or sys.prefix})"
    for state, name in (("missing", cause), ("other", "OTHER_VERSION")):
        found = [distribution for distribution, is_so in states.items() if is_so == state]
        if found:
            yield DeploymentError(name, f"{', '.join(found)}, for {here}")


def packages() -> Iterator[DeploymentError]:
    """Yield why no plan could ever run in this Python."""
    return _lacking(_RUN, "MISSING")


@cache
def _no_compiler() -> tuple[DeploymentError, ...]:
    return tuple(_lacking(_COMPILE, "NO_COMPILER"))


def compiles(settings: Settings) -> bool:
    """Whether graphs can be compiled: allowed, and with a compiler as far as this process knows."""
    if settings.cache_require_precompiled:
        return False
    return _elsewhere(settings) or not _no_compiler()


def _elsewhere(settings: Settings) -> bool:
    """Whether another interpreter compiles, of whose packages nothing is known here."""
    return settings.compiler_python is not None and str(settings.compiler_python) != sys.executable


def limits(settings: Settings) -> Iterator[DeploymentError]:
    """Yield what keeps the plugin from serving some graphs, or from serving them quickly."""
    if settings.cache_require_precompiled:
        if not _has_code(settings):
            yield DeploymentError("NOT_PRECOMPILED", settings.cache_dir)
    elif _elsewhere(settings):
        if not os.access(str(settings.compiler_python), os.X_OK):
            text = f"there is no executable at {settings.compiler_python}"
            yield DeploymentError("PYTHON_VARIABLE", text)
    else:
        yield from _no_compiler()
    if settings.cache_mode != "off" and (reason := unusable(settings.cache_dir)):
        yield DeploymentError("CACHE", f"{settings.cache_dir}: {reason}")


def _has_code(settings: Settings) -> bool:
    from ...jit.cache.layout import Layout  # comes with the first plan anyway

    return settings.cache_mode != "off" and any(True for _ in Layout(settings.cache_dir).paths())


def unusable(folder: Path) -> str:
    """Return why nothing can be stored in a folder that is made when it is needed."""
    there = folder
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    try:
        status, room = os.stat(there), os.statvfs(there)
    except OSError as error:
        return f"{error.strerror} ({there})"
    if not os.path.isdir(there):
        return f"{there} is no folder"
    if there == folder and (reason := unsafe_reason(status)):
        return reason
    if not os.access(there, os.W_OK | os.X_OK):
        return f"user {os.geteuid()} may not write into {there}"
    return "" if room.f_bavail else f"no space is left on the device of {there}"
