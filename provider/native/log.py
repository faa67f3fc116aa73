# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From Python's loggers to the log of a library's host."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from ..plugin_abi import Severity

__all__ = ["attach"]

_LEVELS = {
    Severity.INFO: logging.INFO,
    Severity.WARN: logging.WARNING,
    Severity.ERROR: logging.ERROR,
    Severity.FATAL: logging.CRITICAL,
    Severity.OFF: logging.CRITICAL + 1,
}
"""What is shown at a level that the host asks for."""


# hipDNN passes a text on as it is; `log_error` of the library writes the same form.
_FORM = "%(asctime)s.%(msecs)03d thread %(native)d %(levelname)s %(name)s: %(message)s"


class _Handler(logging.Handler):
    """Hands records to the host; the library knows where they go, and drops the quieter ones."""

    def __init__(self, emit: Callable[[int, bytes], None]) -> None:
        super().__init__()
        self._emit = emit
        self.setFormatter(logging.Formatter(_FORM, "%Y-%m-%d %H:%M:%S"))

    def emit(self, record: logging.LogRecord) -> None:
        """Hand over one record; runs without the GIL in the host's callback."""
        try:
            vars(record)["native"] = threading.get_native_id()
            text = self.format(record).replace("\0", " ").encode("utf-8", "backslashreplace")
            self._emit(_severity(record.levelno), text)
        except Exception:
            self.handleError(record)


def _severity(level: int) -> int:
    names = (Severity.FATAL, Severity.ERROR, Severity.WARN)
    return int(next((s for s in names if level >= _LEVELS[s]), Severity.INFO))


def attach(emit: Callable[[int, bytes], None], level: Callable[[], int]) -> Callable[[int], None]:
    """Send what the project logs to the host, and return what sets the level from now on.

    Loggers of a Python host stay as they are: the level of ``hipdnn_iree`` is lowered when the
    host of the plugin asks for more than it shows, and never raised above what it was.
    """
    logger = logging.getLogger("hipdnn_iree")
    before = logger.level
    handler = _Handler(emit)
    logger.addHandler(handler)

    def set_level(severity: int) -> None:
        wanted = _LEVELS[Severity(severity)]
        handler.setLevel(wanted)
        # Without a level of its own it would show what the root logger shows: warnings.
        logger.setLevel(min(wanted, before or logging.WARNING))

    set_level(level())
    return set_level
