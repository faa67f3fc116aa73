# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the exit codes say, and which one an error gives."""

from __future__ import annotations

from ...graph_api.errors import (
    ArtifactError,
    BindError,
    CompileError,
    DeviceError,
    FormatError,
    GraphError,
    NotPrecompiledError,
    NotSupportedError,
    SettingError,
)

__all__ = ["EXIT_CODES", "exit_code"]

OK, CHECK_FAILED, BAD_INPUT, NOT_SUPPORTED, COMPILE_FAILED, INTERNAL = range(6)
INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it
BROKEN_PIPE = 141  # 128 + SIGPIPE

EXIT_CODES: dict[int, str] = {
    OK: "done",
    CHECK_FAILED: "a check failed: results are not those of the reference, or the cache is damaged",
    BAD_INPUT: "bad usage, or a file, graph, setting or array that is not what it has to be",
    NOT_SUPPORTED: "not supported here: no engine serves the graph, there is no such device, or "
    "the graph would have to be compiled where that is not allowed",
    COMPILE_FAILED: "the compiler refused, crashed or ran out of time",
    INTERNAL: "an internal error, which is a bug; `--traceback` shows where",
    INTERRUPTED: "interrupted with Ctrl-C",
    BROKEN_PIPE: "whoever read the output went away",
}

_BY_ERROR: tuple[tuple[type[BaseException], int], ...] = (
    (GraphError, BAD_INPUT),
    (FormatError, BAD_INPUT),
    (BindError, BAD_INPUT),
    (SettingError, BAD_INPUT),
    (NotSupportedError, NOT_SUPPORTED),
    (NotPrecompiledError, NOT_SUPPORTED),
    (DeviceError, NOT_SUPPORTED),
    (CompileError, COMPILE_FAILED),
    (ArtifactError, CHECK_FAILED),
)


def exit_code(error: BaseException) -> int:
    """Return the exit code for an error."""
    return next((code for kind, code in _BY_ERROR if isinstance(error, kind)), INTERNAL)
