# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How far a long command is: a bar on a terminal, lines elsewhere, nothing with ``--quiet``."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from .output import complain, count, is_quiet, shown, talk

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

__all__ = ["Progress"]

_LINES = 20  # in which a whole run is told where there is no terminal
_SOON_S = 2.0  # what ends sooner is not told of
_KNOWN = 0.5  # part of the time since the start over which steps have come, for a rate


class Progress:
    """Counts steps on stderr, with rate, failures and time left; a context manager.

    Steps may come in batches, the first one late: rate and time left are told once the steps so
    far have come over half of the time that has passed.

    Parameters
    ----------
    what : str
    total : int
        Steps that there are.
    clock : callable
        Seconds that have passed, for tests.
    """

    def __init__(
        self, what: str, total: int, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.done = self.failures = 0
        self._what, self._total, self._clock = what, total, clock
        self._begin, self._first = clock(), math.inf
        self._bar: Bar | None = None
        self._row: TaskID | None = None

    def __enter__(self) -> Progress:
        if sys.stderr is not None and sys.stderr.isatty() and not is_quiet():
            self._bar = _bar()
            self._row = self._bar.add_task(shown(self._what), total=self._total, about="")
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def step(self, failure: str = "", *, line: str = "") -> None:
        """Count one.

        Parameters
        ----------
        failure : str
            What has failed; shown at once, with ``--quiet`` too.
        line : str
            What has been done, for those who follow; without it a whole run is told in 20 lines.
        """
        self.done += 1
        self.failures += bool(failure)
        elapsed = self._elapsed()
        paced = self._paced(elapsed)
        if self._bar is not None and self._row is not None:
            for text in filter(None, (failure, line)):
                self._bar.console.print(shown(text), markup=False, highlight=False)
            self._bar.update(self._row, advance=1, about=", ".join(paced[:-1]))
            return
        if failure:
            complain(failure)
        total = max(self._total, 1)
        due = self.done * _LINES // total > (self.done - 1) * _LINES // total
        if line or (due and elapsed >= _SOON_S):
            told = "; ".join(filter(None, (line, ", ".join(paced))))
            talk(f"[{self.done}/{self._total}] {told}".rstrip())

    def at(self, done: int, total: int, what: str) -> None:
        """Say that so many of all are done, and what goes on now."""
        self.done, self._total = done, total
        if self._bar is not None and self._row is not None:
            self._bar.update(self._row, completed=done, total=total, about=shown(what))
        else:
            paced = self._paced(self._elapsed())[-1:]
            talk(f"[{done}/{total}] {self._what}: {', '.join((what, *paced))}")

    def _paced(self, elapsed: float) -> list[str]:
        """Return the rate, the failures and, last, the time left; nothing before it is known."""
        if not self.done:
            return []
        self._first = min(self._first, elapsed)
        if elapsed - self._first < _KNOWN * elapsed:
            return []
        rate = self.done / max(elapsed, 1e-3)
        pace = f"{rate:.3g}/s" if rate >= 1 else f"{1 / rate:.3g} s each"
        failed = [count(self.failures, "failure", "failures")] if self.failures else []
        return [pace, *failed, f"{_duration((self._total - self.done) / rate)} left"]

    def _elapsed(self) -> float:
        return self._clock() - self._begin


def _bar() -> Bar:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    what = TextColumn("{task.description}", markup=False)
    columns = (what, BarColumn(), MofNCompleteColumn())
    about = TextColumn("{task.fields[about]}", markup=False)
    return Progress(*columns, about, TimeRemainingColumn(), console=Console(stderr=True))


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
