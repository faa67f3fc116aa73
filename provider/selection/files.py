"""Small files that many processes read and some write: read when changed, written whole."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Generic, TypeVar

__all__ = ["Watched", "stamp", "write_whole"]

T = TypeVar("T")


def stamp(path: Path) -> Hashable:
    """Return what tells one state of a file from another; None when there is no such file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


class Watched(Generic[T]):
    """What a file says, read anew when the file has changed.

    Parameters
    ----------
    read : callable
        Takes the path; called once for each state of the file, also when there is no file.
    """

    def __init__(self, read: Callable[[Path], T]) -> None:
        # The stamp is only there to be part of the key.
        self._read = lru_cache(maxsize=8)(lambda path, state: read(path))

    def __call__(self, path: Path) -> T:
        return self._read(path, stamp(path))


def write_whole(path: Path, text: str) -> None:
    """Write a file beside its place and rename it there: a reader sees the old or the new one.

    Raises
    ------
    OSError
        If the folder cannot be made or written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fd, made = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(fd, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(made, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(made)
        raise
