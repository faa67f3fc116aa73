# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The end of Python: no new calls into C++, those that run are waited for, devices stay.

Python ends threads that want its lock while it is taken down.  In the middle of C++ that aborts
the process, and what is freed meanwhile, in any order, may be in use.  So when the exit functions
run, of those registered after this module was imported the last, each thread that calls is ended,
and devices are never freed: the system takes them back with the process.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import ContextDecorator
from types import TracebackType
from typing import NoReturn

from ..graph_api.errors import DeviceError

__all__ = ["Sections", "at_end", "ended", "native", "refuse"]

log = logging.getLogger("hipdnn_iree.runtime")

_LIMIT_S = 30.0  # a longer execution may end by a signal
_FORK_S = 10.0  # a fork waits no longer for imports of other threads
_PAUSE_S = 0.001

_ending: list[int] = []  # the thread that ends Python, as soon as it does
_steps: list[Callable[[float], bool]] = []


def ended() -> bool:
    """Whether Python is ending."""
    return bool(_ending)


def refuse() -> NoReturn:
    """End this thread, as Python is about to; the one that ends Python gets `DeviceError`."""
    if threading.get_ident() not in _ending:
        raise SystemExit  # of which a thread says nothing
    raise DeviceError("Python is ending in this process: nothing is executed any more")


class Sections(ContextDecorator):
    """Parts of the program, as a context manager or decorator, whose end is waited for.

    Once Python is ending only the thread that ends it comes in, and those that are inside already.
    """

    def __init__(self) -> None:
        self._inside: list[int] = []  # threads, each as often as it has come in
        self._closed = False
        os.register_at_fork(after_in_child=self._forget_others)

    def __enter__(self) -> None:
        me = threading.get_ident()
        self._inside.append(me)  # before the question: the end looks here after it is announced
        if _ending and (self._closed or (me not in _ending and self._inside.count(me) == 1)):
            self._inside.remove(me)
            refuse()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._inside.remove(threading.get_ident())

    def empty(self, deadline: float) -> bool:
        """Wait until no other thread is inside; return whether that came before the deadline."""
        me = threading.get_ident()
        while any(thread != me for thread in tuple(self._inside)):
            if time.monotonic() >= deadline:
                return False
            time.sleep(_PAUSE_S)
        return True

    def close(self, deadline: float) -> bool:
        """As `empty`; afterwards the thread that ends Python does not come in either."""
        done = self.empty(deadline)
        self._closed = True
        return done

    def _forget_others(self) -> None:
        # A forked child has not got these threads, and would wait for them when it ends.
        me = threading.get_ident()
        self._inside[:] = [thread for thread in self._inside if thread == me]


native = Sections()
"""Where threads are in C++ that calls Python or lets go of its lock, for more than an instant."""


def at_end(step: Callable[[float], bool]) -> Callable[[float], bool]:
    """Call a function when Python ends, with the time at which to give up; a decorator.

    It returns whether all that it waits for has ended.  The last one registered is called first.
    """
    _steps.append(step)
    return step


def _end() -> None:
    _ending.append(threading.get_ident())
    deadline = time.monotonic() + _LIMIT_S
    done = [native.empty(deadline), *(step(deadline) for step in reversed(_steps))]
    if not all(done):
        log.warning(
            "what runs has not ended within %g s; the process may end by a signal", _LIMIT_S
        )


def _before_fork() -> None:
    # The child would wait for ever for an import that another thread has begun.
    native.empty(time.monotonic() + _FORK_S)


atexit.register(_end)
os.register_at_fork(before=_before_fork)
