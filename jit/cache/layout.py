# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where things are in a cache folder, and how they are removed.

::

    root/                       mode 0700
      v2/                       number of the schema
        3f/3fa4…e1              an entry: one file
        tmp/<random>            an entry being written
        locks/<digest>          held by the process that builds this entry
        sizes                   roughly how many bytes the entries have
        aside-<random>-<name>   what was in the place of one of these, and is not ours

Everything outside these patterns is left alone, as the root may be any folder a user names.
Below the root no link is followed: each folder is opened relative to the one above it, and is
checked (`jit.trust`).  What is no plain file or folder of ours in such a place is renamed, never
walked or deleted.  The time of last use of an entry is the modification time of its file.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ...graph_api.files import open_regular
from ..trust import UnsafeError, opened
from .entry import Entry, glance, read_entry
from .key import SCHEMA, CacheKey
from .locks import is_held, key_lock, remove_if_free, try_lock
from .size_journal import SizeJournal

__all__ = ["Layout", "Stored"]

_TOP, _SCRATCH, _LOCKS = f"v{SCHEMA}", "tmp", "locks"
_SHARD = re.compile(r"[0-9a-f]{2}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_ASIDE = "aside-"


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
    """Paths below one root, and what is done to them."""

    root: Path

    def folder(self, *names: str, make: bool = False) -> AbstractContextManager[int]:
        """Open the folder of the present schema, or one in it; see `trust.opened`."""
        return opened(self.root, _TOP, *names, make=make)

    def scratch(self, *, make: bool = False) -> AbstractContextManager[int]:
        """Open the folder of what is being written."""
        return self.folder(_SCRATCH, make=make)

    @property
    def sizes(self) -> SizeJournal:
        """Bytes of all entries, roughly."""
        return SizeJournal(self.folder, self.scratch)

    def entry(self, digest: str) -> Path:
        """File of an entry."""
        return self.root / _TOP / digest[:2] / digest

    def make(self, clear: Callable[[UnsafeError], bool]) -> None:
        """Make the folders, with mode 0700.

        Parameters
        ----------
        clear : callable
            Takes what is in the place of one of them; whether it is gone then.

        Raises
        ------
        OSError
            If one cannot be made.
        """
        for name in (_SCRATCH, _LOCKS):
            for _ in range(3):  # two may be in the way of one
                try:
                    with self.folder(name, make=True):
                        break
                except UnsafeError as misfit:
                    if not clear(misfit):
                        raise

    # --- entries ---------------------------------------------------------------------------

    def entries(self) -> Iterator[Stored]:
        """Walk over all entries; those that vanish meanwhile are left out."""
        for folder, path in self._walk():
            found = _status(folder, path.name)
            if found is not None and stat.S_ISREG(found.st_mode):
                yield _stored(path, found)

    def paths(self) -> Iterator[Path]:
        """Walk over what has the name and the place of an entry."""
        for _, path in self._walk():
            yield path

    def manifests(self) -> Iterator[tuple[Path, bytes]]:
        """Walk over the manifests of all entries, which are not checked."""
        for folder, path in self._walk():
            yield path, glance(path, folder)

    def misfits(self) -> Iterator[UnsafeError]:
        """Walk over what is in the place of a folder of ours and may not be used."""
        try:
            with self.folder() as top:
                names = [*_names(top, _SHARD), _SCRATCH, _LOCKS]
        except UnsafeError as misfit:
            yield misfit
            return
        except OSError:
            return
        for name in names:
            try:
                with self.folder(name):
                    pass
            except UnsafeError as misfit:
                yield misfit
            except OSError:
                continue

    def _walk(self) -> Iterator[tuple[int, Path]]:
        """Yield the folder and the path of what has the name and the place of an entry."""
        shards: list[str] = []
        with suppress(OSError), self.folder() as top:
            shards = _names(top, _SHARD)
        for shard in shards:
            try:
                with self.folder(shard) as folder:
                    for digest in _names(folder, _DIGEST):
                        if digest.startswith(shard):
                            yield folder, self.entry(digest)
            except OSError:
                continue

    def read(self, path: Path, wanted: CacheKey | None = None) -> tuple[Entry, os.stat_result]:
        """Read one entry; see `entry.read_entry`."""
        with self._shard(path) as folder:
            return read_entry(path, wanted, folder)

    def look(self, path: Path) -> Stored | None:
        """Return size and last use of what is in the place of an entry, or None."""
        with suppress(OSError), self._shard(path) as folder:
            found = _status(folder, path.name)
            return None if found is None else _stored(path, found)
        return None

    def inode_of(self, path: Path) -> int:
        """Return the inode of what is in the place of an entry, 0 when nothing is."""
        found = self.look(path)
        return found.inode if found else 0

    def touch(self, path: Path, used: float) -> None:
        """Write the time of last use; a folder that is only read has somebody else for it."""
        with suppress(OSError), self._shard(path) as folder:
            os.utime(path.name, (used, used), dir_fd=folder, follow_symlinks=False)

    def remove(self, path: Path, inode: int) -> bool:
        """Remove an entry if it still is the one with this inode; return whether it was.

        What is no file is set aside.
        """
        with suppress(OSError), self._shard(path) as folder:
            found = _status(folder, path.name)
            if found is None or found.st_ino != inode:
                return False
            if stat.S_ISREG(found.st_mode):
                os.unlink(path.name, dir_fd=folder)
            else:
                _set_aside(folder, path.name)
            return True
        return False

    def set_aside(self, path: Path) -> bool:
        """Rename what is in the place of a folder of ours; return whether it is gone from there."""
        names = path.relative_to(self.root).parts
        if not names:  # the root is its user's
            return False
        with suppress(OSError), opened(self.root, *names[:-1]) as folder:
            _set_aside(folder, names[-1])
            return True
        return False

    # --- work ------------------------------------------------------------------------------

    @contextmanager
    def locked(self, digest: str, wait_s: float) -> Iterator[bool]:
        """Hold the lock of an entry, if it can be had in time; see `locks.key_lock`."""
        with ExitStack() as stack:
            held = False
            with suppress(OSError):  # without the folder there is no lock, and no harm
                folder = stack.enter_context(self.folder(_LOCKS))
                held = stack.enter_context(key_lock(digest, wait_s, folder))
            yield held

    @contextmanager
    def scratch_file(self) -> Iterator[tuple[int, str, int]]:
        """Make a scratch file, yield folder, name and descriptor, remove it unless it was moved.

        It is locked for as long as this process works on it, so that the leftovers of dead
        processes can be told from the work of living ones.
        """
        with self.scratch() as folder:
            name = os.urandom(8).hex()
            fd = open_regular(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, dir_fd=folder)
            try:
                with suppress(OSError):  # a file system without locks: age alone decides
                    try_lock(fd)
                yield folder, name, fd
            finally:
                os.close(fd)
                with suppress(OSError):
                    os.unlink(name, dir_fd=folder)

    def publish(self, folder: int, name: str, path: Path) -> None:
        """Move a scratch file into the place of an entry."""
        with self.folder(path.parent.name, make=True) as shard:
            os.rename(name, path.name, src_dir_fd=folder, dst_dir_fd=shard)

    def sweep(self, min_age_s: float) -> int:
        """Remove scratch files and lock files of dead processes; return how many.

        Scratch files younger than ``min_age_s`` seconds are kept: their owner may be about
        to lock them, or live on a file system without locks.
        """
        now = time.time()
        removed = 0
        with suppress(OSError), self.scratch() as folder:
            for name in _names(folder):
                found = _status(folder, name)
                if found is None or not stat.S_ISREG(found.st_mode):
                    continue
                # A time far in the future comes from a clock that was wrong; one just ahead of
                # us from a file made since we began.
                if abs(now - found.st_mtime) >= min_age_s and not is_held(name, folder):
                    with suppress(OSError):
                        os.unlink(name, dir_fd=folder)
                        removed += 1
        with suppress(OSError), self.folder(_LOCKS) as folder:
            removed += sum(remove_if_free(name, folder) for name in _names(folder, _DIGEST))
        return removed

    def _shard(self, path: Path) -> AbstractContextManager[int]:
        return self.folder(path.parent.name)


def _stored(path: Path, found: os.stat_result) -> Stored:
    return Stored(path.name, path, found.st_size, found.st_mtime, found.st_ino)


def _status(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None


def _set_aside(folder: int, name: str) -> None:
    aside = f"{_ASIDE}{os.urandom(4).hex()}-{name}"
    os.rename(name, aside, src_dir_fd=folder, dst_dir_fd=folder)


def _names(folder: int, pattern: re.Pattern[str] | None = None) -> list[str]:
    names = os.listdir(folder)
    return sorted(name for name in names if pattern is None or pattern.fullmatch(name))
