# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The line of a script that called this package, for problems."""

from __future__ import annotations

import sys
from types import FrameType

from .errors import GraphError, Problem

__all__ = ["refused", "script_line"]

_PACKAGE = __name__.partition(".")[0]


def script_line() -> str:
    """Return file and line of the innermost caller outside of this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] != _PACKAGE:
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def refused(message: str, **problem: str) -> GraphError:
    """Return the error of a call that is wrong by itself, with its line; fields of `Problem`."""
    return GraphError(message, [Problem(at=script_line(), **problem)])
