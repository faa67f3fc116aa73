# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a worker of a cluster does for a sweep: a task in a process of its own, as `sweep` does.

A kernel that crashes, hangs or takes all memory ends that process and not the worker, so that
rows do not depend on where a case was executed.  Compiled code comes with a task, and what was
compiled for it goes back with the answers.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from functools import cache
from typing import Any

from ...jit.options import CacheOptions
from ...jit.pipeline import store
from ...jit.settings import scope, settings
from .case_task import CaseTask
from .machine import machine, versions
from .process_pool import Ended, Limits, ProcessPool

__all__ = ["About", "Served", "about", "serve"]


@dataclass(frozen=True, kw_only=True, slots=True)
class About:
    """A worker's machine and versions."""

    machine: dict[str, Any]
    versions: dict[str, str | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Served:
    """What came of a task.

    Attributes
    ----------
    answers : tuple of (dict or Ended, float)
        Of each part, with the seconds that it took.
    code : tuple of (str, bytes)
        Entries of the cache that were made for it, by digest.
    """

    answers: tuple[tuple[dict[str, Any] | Ended, float], ...]
    code: tuple[tuple[str, bytes], ...]


def about() -> About:
    """Return what rows of this worker depend on."""
    return About(machine=machine(), versions=versions())


def serve(task: CaseTask, limits: Limits, code: tuple[bytes, ...]) -> Served:
    """Do all parts of a task.

    Parameters
    ----------
    task : CaseTask
    limits : Limits
        Of each part.
    code : tuple of bytes
        Entries for this worker's cache, from workers that have compiled them before.
    """
    with scope(**task.options.settings):
        kept = store(CacheOptions.of(settings()))
    for entry in code:
        kept.adopt(entry)
    answers, made = [], list[str]()
    for result in _pool(limits.memory).results(timed=deque([(task, limits)])):
        if isinstance(result.answer, dict):
            made += result.answer.pop("made", ())
        answers.append((result.answer, result.seconds))
    files = ((digest, kept.export(digest)) for digest in made)
    return Served(answers=tuple(answers), code=tuple((d, f) for d, f in files if f is not None))


class _Pools(threading.local):
    """The process of each thread of this worker: it ends with the thread."""

    pool: ProcessPool | None = None
    memory = 0


@cache
def _pools() -> _Pools:
    return _Pools()


def _pool(memory: int) -> ProcessPool:
    mine = _pools()
    if mine.pool is None or mine.memory != memory:
        if mine.pool is not None:
            mine.pool.close()
        mine.pool = ProcessPool(f"{__package__}.case_worker", 1, Limits(memory=memory))
        mine.memory = memory
    return mine.pool
