# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How many bytes a cache folder holds, known without looking at all of it.

A file of numbers, one a line: ``=`` and what was counted last, then the size of each entry that
was put since, by any process (appends of a few bytes do not mix).  Its sum is an estimate on which
nothing depends but when to count again: a process that is killed before it appends makes it too low
by one entry, entries removed one by one make it too high, and both end with the next count.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress

from ...graph_api.files import open_regular

__all__ = ["SizeJournal"]

Open = Callable[[], AbstractContextManager[int]]

_NAME = "sizes"

# So many puts after a count the next one is due; counting 8,000 entries takes 0.25 s, compiling
# 1,024 some 5 minutes.
_DUE = 1024
_LONGEST = 64 << 10  # bytes; many more than so many lines take


class SizeJournal:
    """The file of numbers in a cache folder.

    Parameters
    ----------
    folder, scratch : callable
        Open the folder that it is in, and that of what is being written; what a dead process
        leaves there is swept.
    """

    def __init__(self, folder: Open, scratch: Open) -> None:
        self._folder = folder
        self._scratch = scratch

    def add(self, nbytes: int) -> int | None:
        """Note an entry and return the bytes of all; None when they have to be counted.

        Raises nothing: a folder that takes no appends is one where they have to be counted.
        """
        try:
            # Without O_CREAT: appended to nothing, the entry would pass for all there is.
            with self._folder() as folder:
                fd = open_regular(_NAME, os.O_RDWR | os.O_APPEND, dir_fd=folder)
        except OSError:
            return None
        try:
            os.write(fd, b"%d\n" % nbytes)
            return _sum(os.pread(fd, _LONGEST + 1, 0))
        except OSError:
            return None
        finally:
            os.close(fd)

    def set(self, nbytes: int) -> None:
        """Begin anew with what was counted; raises nothing.  An empty cache has no such file."""
        with suppress(OSError), self._folder() as folder:
            if nbytes == 0:
                os.unlink(_NAME, dir_fd=folder)
                return
            with self._scratch() as scratch:
                _replace(folder, scratch, b"=%d\n" % nbytes)


def _replace(folder: int, scratch: int, text: bytes) -> None:
    name = os.urandom(8).hex()
    fd = open_regular(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, dir_fd=scratch)
    try:
        os.write(fd, text)
        os.rename(name, _NAME, src_dir_fd=scratch, dst_dir_fd=folder)
    except OSError:
        with suppress(OSError):
            os.unlink(name, dir_fd=scratch)
    finally:
        os.close(fd)


def _sum(text: bytes) -> int | None:
    """Return the sum of the lines; None if there are too many, or one is no number."""
    lines = text.split(b"\n")
    if len(text) > _LONGEST or len(lines) > _DUE + 2 or lines[-1] or not text.startswith(b"="):
        return None
    lines[0] = lines[0][1:]
    if not all(line.isdigit() and len(line) < 19 for line in lines[:-1]):
        return None
    return sum(map(int, lines[:-1]))
