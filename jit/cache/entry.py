# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One entry of the cache: its parts in memory, and its file.

On disk an entry is one container (`jit.container`) with a part per stage.  Its manifest holds the
schema, the digest, the readable ingredients of the key, the time of making, and what the caller
wants to be kept.
"""

from __future__ import annotations

import errno
import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ...graph_api.arguments import shown
from ...graph_api.files import open_regular
from ..container import HEAD, LARGEST, MANIFEST, Container, DamagedError, manifest_bytes, pack
from ..sealed import begins_sealed
from ..trust import unsafe_reason
from .key import SCHEMA, CacheKey, Readable, plain

__all__ = [
    "DamagedEntryError",
    "Entry",
    "bytes_of",
    "entry_of",
    "glance",
    "make_entry",
    "read_entry",
    "stored_at",
]

FORMAT = "hipdnn-iree cache entry"

_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
# Errors of open and read that mean a broken entry rather than a passing trouble of the process.
_BROKEN = (errno.EIO, errno.EISDIR, errno.ELOOP, errno.ENOTDIR, errno.ENXIO)


class DamagedEntryError(DamagedError):
    """An entry is not what it should be: which part, what is wrong, in which file (inode)."""

    def __init__(self, file: str, problem: str, inode: int) -> None:
        super().__init__(file, problem)
        self.inode = inode


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Entry:
    """A whole, checked entry; its bytes are in memory and outlive the files.

    Attributes
    ----------
    digest : str
        Digest of the key.
    ingredients : mapping of str to str or tuple of str
        Readable ingredients of the key.
    created : float
        When it was made, in seconds since 1970.
    path : Path or None
        Its file; None if it could not be stored.
    """

    digest: str
    ingredients: Mapping[str, Readable]
    created: float
    path: Path | None
    _manifest: dict[str, Any]
    _files: Mapping[str, bytes]

    @property
    def manifest(self) -> dict[str, Any]:
        """What was given to ``put`` as manifest, in JSON types; a new copy each time."""
        return {name: _copy(item) for name, item in self._manifest.items()}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the files, in the order they were given."""
        return tuple(self._files)

    @property
    def nbytes(self) -> int:
        """Bytes of all files, without the manifest."""
        return sum(map(len, self._files.values()))

    def read(self, name: str) -> bytes:
        """Return the bytes of a file; KeyError lists the names if there is none such."""
        try:
            return self._files[name]
        except KeyError:
            known = ", ".join(self._files) or "none"
            raise KeyError(f"the cache entry has no file {name!r}; it has: {known}") from None

    def changed_files(self, files: Mapping[str, bytes]) -> tuple[str, ...]:
        """Return the names whose bytes differ from ``files`` or that only one side has.

        This is the check of a cache in verify mode: build again, compare.
        """
        names = dict.fromkeys([*self._files, *files])
        return tuple(name for name in names if self._files.get(name) != files.get(name))

    def __repr__(self) -> str:
        return f"Entry({self.digest[:16]}…: {', '.join(self._files)}; {self.nbytes} bytes)"


def make_entry(key: CacheKey, files: Mapping[str, bytes], manifest: Mapping[str, Any]) -> Entry:
    """Return an entry that is not stored yet.

    Raises
    ------
    ValueError
        If a file name is not a plain name, or the manifest holds NaN or infinity.
    TypeError
        If the manifest cannot be written as JSON.
    """
    for name in files:
        if not _FILE_NAME.fullmatch(name) or name == MANIFEST:
            raise ValueError(
                f"{name!r} cannot be a file of a cache entry; wanted a plain name of letters, "
                f"digits, '.', '_' and '-', other than {MANIFEST!r}"
            )
    # Through JSON and back, so that a fresh entry looks the same as a stored one.
    kept = json.loads(json.dumps(dict(manifest), allow_nan=False))
    contents = {name: bytes(data) for name, data in files.items()}
    return Entry(key.digest, key.ingredients, time.time(), None, kept, MappingProxyType(contents))


def bytes_of(entry: Entry) -> bytes:
    """Return the file of an entry."""
    body = {
        "format": FORMAT,
        "schema": SCHEMA,
        "digest": entry.digest,
        "created": entry.created,
        "key": {label: plain(value) for label, value in entry.ingredients.items()},
        "manifest": entry._manifest,
    }
    return pack(body, entry._files)


def entry_of(data: bytes) -> Entry:
    """Return the entry that the bytes of a file hold, checked, which is not stored here.

    Raises
    ------
    DamagedError
        If anything is cut off or changed.
    """
    name = Path(str(Container(data).body.get("digest")))
    return replace(_checked(name, data, None), path=None)


def read_entry(
    path: Path, wanted: CacheKey | None = None, folder: int | None = None
) -> tuple[Entry, os.stat_result]:
    """Read a stored entry, check all of it, and return it with the status of its file.

    Parameters
    ----------
    path : Path
        The file; its name is the digest.
    wanted : CacheKey, optional
        The key that the stored ingredients must match.
    folder : int, optional
        Descriptor of the folder in which it is opened.

    Raises
    ------
    FileNotFoundError
        If there is no such entry.
    DamagedEntryError
        If anything is cut off, changed or meant for another key, or another user may write it.
    OSError
        If it cannot be read for a reason that says nothing about the entry.
    """
    try:
        fd = open_regular(path if folder is None else path.name, dir_fd=folder)
    except OSError as exc:
        if exc.errno in _BROKEN:
            raise DamagedEntryError("", f"cannot be read ({exc.strerror})", 0) from None
        raise
    try:
        status = os.fstat(fd)
        try:
            if reason := unsafe_reason(status):
                raise DamagedError("", reason)
            if status.st_size > LARGEST:  # of a damaged file system: not worth reading
                raise DamagedError("", f"has {status.st_size} bytes")
            with os.fdopen(fd, "rb", buffering=0, closefd=False) as file:
                return _checked(path, file.readall(), wanted), status
        except DamagedError as damage:
            raise DamagedEntryError(damage.file, damage.problem, status.st_ino) from None
        except OSError as exc:
            if exc.errno in _BROKEN:
                problem = f"cannot be read ({exc.strerror})"
                raise DamagedEntryError("", problem, status.st_ino) from None
            raise
    finally:
        os.close(fd)


def _checked(path: Path, data: bytes, wanted: CacheKey | None) -> Entry:
    container = Container(data)
    body = container.body
    if (body.get("format"), body.get("schema")) != (FORMAT, SCHEMA):
        found = f"{shown(body.get('format'))} with schema {shown(body.get('schema'))}"
        raise DamagedError(MANIFEST, f"is of a {found} instead of {FORMAT!r} with {SCHEMA}")
    try:
        ingredients = {
            label: tuple(value) if isinstance(value, list) else value
            for label, value in body["key"].items()
        }
        digest, created, kept = str(body["digest"]), float(body["created"]), body["manifest"]
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as exc:
        raise DamagedError(MANIFEST, f"lacks a member ({shown(exc)})") from None
    if not isinstance(kept, dict):
        raise DamagedError(MANIFEST, "holds something else than what was to be kept")
    if digest != path.name:
        raise DamagedError(MANIFEST, f"belongs to entry {shown(digest)}")
    if wanted is not None and ingredients != dict(wanted.ingredients):
        raise DamagedError(MANIFEST, "holds the ingredients of another key")
    files = {name: container.part(name) for name in container.names}
    return Entry(
        digest, MappingProxyType(ingredients), created, path, kept, MappingProxyType(files)
    )


def glance(path: Path, folder: int) -> bytes:
    """Return the bytes of an entry's manifest, unchecked; none when it has no sound beginning."""
    try:
        with open(open_regular(path.name, dir_fd=folder), "rb", buffering=0) as file:
            head = file.read(HEAD) or b""
            length = manifest_bytes(head)
            found = file.read(length) or b""
    except (OSError, DamagedError):
        return b""
    return found if len(found) == length and begins_sealed(found) else b""


def stored_at(entry: Entry, path: Path) -> Entry:
    """Return the entry with the file it was stored in."""
    return replace(entry, path=path)


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copy(item) for name, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value
