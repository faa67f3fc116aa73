# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whose files may be run: code that lies in a folder runs with the rights of whoever loads it.

The rule belongs to all that is loaded or executed from a folder: entries of the code cache,
libraries of plugins, scratch folders of the compiler, reproducers.  A file or a folder may be used
if its owner is the user of the process, root, or the owner of this package, who can run code here
anyway, and if nobody else may write into it.  It holds for every level below a root of ours, each
of which is opened relative to the one above and never through a link, so that nothing can be
exchanged between the check and the use.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

__all__ = [
    "UnsafeError",
    "make_private",
    "opened",
    "unsafe_path",
    "unsafe_reason",
]

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_UNMAPPED = 65534  # every owner that a user namespace does not know


class UnsafeError(OSError):
    """Something must not be used: ``strerror`` says why, ``filename`` what it is."""

    def __init__(self, reason: str, path: str | Path) -> None:
        super().__init__(errno.EPERM, reason, str(path))

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


def unsafe_reason(found: os.stat_result, *, above: bool = False) -> str:
    """Return why a file or folder must not be used, with a hint; ``""`` when it may.

    Parameters
    ----------
    found : os.stat_result
        Its status.
    above : bool
        It is a folder somewhere above what is used, such as ``/tmp``: others may write into it if
        they cannot rename what is not theirs, and so may a group that root has chosen.

    Notes
    -----
    Write permission of a group is let through where the group has the number of the owner: that
    is what ``mkdir`` gives where each user has a group of his own.
    """
    owner, mode = found.st_uid, found.st_mode
    if owner not in (os.geteuid(), 0, _installer()):
        return (
            f"it belongs to user {owner}, not to {os.geteuid()}, and what is in it would run with "
            "your rights; choose one of your own"
        )
    if stat.S_ISLNK(mode) or (above and mode & stat.S_ISVTX):
        return ""
    if mode & stat.S_IWOTH:
        who = "everybody"
    elif mode & stat.S_IWGRP and found.st_gid != owner and (owner or not above):
        who = f"group {found.st_gid}"
    else:
        return ""
    return (
        f"{who} may write into it (mode {stat.S_IMODE(mode):o}), and what is in it would run with "
        f"your rights; `chmod {'700' if stat.S_ISDIR(mode) else 'go-w'}` it or choose another one"
    )


@cache
def _installer() -> int:
    """Return the owner of this package; root where the number says nothing."""
    try:
        owner = os.stat(__file__).st_uid
    except OSError:  # removed meanwhile
        return 0
    return 0 if owner == _UNMAPPED else owner


def unsafe_path(path: str | Path) -> str:
    """Return why what lies at a path must not be loaded, ``""`` when it may.

    Links are followed; what they lead to and every folder above it count.
    """
    real = Path(os.path.realpath(path))
    try:
        if reason := unsafe_reason(os.stat(real)):
            return reason
        for folder in real.parents:
            if reason := unsafe_reason(os.stat(folder), above=True):
                return f"{folder} is above it: {reason}"
    except OSError as error:
        return f"it cannot be looked at ({error.strerror})"
    return ""


@contextmanager
def opened(root: Path, *names: str, make: bool = False) -> Iterator[int]:
    """Open a folder below a root, level by level, and yield its descriptor.

    The root may be reached through a link of ours; nothing below it may.

    Parameters
    ----------
    root : Path
    *names : str
        The folders below it.
    make : bool
        Whether folders that are missing are made, with mode 0700.

    Raises
    ------
    UnsafeError
        If one of them is no folder, or may not be used.
    OSError
        If one is missing, or cannot be opened.
    """
    if make:
        make_private(root)
    fd = _open_root(root)
    try:
        path = root
        for name in names:
            path = path / name
            inner = _open_below(path, fd, make)
            os.close(fd)
            fd = inner
        yield fd
    finally:
        os.close(fd)


def _open_root(root: Path) -> int:
    link = os.lstat(root)
    if stat.S_ISLNK(link.st_mode) and (reason := unsafe_reason(link, above=True)):
        raise UnsafeError(f"it is a symbolic link, and {reason}", root)
    try:
        fd = os.open(root, _FOLDER)
    except NotADirectoryError:
        raise UnsafeError("it is not a folder; choose another path", root) from None
    return _checked(fd, root)


def _open_below(path: Path, above: int, make: bool) -> int:
    for attempt in (1, 2):
        try:
            return _checked(os.open(path.name, _FOLDER | os.O_NOFOLLOW, dir_fd=above), path)
        except OSError as error:
            if error.errno in (errno.ENOTDIR, errno.ELOOP):
                raise UnsafeError("it is not a folder, but a file or a link", path) from None
            if error.errno != errno.ENOENT or not make or attempt == 2:
                raise
        with suppress(FileExistsError):  # another process was quicker
            os.mkdir(path.name, 0o700, dir_fd=above)
    raise AssertionError("unreachable")


def _checked(fd: int, path: Path) -> int:
    reason = unsafe_reason(os.fstat(fd))
    if reason:
        os.close(fd)
        raise UnsafeError(reason, path)
    return fd


def make_private(folder: Path) -> None:
    """Make a folder and those above it that are missing, all with mode 0700.

    ``os.makedirs`` gives the mode to the last one only: with umask 0 anybody could exchange it.

    Raises
    ------
    OSError
        If it cannot be made.
    """
    with suppress(FileExistsError):
        try:
            os.mkdir(folder, 0o700)
        except FileNotFoundError:
            if folder.parent == folder:
                raise
            make_private(folder.parent)
            os.mkdir(folder, 0o700)
