# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From the log messages of plugins to Python's loggers, and to the reasons for their answers.

A plugin may call its sink on any thread, even at the end of the process.  No Python function may be
called then, so at the end every plugin is given a C function that ignores the message.
"""

from __future__ import annotations

import atexit
import ctypes
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import CFUNCTYPE, c_char_p, c_int, c_void_p

from ...plugin_abi import Severity

__all__ = ["SINK", "Sink", "listening"]

log = logging.getLogger("hipdnn_iree.foreign")

SINK = CFUNCTYPE(None, c_int, c_char_p)
"""``hipdnnCallback_t`` of engine plugins."""

_LEVELS = {
    Severity.INFO: logging.DEBUG,  # what a plugin thinks worth telling is a detail here
    Severity.WARN: logging.WARNING,
    Severity.ERROR: logging.ERROR,
    Severity.FATAL: logging.CRITICAL,
}
_LONGEST = 4000  # characters of a message
_KEPT = 50  # messages that are kept for one answer


class _Thread(threading.local):
    heard: list[str] | None = None
    busy = False


_thread = _Thread()


@contextmanager
def listening() -> Iterator[list[str]]:
    """Collect the messages of plugins on this thread inside the block, without logging them."""
    before, _thread.heard = _thread.heard, []
    try:
        yield _thread.heard
    finally:
        _thread.heard = before


class Sink:
    """The callback of one plugin; it lives as long as the process."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.callback = SINK(self._hear)

    def _hear(self, severity: int, message: bytes | None) -> None:
        if _thread.busy:  # our own plugin hands on what this package logs
            return
        _thread.busy = True
        try:
            text = (message or b"").decode(errors="backslashreplace")[:_LONGEST].strip()
            if _thread.heard is not None:
                if len(_thread.heard) < _KEPT:
                    _thread.heard.append(text)
                return
            level = next((n for s, n in _LEVELS.items() if s == severity), logging.WARNING)
            log.log(level, "%s: %s", self._name, text)
        except Exception:  # nothing may escape into C
            pass
        finally:
            _thread.busy = False

    def attach(self, setter: Callable[[c_void_p], int]) -> None:
        """Give the callback to a plugin, and a harmless C function when the process ends."""
        setter(ctypes.cast(self.callback, c_void_p))
        _kept.append(self)
        atexit.register(setter, _deaf())


_kept: list[Sink] = []  # what C may call, for as long as the process lives


def _deaf() -> c_void_p:
    """Return the address of a C function that takes an int and a pointer and does nothing."""
    # abs() reads its first argument, and returns it in a register that the caller ignores.
    return ctypes.cast(ctypes.CDLL(None).abs, c_void_p)
