# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How far a long command is: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from .output import count, shown, talk

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

__all__ = ["Progress"]

_LINES = 20  # in which a whole run is told where there is no terminal


class Progress:
    """Counts steps on stderr, with rate, failures and time left; a context manager.

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
        self._begin = clock()
        self._bar: Bar | None = None
        self._row: TaskID | None = None

    def __enter__(self) -> Progress:
        if sys.stderr is not None and sys.stderr.isatty():
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

    def step(self, failure: str = "") -> None:
        """Count one; ``failure`` is a line that is shown at once."""
        self.done += 1
        self.failures += bool(failure)
        if self._bar is not None and self._row is not None:
            if failure:
                self._bar.console.print(shown(failure), markup=False, highlight=False)
            self._bar.update(self._row, advance=1, about=self._about(self._rate()))
            return
        if failure:
            talk(failure)
        if self.done * _LINES // self._total > (self.done - 1) * _LINES // self._total:
            rate = self._rate()
            left = _duration((self._total - self.done) / rate)
            talk(f"[{self.done}/{self._total}] {self._about(rate)}, {left} left")

    def _about(self, rate: float) -> str:
        return f"{rate:.3g}/s, {count(self.failures, 'failure', 'failures')}"

    def _rate(self) -> float:
        return self.done / max(self._clock() - self._begin, 1e-3)


def _bar() -> Bar:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    about = TextColumn("{task.fields[about]}", markup=False)
    return Progress(*columns, about, TimeRemainingColumn(), console=Console(stderr=True))


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
