# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Commands of the command line, run in this process."""

from __future__ import annotations

import contextlib
import io
from functools import cache

from hipdnn_iree.provider.cli.app import app
from hipdnn_iree.provider.cli.exits import INTERNAL

from tools.soak.attack import BrokenError

__all__ = ["command"]


@cache
def _streams() -> tuple[io.TextIOWrapper, io.TextIOWrapper]:
    """Return stdout and stderr of commands: click keeps what it knows of each for good."""
    one, other = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    return one, other


def command(words: list[str]) -> tuple[int, str]:
    """Return the exit code of a command and what it wrote to stderr.

    Raises
    ------
    BrokenError
        For a traceback, an internal error, or a failure without a word.
    """
    out, err = _streams()
    for stream in (out, err):
        stream.seek(0)
        stream.truncate()
    code: object = INTERNAL
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            app.main(words)
        except SystemExit as end:
            code = end.code
    err.seek(0)
    said = err.read()
    if code == INTERNAL or not isinstance(code, int) or "Traceback" in said:
        raise BrokenError(f"{' '.join(words)[:300]} ended with {code}: {said[:600]}")
    if code and not said.strip() and not out.tell():
        raise BrokenError(f"{' '.join(words)[:300]} ended with {code} and said nothing")
    return code, said
