# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Locks between processes that cannot go stale: flock, which the kernel drops with its owner.

They only save work (one process compiles, the others wait for it) and tell live scratch files
from dead ones.  Nothing becomes wrong when a lock cannot be had.

The package ``filelock`` (4.2) was tried in place of `key_lock`: its import takes 26 ms of CPU time,
it leaves its files, and where a file system has no flock it takes locks that can go stale.
"""

from __future__ import annotations

import fcntl
import os
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from ...graph_api.files import open_regular

__all__ = ["is_held", "key_lock", "remove_if_free", "run_in_forked_child", "try_lock"]

_FIRST_PAUSE_S = 0.001
_LONGEST_PAUSE_S = 0.05  # a tenth of what the smallest module takes to compile


def try_lock(fd: int) -> bool:
    """Take the lock of an open file unless another owner has it.

    A file system without locks raises OSError (other than BlockingIOError).
    """
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def key_lock(path: str, wait_s: float, dir_fd: int | None = None) -> Iterator[bool]:
    """Hold the lock file ``path``, waiting at most ``wait_s`` seconds for its present owner.

    Yields whether it is held; False when the time is up, the file system offers no locks, or
    something else than a file is in its place.  ``dir_fd`` is the folder that it is relative to.
    The file is removed at the end.  A process forked meanwhile does not keep the lock: it is
    dropped explicitly, for all copies of the descriptor.
    """
    fd = _acquire(path, wait_s, dir_fd)
    try:
        yield fd is not None
    finally:
        if fd is not None:
            # Unlink before unlock: as long as it is ours, nobody else holds this path.
            if _is_at(fd, path, dir_fd):
                with suppress(OSError):
                    os.unlink(path, dir_fd=dir_fd)
            _release(fd)


def _acquire(path: str, wait_s: float, dir_fd: int | None) -> int | None:
    deadline = time.monotonic() + wait_s
    pause = _FIRST_PAUSE_S
    while True:
        try:
            fd = open_regular(path, os.O_RDWR | os.O_CREAT, dir_fd=dir_fd)
        except OSError:
            return None
        try:
            while not try_lock(fd):
                if time.monotonic() >= deadline:
                    os.close(fd)
                    return None
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)
        except OSError:
            os.close(fd)
            return None
        except BaseException:  # an interrupt while waiting
            os.close(fd)
            raise
        if _is_at(fd, path, dir_fd):
            return fd
        # The former owner has removed the file; whoever comes next makes a new one.
        _release(fd)


def is_held(path: str, dir_fd: int | None = None) -> bool:
    """Whether a live process holds the lock of a file (False if locks do not work there)."""
    try:
        fd = open_regular(path, dir_fd=dir_fd)
    except OSError:
        return False
    try:
        return not try_lock(fd)
    except OSError:
        return False
    finally:
        os.close(fd)


def remove_if_free(path: str, dir_fd: int | None = None) -> bool:
    """Remove a lock file that nobody holds; return whether it was removed."""
    try:
        fd = open_regular(path, os.O_RDWR, dir_fd=dir_fd)
    except OSError:
        return False
    try:
        if try_lock(fd) and _is_at(fd, path, dir_fd):
            os.unlink(path, dir_fd=dir_fd)
            return True
        return False
    except OSError:
        return False
    finally:
        _release(fd)


def run_in_forked_child(method: Callable[[], None]) -> None:
    """Call a bound method in every child made by ``fork``, as long as its object lives.

    In the child no other thread runs, and locks that other threads held stay locked for ever.
    """
    weak = weakref.WeakMethod(method)

    def call() -> None:
        alive = weak()
        if alive is not None:
            alive()

    os.register_at_fork(after_in_child=call)


def _is_at(fd: int, path: str, dir_fd: int | None) -> bool:
    try:
        there = os.stat(path, dir_fd=dir_fd, follow_symlinks=False)
        return os.path.samestat(os.fstat(fd), there)
    except OSError:
        return False


def _release(fd: int) -> None:
    with suppress(OSError):
        fcntl.flock(fd, fcntl.LOCK_UN)
    os.close(fd)
