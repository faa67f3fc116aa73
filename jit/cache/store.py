# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The cache on disk: compiled code found by the digest of everything that decided its bytes.

Safe for any number of threads and processes without a lock that could go stale: an entry is
written beside its place and renamed into it, and it is checked from end to end whenever it is
read.  Whatever is wrong with an entry makes it a miss, whatever is wrong with the folder turns
the cache off with one warning; neither is ever an error of the caller.

The folder must be writable by its user alone: see `jit.trust`.
"""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..container import MANIFEST, DamagedError
from ..trust import UnsafeError, make_private, opened
from .entry import DamagedEntryError, Entry, bytes_of, entry_of, make_entry, stored_at
from .key import CacheKey
from .layout import Layout
from .locks import run_in_forked_child
from .upkeep import Finding, Removed, trim, verify

__all__ = ["Build", "CacheInfo", "CacheStore"]

Build = Callable[[], tuple[Mapping[str, bytes], Mapping[str, Any]]]

_TOUCH_S = 60.0  # a time of last use is not written more often
_SCRATCH_AGE_S = 3600.0
_TRIM_TO = 0.9  # of the cap, so that not every put has to trim
# Troubles that pass; any other OSError means that this folder will not take entries.
_PASSING = frozenset(
    (errno.EAGAIN, errno.EINTR, errno.EMFILE, errno.ENFILE, errno.ENOENT, errno.ENOMEM)
)


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """State of a cache: contents of the folder, and counters of this process.

    ``oldest`` and ``newest`` are times of last use in seconds since 1970 (None without
    entries); ``off`` says why nothing is read, or nothing more is stored, and is empty while
    the cache works.
    """

    root: str
    off: str
    entries: int
    nbytes: int
    max_bytes: int | None
    oldest: float | None
    newest: float | None
    hits: int
    misses: int
    stored: int
    damaged: int

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return asdict(self)


class CacheStore:
    """Compiled code by key, in a folder that many processes share.

    Parameters
    ----------
    root : str or Path
        The folder; made with mode 0700 by the first ``put``.
    max_bytes : int, optional
        Cap on the bytes of all entries; the least recently used ones go first.  None: no cap.
    enabled : bool
        False: nothing is read or written, and every ``get`` is a miss.
    scratch_age_s : float
        Age in seconds from which ``trim`` removes what a dead process left unfinished.
    problem_of : callable, optional
        Takes a whole entry and returns why its caller cannot use it; such a one is damaged, too.

    Attributes
    ----------
    made : list of str
        Digests of the entries that this process has stored.

    Notes
    -----
    There is no ``in``: between the question and the use an entry may come or go.  ``get``.
    """

    def __init__(
        self,
        root: str | Path,
        max_bytes: int | None = 2**30,
        *,
        enabled: bool = True,
        scratch_age_s: float = _SCRATCH_AGE_S,
        problem_of: Callable[[Entry], str] = lambda _: "",
    ) -> None:
        self.root = Path(os.path.abspath(root))  # the working folder may change later
        self.max_bytes = max_bytes
        self.scratch_age_s = scratch_age_s
        self._problem_of = problem_of
        self._layout = Layout(self.root)
        self._refused: str | None = None if enabled else "it is switched off"
        self._unwritable = ""
        self._start()
        run_in_forked_child(self._start)

    def _start(self) -> None:
        """Begin with fresh counters and a free lock, as is right for a forked child too."""
        self._lock = threading.Lock()
        self._counts = {"hits": 0, "misses": 0, "stored": 0, "damaged": 0}
        self.made: list[str] = []
        self._warned: set[str] = set()

    @property
    def off(self) -> str:
        """Why nothing is read, or nothing more is stored; empty while the cache works."""
        return self._refused or self._unwritable

    # --- reading ---------------------------------------------------------------------------

    def get(self, key: CacheKey) -> Entry | None:
        """Return the whole, checked entry of a key, or None; raises nothing.

        A damaged entry is removed, with one warning, and counts as a miss.
        """
        entry = self._load(key)
        self._count("misses" if entry is None else "hits")
        return entry

    def peek(self, key: CacheKey) -> Entry | None:
        """Return an entry as `get` does, without counting it as a hit or miss."""
        return self._load(key)

    def _load(self, key: CacheKey) -> Entry | None:
        if not self._readable():
            return None
        path = self._layout.entry(key.digest)
        try:
            entry, status = self._layout.read(path, key)
            if problem := self._problem_of(entry):
                raise DamagedEntryError(MANIFEST, problem, status.st_ino)
        except FileNotFoundError:
            return None
        except UnsafeError as misfit:
            self._warn_once(
                f"unsafe {misfit.filename}", f"not used as a part of the cache: {misfit}"
            )
            return None
        except DamagedEntryError as damage:
            self._remove_damaged(key, path, damage)
            return None
        except OSError as exc:
            self._warn_once("read", f"cannot read from the cache {self.root}: {exc}")
            return None
        self._touch(path, status.st_mtime)
        return entry

    def _remove_damaged(self, key: CacheKey, path: Path, damage: DamagedEntryError) -> None:
        inode = damage.inode or self._layout.inode_of(path)
        # Once for each: one that cannot be removed is met again and again.
        topic = f"damaged {key.digest} {inode}"
        if self._warn_once(
            topic, f"the cache entry {path} is damaged and will be rebuilt: {damage}"
        ):
            self._count("damaged")
        if self._layout.remove(path, inode):
            self._warned.discard(topic)
        elif self._layout.inode_of(path) == inode:
            self._warn_once("remove", f"cannot remove the damaged entry {path}")

    def _touch(self, path: Path, used: float) -> None:
        now = time.time()
        if abs(now - used) > _TOUCH_S:  # also when a wrong clock left a time in the future
            self._layout.touch(path, now)

    # --- writing ---------------------------------------------------------------------------

    def put(self, key: CacheKey, files: Mapping[str, bytes], manifest: Mapping[str, Any]) -> Entry:
        """Store files and manifest under a key and return the entry.

        If another process was first, its entry is kept and returned.  If the entry cannot be
        stored, it is returned all the same, with ``path`` None.

        Parameters
        ----------
        key : CacheKey
            What it is found by.
        files : mapping of str to bytes
            Contents by plain file name, for example ``module.vmfb`` and ``module.mlir``.
        manifest : mapping
            What else to keep, in JSON types; no absolute paths, as entries may be moved.

        Raises
        ------
        ValueError, TypeError
            If a file name is not plain or the manifest is not JSON: a mistake of the caller.
        """
        entry = make_entry(key, files, manifest)
        if self.max_bytes is not None and entry.nbytes > self.max_bytes:
            self._warn_once(
                "size", f"an entry of {entry.nbytes} bytes exceeds the cap of {self.max_bytes}"
            )
            return entry
        for attempt in (1, 2, 3):
            if not self._writable():
                return entry
            try:
                stored = self._publish(key, entry)
            except FileNotFoundError as exc:
                # Somebody has deleted the folder under our hands, which is allowed.
                if attempt == 3:
                    self._write_failed(exc)
            except UnsafeError as misfit:
                if not self._set_aside(misfit):
                    return entry
            except OSError as exc:
                self._write_failed(exc)
                return entry
            else:
                self._after_put(stored)
                return stored
        return entry

    def get_or_build(
        self, key: CacheKey, build: Build, wait_s: float = 300.0
    ) -> tuple[Entry, bool]:
        """Return the entry of a key, building it if need be, and whether it was there.

        Of all threads and processes that ask at the same time, one builds and the others wait
        for it.  If that one dies, the next takes over; if it is stopped, or slow, each builds
        for itself after ``wait_s`` seconds, and the first to finish is stored.  Exceptions of
        ``build`` pass through, and nothing is stored.
        """
        entry = self._load(key)
        if entry is None and self._writable():
            with self._layout.locked(key.digest, wait_s):
                # Somebody else may have built it while we waited.
                entry = self._load(key)
                if entry is None:
                    self._count("misses")
                    return self.put(key, *build()), False
        if entry is None:
            self._count("misses")
            return self.put(key, *build()), False
        self._count("hits")
        return entry, True

    def export(self, digest: str) -> bytes | None:
        """Return the file of a sound entry, for `adopt` of another cache; None without one."""
        try:
            return bytes_of(self._layout.read(self._layout.entry(digest))[0])
        except (DamagedEntryError, OSError):
            return None

    def adopt(self, data: bytes) -> bool:
        """Store the file of an entry of another cache; return whether it is sound.

        Its owner must be trusted as far as whoever may write this folder: the code is executed.
        """
        try:
            entry = entry_of(data)
        except DamagedError as damage:
            self._warn_once("adopt", f"an entry of another cache is damaged: {damage}")
            return False
        key = CacheKey.restored(entry.digest, entry.ingredients)
        self.put(key, {name: entry.read(name) for name in entry.names}, entry.manifest)
        return True

    def discard(self, key: CacheKey) -> bool:
        """Remove the entry of a key; return whether there was one."""
        path = self._layout.entry(key.digest)
        return self._readable() and self._layout.remove(path, self._layout.inode_of(path))

    def _publish(self, key: CacheKey, entry: Entry) -> Entry:
        path = self._layout.entry(key.digest)
        with self._layout.scratch_file() as (scratch, name, fd):
            _write(fd, bytes_of(entry))
            # An entry that came meanwhile stays; one that is damaged is gone afterwards.
            theirs = self._load(key)
            if theirs is not None:
                return theirs
            self._layout.publish(scratch, name, path)
            self._count("stored")
            self.made.append(entry.digest)
            return stored_at(entry, path)

    def _after_put(self, entry: Entry) -> None:
        """Trim when the entries may have passed the cap; they are counted now and then only."""
        stored = None if entry.path is None else self._layout.look(entry.path)
        if stored is None:
            return
        total = self._layout.sizes.add(stored.nbytes)
        if self.max_bytes is None:
            return
        if total is None:
            total = sum(other.nbytes for other in self._layout.entries())
            self._layout.sizes.set(total)
        if total > self.max_bytes:
            self._trim(int(_TRIM_TO * self.max_bytes), keep=entry.digest)

    # --- looking after it ------------------------------------------------------------------

    def trim(self, max_bytes: int | None = None) -> Removed:
        """Remove the least recently used entries above the cap, and what dead processes left.

        Parameters
        ----------
        max_bytes : int, optional
            Another cap for this call.
        """
        return self._trim(self.max_bytes if max_bytes is None else max_bytes)

    def _trim(self, cap: int | None, keep: str = "") -> Removed:
        if not self._readable():
            return Removed(0, 0, 0, 0)
        removed = trim(self._layout, cap, self.scratch_age_s, keep)
        self._layout.sizes.set(removed.nbytes_left)
        return removed

    def clear(self) -> Removed:
        """Remove all entries, and what dead processes left; safe while others use the cache."""
        return self._trim(-1)

    def verify(self, *, repair: bool = False) -> list[Finding]:
        """Check every entry from end to end; with ``repair`` remove those that are damaged."""
        return verify(self._layout, repair) if self._readable() else []

    def entries(self) -> list[Entry]:
        """Return all sound entries, the most recently used first."""
        if not self._readable():
            return []
        found = []
        for stored in sorted(self._layout.entries(), key=lambda s: s.used, reverse=True):
            try:
                found.append(self._layout.read(stored.path)[0])
            except (DamagedEntryError, OSError):
                continue
        return found

    def mentioning(self, text: str) -> tuple[list[Entry], int]:
        """Return the sound entries with a text in the manifest, latest use first, and of how many.

        Only the manifests of the others are read: 0.2 s for 8,000 entries, a tenth of `entries`.
        """
        wanted, stored, found = json.dumps(text)[1:-1].encode(), 0, []
        for path, manifest in self._layout.manifests() if self._readable() else ():
            stored += bool(manifest)
            if wanted in manifest:
                with suppress(DamagedEntryError, OSError):
                    found.append(self._layout.read(path))
        found.sort(key=lambda pair: pair[1].st_mtime, reverse=True)
        return [entry for entry, _ in found], stored

    def info(self) -> CacheInfo:
        """Return contents and counters."""
        stored = list(self._layout.entries()) if self._readable() else []
        used = [entry.used for entry in stored]
        return CacheInfo(
            root=str(self.root),
            off=self.off,
            entries=len(stored),
            nbytes=sum(entry.nbytes for entry in stored),
            max_bytes=self.max_bytes,
            oldest=min(used, default=None),
            newest=max(used, default=None),
            **self._counts,
        )

    # --- whether it can be used at all -------------------------------------------------------

    def _readable(self) -> bool:
        if self._refused is None:
            try:
                with opened(self.root):
                    self._refused = ""
            except FileNotFoundError:
                return False  # nothing was ever stored; a later put makes the folder
            except UnsafeError as exc:
                self._refused = str(exc.strerror)
            except OSError as exc:
                self._refused = f"it cannot be looked at ({exc.strerror})"
            if self._refused:
                self._warn_once("root", f"the cache {self.root} is not used: {self._refused}")
        return not self._refused

    def _writable(self) -> bool:
        if self._refused or self._unwritable:
            return False
        try:
            make_private(self.root)
            if not self._readable():  # looked at before anything is put into it
                return False
            self._layout.make(self._set_aside)
        except OSError as exc:
            self._write_failed(exc)
            return False
        return True

    def _set_aside(self, misfit: UnsafeError) -> bool:
        """Move what is in the place of a folder of ours out of the way; return whether it went."""
        gone = self._layout.set_aside(Path(misfit.filename))
        what = "renamed, as it is no part of the cache" if gone else "in the way of the cache"
        self._warn_once(f"aside {misfit.filename}", f"{what}: {misfit}")
        return gone

    def _write_failed(self, exc: OSError) -> None:
        if exc.errno not in _PASSING:
            self._unwritable = f"it cannot be written ({exc.strerror})"
        self._warn_once(
            "write",
            f"cannot store in the cache {self.root}: {exc}; results are right, but will be "
            "compiled again next time (choose another folder or make room)",
        )

    def _count(self, name: str) -> None:
        with self._lock:
            self._counts[name] += 1

    def _warn_once(self, topic: str, text: str) -> bool:
        with self._lock:
            if topic in self._warned:
                return False
            self._warned.add(topic)
        import logging  # 4 ms, and most processes never warn

        logging.getLogger(__package__).warning("%s", text)
        return True


def _write(fd: int, data: bytes) -> None:
    """Write a file and bring it to the disk."""
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]
    os.fsync(fd)
