# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Folders for temporary files that nobody has to clean up after a crash.

All of a user lie in one folder, ``hipdnn-iree-<user id>`` in that of the system, which is there
only while one of them is.  A name tells its owner, so that others can remove it when that is gone.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

from .trust import unsafe_reason

__all__ = ["folder", "make", "remove", "reserve", "sweep"]

_NAME = re.compile(r"([0-9a-f]+)-(\d+)-(\d+)-[0-9a-f]+")  # processes, id, start, random
_TRIES = 100  # as many as others may remove the folder of all in a row, between two calls


def reserve() -> str:
    """Return the path of a folder that this process owns; `make` makes it.

    Raises
    ------
    OSError
        If there is no place for temporary files.
    """
    usual = _parent()
    place, start = os.path.join(usual, f"hipdnn-iree-{os.geteuid()}"), _started(os.getpid())
    if not start or _is_of_others(place):
        return tempfile.mkdtemp(prefix="hipdnn-iree-", dir=usual)
    return os.path.join(place, f"{_processes()}-{os.getpid()}-{start}-{os.urandom(8).hex()}")


def make(path: str) -> None:
    """Make a reserved folder; another process may do it for the owner.

    Raises
    ------
    OSError
        If it cannot be made, or not where nobody else can write.
    """
    place = os.path.dirname(path)
    if not _NAME.fullmatch(os.path.basename(path)):
        return  # made when it was reserved
    for _ in range(_TRIES):
        with suppress(FileExistsError):
            os.mkdir(place, 0o700)
        with suppress(FileNotFoundError):  # the last of the others has just gone
            if _is_of_others(place):
                raise PermissionError(errno.EPERM, "others can write here", place)
            os.mkdir(path, 0o700)
            return
    raise FileNotFoundError(errno.ENOENT, "others remove it", place)


def remove(path: str) -> None:
    """Remove a folder, and that of all when it was the last."""
    going = f"{path}0"  # so that whoever still works in it makes nothing new there
    with suppress(OSError):
        os.rename(path, going)
    for _ in range(_TRIES):  # a thread or a linker may be about to make a file there
        shutil.rmtree(going, ignore_errors=True)
        if not os.path.lexists(going):
            break
    with suppress(OSError):
        if _NAME.fullmatch(os.path.basename(path)):
            os.rmdir(os.path.dirname(path))


@contextmanager
def folder() -> Iterator[str]:
    """Lend a folder."""
    path = reserve()
    try:
        make(path)
        yield path
    finally:
        remove(path)


def sweep(place: str) -> None:
    """Remove the folders in ``place`` whose owners are gone; links are not followed."""
    with suppress(OSError):
        if _is_of_others(place) or not _started(os.getpid()):
            return
        for name in os.listdir(place):
            # A process id says nothing about a process on another machine or in a container.
            found = _NAME.fullmatch(name)
            if found and found[1] == _processes() and _started(int(found[2])) != found[3]:
                remove(os.path.join(place, name))


def _parent() -> str:
    """Return the folder for temporary files: ``$TMPDIR``, ``/tmp`` or the like.

    Nobody may exchange what is in it, and its name has no blank, as IREE does not quote it when it
    starts the linker (W-022).
    """
    tried, usual = [], tempfile.gettempdir()
    if not os.access(usual, os.W_OK | os.X_OK):
        raise FileNotFoundError(errno.ENOENT, "no folder for temporary files", usual)
    for place in dict.fromkeys((usual, "/tmp", "/var/tmp", "/dev/shm")):
        if problem := _problem(place):
            tried.append(f"{place}: {problem}")
        else:
            return place
    text = f"no folder for temporary files ({'; '.join(tried)}); set TMPDIR to one of your own"
    raise FileNotFoundError(errno.ENOENT, text)


def _problem(place: str) -> str:
    if any(map(str.isspace, place)):
        return "its name has a blank"
    if not os.access(place, os.W_OK | os.X_OK):
        return "it cannot be written"
    real = Path(place).resolve()
    reasons = (unsafe_reason(os.stat(folder), above=True) for folder in (real, *real.parents))
    return next(filter(None, reasons), "")


def _is_of_others(place: str) -> bool:
    """Whether something is there that is no folder, or that others may write."""
    try:
        about = os.lstat(place)
    except FileNotFoundError:
        return False
    ours = stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid()
    return not ours or bool(unsafe_reason(about))


@lru_cache(maxsize=1)
def _processes() -> str:
    """Return a name of the processes that ids are of: this start of the machine, this container."""
    words = []
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
        words.append(file.read().strip().replace("-", ""))
    with suppress(OSError):
        words.append(f"{os.stat('/proc/self/ns/pid').st_ino:x}")
    return "".join(words)[-24:] or "0"


def _started(pid: int) -> str:
    """Return when a process was started, in ticks; empty when it is gone, or nobody tells."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return "" if fields[0] == "Z" else fields[19]  # a zombie uses nothing
    except (OSError, IndexError):
        return ""
