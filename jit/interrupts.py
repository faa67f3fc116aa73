# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Keeping interrupts, such as Ctrl-C, where something would lose them.

An import is such a place: Python ignores what a handler raises in the callbacks of importlib's
locks, and in ``__set_name__`` makes a RuntimeError of it (until 3.12).
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

__all__ = ["interrupt_in", "shielded"]


def interrupt_in(error: BaseException) -> BaseException | None:
    """Return the cause of an error that is no `Exception`: an interrupt that was wrapped."""
    cause: BaseException | None = error
    while isinstance(cause, Exception):
        cause = cause.__cause__
    return cause


@contextmanager
def shielded() -> Iterator[None]:
    """Put off Python's signal handlers, which run in the main thread, until the block has ended."""
    came: list[tuple[int, FrameType | None]] = []
    before: dict[int, Any] = {}

    def note(number: int, frame: FrameType | None) -> None:
        came.append((number, frame))

    try:
        if threading.current_thread() is threading.main_thread():
            for number in signal.valid_signals():
                if callable(handler := signal.getsignal(number)):
                    before[number] = handler
                    with suppress(ValueError):  # an interpreter in which no signals arrive
                        signal.signal(number, note)
        yield
    finally:
        raised: BaseException | None = None
        for one, handler in before.items():
            try:
                with suppress(ValueError):
                    signal.signal(one, handler)
            except BaseException as error:  # its own: it came after it was put back
                raised = error
        for one, frame in came:
            try:
                before[one](one, frame)
            except BaseException as error:
                raised = error
        if raised is not None:
            raise raised
