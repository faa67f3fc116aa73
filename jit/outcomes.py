# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What came of trying several ways to compile a source, remembered in the cache of code.

An outcome is an entry of the cache without files, found by the key of the first attempt, so by the
compiler's version too.  A second process goes straight to the attempt that worked.  What failed for
want of time or memory is tried again when there is more of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..graph_api.errors import CompileError, TriedAttempt
from .cache import CacheKey, CacheStore, Entry
from .options import WorkerOptions

__all__ = ["Outcome", "is_outcome", "read", "recall", "remember", "tried"]

_LABEL = "outcome of"
LIMITS = ("time", "memory")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of a source.

    Attributes
    ----------
    attempt : str
        The name of the attempt that worked; empty where none did.
    op : str
        The op that the compiler blamed first, on which the list of attempts depends.
    failed : tuple of TriedAttempt
        What failed before, in order; the first is the planned one.
    listed : tuple of str
        The attempts that there were, tried or not; a version that has more of them tries again.
    timeout_s, memory : float, int
        Limits of the first attempt.
    """

    attempt: str
    op: str
    failed: tuple[TriedAttempt, ...]
    listed: tuple[str, ...]
    timeout_s: float
    memory: int

    def holds(self, limits: WorkerOptions) -> bool:
        """Return whether it says something under other limits."""
        more = limits.timeout_s > self.timeout_s or limits.memory > self.memory
        return not (more and any(one.cause in LIMITS for one in self.failed))

    def error(self, label: str) -> CompileError:
        """Return the error of a source of which every attempt failed earlier."""
        first = self.failed[0]
        return CompileError(
            f"the compiler cannot compile {label}, as is known from an earlier attempt; "
            "'hipdnn-iree cache clear' forgets it",
            stage=first.stage,
            diagnostics=[first.said] if first.said else [],
            reproducer=first.reproducer,
            tried=self.failed,
        )


def tried(name: str, error: CompileError) -> TriedAttempt:
    """Return what is kept of an attempt that failed."""
    said = error.diagnostics[0] if error.diagnostics else error.message
    return TriedAttempt(name, error.stage, error.cause, said, error.reproducer)


def _key(first: CacheKey) -> CacheKey:
    return CacheKey({_LABEL: first.digest})


def remember(cache: CacheStore, first: CacheKey, outcome: Outcome) -> None:
    """Keep an outcome, unless it rests on what may have been chance."""
    if any(one.cause == "killed" for one in outcome.failed):
        return
    cache.discard(_key(first))  # of other limits
    cache.put(_key(first), {}, {**vars(outcome), "failed": [list(one) for one in outcome.failed]})


def recall(cache: CacheStore, first: CacheKey, limits: WorkerOptions) -> Outcome | None:
    """Return the outcome of a source, if it is known and holds under these limits."""
    entry = cache.peek(_key(first))
    found = None if entry is None else read(entry.manifest)
    return found if found is not None and found.holds(limits) else None


def is_outcome(entry: Entry) -> bool:
    """Return whether an entry of the cache is an outcome, and no code."""
    return _LABEL in entry.ingredients


def read(data: dict[str, Any]) -> Outcome | None:
    """Return the outcome that a manifest holds; None where it is something else."""
    try:
        failed = [TriedAttempt(*one) for one in data["failed"]]
        listed = tuple(data.get("listed", ()))  # older entries have none
        found = Outcome(**{**data, "failed": tuple(failed), "listed": listed})
    except (KeyError, TypeError):
        return None
    texts = [found.attempt, found.op, *(text for one in failed for text in one)]
    numbers = [found.timeout_s, found.memory]
    sound = all(type(t) is str for t in texts) and all(type(n) in (int, float) for n in numbers)
    return found if failed and sound else None
