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
def key_lock(path: str, wait_s: float) -> Iterator[bool]:
    """Hold the lock file ``path``, waiting at most ``wait_s`` seconds for its present owner.

    Yields whether it is held; False when the time is up or the file system offers no locks.
    The file is removed at the end.  A process forked meanwhile does not keep the lock: it is
    dropped explicitly, for all copies of the descriptor.
    """
    fd = _acquire(path, wait_s)
    try:
        yield fd is not None
    finally:
        if fd is not None:
            # Unlink before unlock: as long as it is ours, nobody else holds this path.
            if _is_at(fd, path):
                _unlink(path)
            _release(fd)


def _acquire(path: str, wait_s: float) -> int | None:
    deadline = time.monotonic() + wait_s
    pause = _FIRST_PAUSE_S
    while True:
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
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
        if _is_at(fd, path):
            return fd
        # The former owner has removed the file; whoever comes next makes a new one.
        _release(fd)


def is_held(path: str) -> bool:
    """Whether a live process holds the lock of a file (False if locks do not work there)."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not try_lock(fd)
    except OSError:
        return False
    finally:
        os.close(fd)


def remove_if_free(path: str) -> bool:
    """Remove a lock file that nobody holds; return whether it was removed."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        if try_lock(fd) and _is_at(fd, path):
            os.unlink(path)
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


def _is_at(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except OSError:
        return False


def _unlink(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


def _release(fd: int) -> None:
    with suppress(OSError):
        fcntl.flock(fd, fcntl.LOCK_UN)
    os.close(fd)
