# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Running the compiler in parts: from one of its phases to another one."""

from __future__ import annotations

from ctypes import c_bool, c_char_p, c_void_p
from functools import lru_cache
from typing import Any

__all__ = ["DISPATCHES", "END", "INPUT", "START", "run", "run_passes"]

START, INPUT, DISPATCHES, END = "start", "input", "flow", "end"
"""Phases; those between the ends are the conversion of Torch's functions, and dispatches."""


@lru_cache(maxsize=1)
def _library() -> Any:
    # The Python class does not wrap these three.
    from iree.compiler.api import ctypes_dl

    library = ctypes_dl._dylib
    for function in (
        library.ireeCompilerInvocationSetCompileFromPhase,
        library.ireeCompilerInvocationSetCompileToPhase,
    ):
        function.restype, function.argtypes = None, [c_void_p, c_char_p]
    passes = library.ireeCompilerInvocationRunPassPipeline
    passes.restype, passes.argtypes = c_bool, [c_void_p, c_char_p]
    return library


def run(invocation: Any, after: str, until: str) -> bool:
    """Run the passes behind one phase, up to and with another one; return whether that worked."""
    _library().ireeCompilerInvocationSetCompileFromPhase(invocation._inv_p, after.encode())
    _library().ireeCompilerInvocationSetCompileToPhase(invocation._inv_p, until.encode())
    return bool(invocation.execute())


def run_passes(invocation: Any, pipeline: str) -> bool:
    """Run passes on the module between two phases; return whether that worked."""
    return bool(
        _library().ireeCompilerInvocationRunPassPipeline(invocation._inv_p, pipeline.encode())
    )
