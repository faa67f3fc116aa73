"""Where things are in a cache folder, and how they are removed.

::

    root/                       mode 0700
      v2/                       number of the schema
        3f/3fa4…e1              an entry: one file
        tmp/<random>            an entry being written
        locks/<digest>          held by the process that builds this entry
        sizes                   roughly how many bytes the entries have

Everything outside these patterns is left alone, as the root may be any folder a user names.
The time of last use of an entry is the modification time of its file.
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
from .size_journal import SizeJournal

__all__ = ["Layout", "Stored", "inode_of"]

_SHARD = re.compile(r"[0-9a-f]{2}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Stored:
    """An entry as the folder shows it: it has not been opened.

    ``used`` is the time of last use in seconds since 1970; ``inode`` tells it from an entry that
    takes its place later.
    """

    digest: str
    path: Path
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
        """Folder of what is being written."""
        return self.top / "tmp"

    @property
    def locks(self) -> Path:
        """Folder of the lock files."""
        return self.top / "locks"

    @property
    def sizes(self) -> SizeJournal:
        """Bytes of all entries, roughly."""
        return SizeJournal(self.top / "sizes", self.scratch)

    def entry(self, digest: str) -> Path:
        """File of an entry."""
        return self.top / digest[:2] / digest

    def make(self) -> None:
        """Make the folders below the root, with mode 0700; OSError passes through."""
        for folder in (self.top, self.scratch, self.locks):
            folder.mkdir(0o700, exist_ok=True)

    def entries(self) -> Iterator[Stored]:
        """Walk over all entries; those that vanish meanwhile are left out."""
        for path in self.paths():
            stored = self.look(path)
            if stored is not None:
                yield stored

    def paths(self) -> Iterator[Path]:
        """Walk over what has the name and the place of an entry."""
        for shard in _names(self.top, _SHARD):
            for digest in _names(self.top / shard, _DIGEST):
                if digest.startswith(shard):
                    yield self.top / shard / digest

    def look(self, path: Path) -> Stored | None:
        """Return size and last use of one entry, or None if it is not there."""
        try:
            status = os.lstat(path)
        except OSError:
            return None
        return Stored(path.name, path, status.st_size, status.st_mtime, status.st_ino)

    @contextmanager
    def scratch_file(self) -> Iterator[tuple[Path, int]]:
        """Make a scratch file, yield path and descriptor, remove it unless it was moved.

        It is locked for as long as this process works on it, so that the leftovers of dead
        processes can be told from the work of living ones.
        """
        path = self.scratch / os.urandom(8).hex()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(path, flags, 0o600)
        try:
            with suppress(OSError):  # a file system without locks: age alone decides
                try_lock(fd)
            yield path, fd
        finally:
            os.close(fd)
            with suppress(OSError):
                os.unlink(path)

    def remove(self, path: Path, inode: int) -> bool:
        """Remove an entry if it still is the one with this inode; return whether it was."""
        try:
            return os.lstat(path).st_ino == inode and delete_tree(path)
        except OSError:
            return False

    def sweep(self, min_age_s: float) -> int:
        """Remove scratch files and lock files of dead processes; return how many.

        Scratch files younger than ``min_age_s`` seconds are kept: their owner may be about
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
            # from a file made since we began.
            if abs(age) >= min_age_s and not is_held(str(path)):
                removed += delete_tree(path)
        for name in _names(self.locks, _DIGEST):
            removed += remove_if_free(str(self.locks / name))
        return removed


def delete_tree(path: Path) -> bool:
    """Delete a file, or a folder as far as possible; return whether it is gone by this call."""
    try:
        os.unlink(path)
    except (IsADirectoryError, PermissionError):  # an entry never is a folder; somebody made one
        import shutil

        shutil.rmtree(path, ignore_errors=True)
        return not os.path.lexists(path)
    except OSError:
        return False
    return True


def inode_of(path: Path) -> int:
    """Return the inode of a path, 0 when it is not there."""
    try:
        return os.lstat(path).st_ino
    except OSError:
        return 0


def _names(folder: Path, pattern: re.Pattern[str] | None = None) -> list[str]:
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return sorted(name for name in names if pattern is None or pattern.fullmatch(name))
