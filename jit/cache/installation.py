# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ingredients that describe the installation: digest of sources, versions of packages.

Both are read without importing what they describe, as a cache hit must not load a compiler, and
both are remembered for the life of the process, whose code does not change either.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

__all__ = ["ABSENT", "source_digest", "versions"]

ABSENT = "absent"

# Distribution -> folder that a source build without metadata puts on the path instead.
_PACKAGES = {
    "iree-base-compiler": "iree/compiler/_mlir_libs",
    "iree-base-runtime": "iree/_runtime_libs",
    "torch-mlir": "torch_mlir/_mlir_libs",
}
_METADATA = (".dist-info", ".egg-info")


def source_digest(package_files: Iterable[str | Path]) -> str:
    """Return the SHA-256 (hex) over relative names and bytes of source files.

    The order of the files does not matter, nor where the package is installed: names are
    relative to the deepest folder that holds all of them.  Remembered per process.

    Raises
    ------
    ValueError
        If there are no files: the digest would stay the same when the sources change.
    OSError
        If a file cannot be read.
    """
    files = tuple(sorted({os.path.abspath(path) for path in package_files}))
    if not files:
        raise ValueError("no source files were given; the digest could not follow a change")
    return _source_digest(files)


@lru_cache(maxsize=64)
def _source_digest(files: tuple[str, ...]) -> str:
    base = os.path.commonpath([os.path.dirname(path) for path in files])
    named = sorted((path.removeprefix(base).lstrip(os.sep), path) for path in files)
    whole = hashlib.sha256()
    for name, path in named:
        with open(path, "rb") as file:
            data = file.read()
        label = os.fsencode(name)
        whole.update(b"%d:%s%d:" % (len(label), label, len(data)))
        whole.update(data)
    return whole.hexdigest()


def versions() -> dict[str, str]:
    """Return the versions of compiler, runtime and torch-mlir by distribution name.

    They are read from the names of the metadata folders on ``sys.path`` (0.3 ms;
    ``importlib.metadata`` takes 26 ms, most of it for its own import).  A package that is not
    installed gives ``"absent"``.  One that can be imported but has no metadata, which is a
    source build, gives ``"unversioned-<digest of size and time of its libraries>"``, and a
    half-finished upgrade that left two versions in one folder gives both, joined by ``"|"``.
    """
    return dict(_versions(tuple(sys.path)))


@lru_cache(maxsize=8)
def _versions(search_path: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    for folder in search_path:
        try:
            names = os.listdir(folder or ".")
        except OSError:  # a zip file or a folder that is gone
            continue
        here: dict[str, set[str]] = {}
        for name in names:
            if name.endswith(_METADATA):
                package, _, version = name.rpartition(".")[0].partition("-")
                package = package.replace("_", "-").replace(".", "-").lower()
                here.setdefault(package, set()).add(version.partition("-py")[0])
        for package, libraries in _PACKAGES.items():
            if package in found:
                continue
            if package in here:
                found[package] = "|".join(sorted(here[package]))
            elif (stamp := _library_stamp(os.path.join(folder, libraries))) is not None:
                # What comes first on the path is what is imported, with metadata or without.
                found[package] = stamp
    return tuple((package, found.get(package, ABSENT)) for package in _PACKAGES)


def _library_stamp(folder: str) -> str | None:
    """Return a digest of names, sizes and times of the libraries in ``folder``, if there."""
    try:
        with os.scandir(folder) as entries:
            facts = sorted((e.name, s.st_size, s.st_mtime_ns) for e in entries if (s := e.stat()))
    except OSError:
        return None
    return "unversioned-" + hashlib.sha256(repr(facts).encode()).hexdigest()[:16]
