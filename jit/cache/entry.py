"""One entry of the cache: its files in memory, and how it is written to and read from a folder.

On disk an entry is a folder with one file per stage and ``manifest.json``: schema, digest, the
readable ingredients of the key, size and SHA-256 of every file, time of making, and what the
caller wants to be kept with it.  The first member of the manifest, ``"seal"``, is the SHA-256 of
all bytes after its line, so damage to the manifest itself is noticed before it is parsed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..sealed import begins_sealed, seal, unseal
from .key import SCHEMA, CacheKey, Readable, plain

__all__ = [
    "MANIFEST",
    "DamagedError",
    "Entry",
    "GoneError",
    "glance",
    "make_entry",
    "read_entry",
    "stored_at",
    "write_entry",
]

MANIFEST = "manifest.json"

_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
# Errors of open and read that mean a broken entry rather than a passing trouble of the process.
_BROKEN = (errno.EIO, errno.EISDIR, errno.ELOOP, errno.ENOTDIR)


class DamagedError(Exception):
    """An entry is not what it should be: which file, what is wrong, in which folder (inode)."""

    def __init__(self, file: str, problem: str) -> None:
        super().__init__(f"{file}: {problem}" if file else problem)
        self.file = file
        self.problem = problem
        self.inode = 0


class GoneError(Exception):
    """An entry was removed by somebody else while it was read."""


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
    folder : Path or None
        Where it lies; None if it could not be stored.
    """

    digest: str
    ingredients: Mapping[str, Readable]
    created: float
    folder: Path | None
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

    def path(self, name: str) -> Path | None:
        """Return where a file lies, for tools and for mapping it; None if it is not stored.

        Another process may remove the entry at any time: opening the path can fail, a mapping
        that exists stays valid.  ``read`` never fails.
        """
        self.read(name)
        return None if self.folder is None else self.folder / name

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


def write_entry(entry: Entry, folder_fd: int) -> None:
    """Write all files of an entry into an open, empty folder and bring them to the disk.

    The manifest comes last; OSError passes through.
    """
    for name, data in entry._files.items():
        _write(folder_fd, name, data)
    _write(folder_fd, MANIFEST, _manifest_bytes(entry))
    os.fsync(folder_fd)


def _write(folder_fd: int, name: str, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(name, flags, 0o600, dir_fd=folder_fd)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(fd, left) :]
        os.fsync(fd)
    finally:
        os.close(fd)


def _manifest_bytes(entry: Entry) -> bytes:
    body = {
        "schema": SCHEMA,
        "digest": entry.digest,
        "created": entry.created,
        "key": {label: plain(value) for label, value in entry.ingredients.items()},
        "files": {
            name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for name, data in entry._files.items()
        },
        "manifest": entry._manifest,
    }
    return seal(body)


def read_entry(folder: Path, wanted: CacheKey | None = None) -> tuple[Entry, os.stat_result]:
    """Read a stored entry, check all of it, and return it with the status of its folder.

    Parameters
    ----------
    folder : Path
        Folder of the entry; its name is the digest.
    wanted : CacheKey, optional
        The key that the stored ingredients must match.

    Raises
    ------
    FileNotFoundError
        If there is no such entry.
    DamagedError
        If anything is missing, cut off, changed or meant for another key.
    GoneError
        If it vanished while it was read.
    OSError
        If it cannot be read for a reason that says nothing about the entry.
    """
    try:
        folder_fd = os.open(folder, _READ | os.O_DIRECTORY)
    except NotADirectoryError:
        raise DamagedError("", "is not a folder") from None
    try:
        status = os.fstat(folder_fd)
        try:
            return _read_open(folder, folder_fd, wanted), status
        except DamagedError as damage:
            # Removing moves a folder away before it deletes the files, so files that vanish
            # from a folder still in its place were lost; otherwise this was a removal.
            if not _still_there(folder, status):
                raise GoneError from None
            damage.inode = status.st_ino
            raise
    finally:
        os.close(folder_fd)


def _still_there(folder: Path, status: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(folder), status)
    except OSError:
        return False


def _read_open(folder: Path, folder_fd: int, wanted: CacheKey | None) -> Entry:
    body = _parse(_read(folder_fd, MANIFEST))
    try:
        ingredients = {
            label: tuple(value) if isinstance(value, list) else value
            for label, value in body["key"].items()
        }
        sizes = {name: (fact["size"], fact["sha256"]) for name, fact in body["files"].items()}
        digest, created = str(body["digest"]), float(body["created"])
        kept = body["manifest"]
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        raise DamagedError(MANIFEST, f"lacks a member ({exc!r})") from None
    if not isinstance(kept, dict):
        raise DamagedError(MANIFEST, "holds something else than what was to be kept")
    if digest != folder.name:
        raise DamagedError(MANIFEST, f"belongs to entry {digest}")
    if wanted is not None and ingredients != dict(wanted.ingredients):
        raise DamagedError(MANIFEST, "holds the ingredients of another key")
    files: dict[str, bytes] = {}
    for name, (size, sha256) in sizes.items():
        if not _FILE_NAME.fullmatch(name):
            raise DamagedError(MANIFEST, f"names the file {name!r}")
        data = _read(folder_fd, name, size)
        if hashlib.sha256(data).hexdigest() != sha256:
            raise DamagedError(name, "its bytes do not have the SHA-256 that the manifest states")
        files[name] = data
    return Entry(
        digest, MappingProxyType(ingredients), created, folder, kept, MappingProxyType(files)
    )


def _read(folder_fd: int, name: str, size: int | None = None) -> bytes:
    try:
        fd = os.open(name, _READ, dir_fd=folder_fd)
    except FileNotFoundError:
        raise DamagedError(name, "is missing") from None
    except OSError as exc:
        if exc.errno in _BROKEN:
            raise DamagedError(name, f"cannot be read ({exc.strerror})") from None
        raise
    try:
        found = os.fstat(fd).st_size
        if size is not None and found != size:
            raise DamagedError(name, f"has {found} bytes instead of {size}")
        with os.fdopen(fd, "rb", buffering=0, closefd=False) as file:
            return file.readall()
    except OSError as exc:
        if exc.errno in _BROKEN:
            raise DamagedError(name, f"cannot be read ({exc.strerror})") from None
        raise
    finally:
        os.close(fd)


def _parse(data: bytes) -> dict[str, Any]:
    try:
        body = unseal(data)
    except ValueError as exc:
        raise DamagedError(MANIFEST, str(exc)) from None
    if body.get("schema") != SCHEMA:
        raise DamagedError(MANIFEST, f"has schema {body.get('schema')!r} instead of {SCHEMA}")
    return body


def glance(folder: Path) -> bytes:
    """Return the bytes of an entry's manifest, unchecked; none when it has no sound beginning."""
    try:
        with open(folder / MANIFEST, "rb", buffering=0) as file:
            data = file.read()
    except OSError:
        return b""
    return data if begins_sealed(data) else b""


def stored_at(entry: Entry, folder: Path) -> Entry:
    """Return the entry with the folder it was stored in."""
    return replace(entry, folder=folder)


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copy(item) for name, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value
