"""Where things lie in a cache folder, and how they are removed.

::

    root/                       mode 0700
      v1/                       number of the schema
        3f/3fa4…e1/             an entry: manifest.json, module.vmfb, module.mlir, …
        tmp/<random>/           an entry being written, or one being removed
        locks/<digest>          held by the process that builds this entry
      tally                   roughly how many bytes the entries have

Everything outside these patterns is left alone, as the root may be any folder a user names.
The time of last use of an entry is the modification time of its folder.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from .key import SCHEMA
from .locks import is_held, remove_if_free, try_lock
from .tally import Tally

__all__ = ["Layout", "Stored"]

_SHARD = re.compile(r"[0-9a-f]{2}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Stored:
    """An entry as the folder shows it: no file has been opened.

    ``nbytes`` counts the bytes of all its files; ``used`` is the time of last use in seconds
    since 1970; ``inode`` tells it from an entry that takes its place later.
    """

    digest: str
    folder: Path
    nbytes: int
    used: float
    inode: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths below one root."""

    root: Path

    @property
    def top(self) -> Path:
        """Folder of the present schema."""
        return self.root / f"v{SCHEMA}"

    @property
    def scratch(self) -> Path:
        """Folder of what is being written or removed."""
        return self.top / "tmp"

    @property
    def locks(self) -> Path:
        """Folder of the lock files."""
        return self.top / "locks"

    @property
    def tally(self) -> Tally:
        """Bytes of all entries, roughly."""
        return Tally(self.top / "tally", self.scratch)

    def entry(self, digest: str) -> Path:
        """Folder of an entry."""
        return self.top / digest[:2] / digest

    def make(self) -> None:
        """Make the folders below the root, with mode 0700; OSError passes through."""
        for folder in (self.top, self.scratch, self.locks):
            folder.mkdir(0o700, exist_ok=True)

    def entries(self) -> Iterator[Stored]:
        """Walk over all entries; those that vanish meanwhile are left out."""
        for folder in self.folders():
            stored = self.look(folder)
            if stored is not None:
                yield stored

    def folders(self) -> Iterator[Path]:
        """Walk over what has the name and the place of an entry."""
        for shard in _names(self.top, _SHARD):
            for digest in _names(self.top / shard, _DIGEST):
                if digest.startswith(shard):
                    yield self.top / shard / digest

    def look(self, folder: Path) -> Stored | None:
        """Return size and last use of one entry, or None if it is not there."""
        try:
            status = os.lstat(folder)
            with os.scandir(folder) as files:
                size = sum(file.stat(follow_symlinks=False).st_size for file in files)
        except NotADirectoryError:
            size = status.st_size
        except OSError:
            return None
        return Stored(folder.name, folder, size, status.st_mtime, status.st_ino)

    @contextmanager
    def scratch_folder(self) -> Iterator[tuple[Path, int]]:
        """Make a scratch folder, yield its path and descriptor, remove it unless it was moved.

        It is locked for as long as this process works on it, so that the leftovers of dead
        processes can be told from the work of living ones.
        """
        path = self._fresh()
        path.mkdir(0o700)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                _lock_quietly(fd)
                yield path, fd
            finally:
                os.close(fd)
        finally:
            delete_tree(path)

    def remove(self, folder: Path, inode: int) -> bool:
        """Remove an entry if it still is the one with this inode; return whether it was.

        It is moved away first, so that no reader ever sees half of it.
        """
        try:
            if os.lstat(folder).st_ino != inode:
                return False
            away = self._fresh()
            os.rename(folder, away)
        except FileNotFoundError:
            # Either somebody else was faster, or there is no scratch folder to move it to.
            if self.scratch.is_dir():
                return False
            away = folder
        except OSError:  # for example no room for another name in the scratch folder
            away = folder
        return delete_tree(away)

    def sweep(self, min_age_s: float) -> int:
        """Remove scratch folders and lock files of dead processes; return how many.

        Scratch folders younger than ``min_age_s`` seconds are kept: their owner may be about
        to lock them, or live on a file system without locks.
        """
        now = time.time()
        removed = 0
        for name in _names(self.scratch):
            path = self.scratch / name
            try:
                age = now - os.lstat(path).st_mtime
            except OSError:
                continue
            # A time far in the future comes from a clock that was wrong; one just ahead of us
            # from a folder made since we began.
            if abs(age) >= min_age_s and not is_held(str(path)):
                removed += delete_tree(path)
        for name in _names(self.locks, _DIGEST):
            removed += remove_if_free(str(self.locks / name))
        return removed

    def _fresh(self) -> Path:
        return self.scratch / os.urandom(8).hex()


def delete_tree(path: Path) -> bool:
    """Delete a file or folder as far as possible; return whether it is gone by this call."""
    try:
        with os.scandir(path) as found:
            items = list(found)
        for item in items:
            if item.is_dir(follow_symlinks=False):
                delete_tree(Path(item.path))
            else:
                with suppress(FileNotFoundError):  # two processes may sweep at once
                    os.unlink(item.path)
        os.rmdir(path)
    except NotADirectoryError:
        return _unlink(path)
    except OSError:
        return False
    return True


def _unlink(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False
    return True


def _lock_quietly(fd: int) -> None:
    with suppress(OSError):  # a file system without locks: age alone decides
        try_lock(fd)


def _names(folder: Path, pattern: re.Pattern[str] | None = None) -> list[str]:
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return sorted(name for name in names if pattern is None or pattern.fullmatch(name))
