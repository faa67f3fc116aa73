# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the worker does besides compiling: tasks on MLIR text that may crash the MLIR library.

The parser descends as deep as the text is nested, and passes may abort, so neither runs in the
host process.  A task is ``f(source, options) -> (facts, text)``; facts are JSON-ready.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

__all__ = ["TASKS", "perform"]

TASKS: dict[str, str] = {
    "function": "..emit.function",
    "module": "..emit.mlir_file",
    "dialect": "..emit.dialects",
    "flow": "..inspect.flow",
}


def perform(
    task: str, source: bytes, options: Mapping[str, Any]
) -> tuple[Mapping[str, Any], bytes]:
    """Do a task; called in the worker.

    Raises
    ------
    Refused
        With the stage and the reason.
    """
    found: tuple[Mapping[str, Any], bytes]
    found = import_module(TASKS.get(task, task), __package__).perform(source, options)
    return found
