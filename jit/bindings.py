# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Importing what C++ stands behind, whole or not at all: the first time cannot be repeated.

An import that Ctrl-C interrupts is taken back by Python, but what it has registered in C++ stays:
the next one ends with "already registered", or loads only part.  So signals wait for its end.
It also takes more stack than a thread may have (more than 400 KiB), so that threads other than the
main one have it done by one with a large stack; MLIR's own recursion happens there too.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

from ..graph_api.errors import CompileError
from .exit_guard import native
from .interrupts import shielded
from .trace import span

__all__ = ["load", "lower_graph"]

_ready: set[str] = set()
_STACK = 16 << 20
_NO_TORCH_MLIR = (
    "compiling needs torch-mlir, which is not installed here; what is in the cache or in an "
    "artifact runs without it (docs/artifacts.md)"
)
_sizing = threading.Lock()


def load(name: str) -> ModuleType:
    """Import a module with all that it imports; Ctrl-C comes afterwards."""
    if name not in _ready:
        with native, shielded(), span(f"import {name}"):
            _roomy(partial(import_module, name))
            _ready.add(name)
    return sys.modules[name]


@native
def lower_graph(*arguments: Any) -> str:
    """Call `lowering.module.lower_graph`, with torch-mlir ready for use."""
    return str(_roomy(partial(_lower_graph, *arguments)))


def _roomy(work: Callable[[], object]) -> object:
    """Return what a function returns, called in this thread if it is the main one."""
    if threading.current_thread() is threading.main_thread():
        return work()
    context, results, raised = copy_context(), list[object](), list[BaseException]()

    def call() -> None:
        try:
            results.append(context.run(work))
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=call, name="hipdnn-iree-lowering")
    with _sizing:
        before = threading.stack_size(_STACK)
        try:
            thread.start()
        except RuntimeError:  # no memory, or the interpreter ends
            return work()
        finally:
            threading.stack_size(before)
    thread.join()
    if raised:
        raise raised[0]
    return results[0]


def _lower_graph(*arguments: Any) -> str:
    name = f"{__package__}.lowering.module"
    if name not in _ready:
        with shielded(), span("import torch-mlir"):
            try:
                from torch_mlir import ir
                from torch_mlir.dialects import torch
            except ModuleNotFoundError as error:
                if (error.name or "").partition(".")[0] != "torch_mlir":
                    raise
                raise CompileError(_NO_TORCH_MLIR, stage="lower", cause="host") from error

            with ir.Context() as context:
                torch.register_dialect(context)
            load(name)
    return str(sys.modules[name].lower_graph(*arguments))
