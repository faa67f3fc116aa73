# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small files that many processes read and some write: read anew when they have changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from functools import lru_cache
from pathlib import Path
from typing import Generic, TypeVar

__all__ = ["Watched", "stamp"]

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
