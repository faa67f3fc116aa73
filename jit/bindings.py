"""Importing what C++ stands behind, whole or not at all: the first time cannot be repeated.

An import that Ctrl-C interrupts is taken back by Python, but what it has registered in C++ stays:
the next one ends with "already registered", or loads only part.  So signals wait for its end.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from types import FrameType, ModuleType
from typing import Any

from .exit_guard import native

__all__ = ["load", "lower_graph", "shielded"]

_ready: set[str] = set()


def load(name: str) -> ModuleType:
    """Import a module with all that it imports; Ctrl-C comes afterwards."""
    if name not in _ready:
        with native, shielded():
            import_module(name)
            _ready.add(name)
    return sys.modules[name]


@native
def lower_graph(*arguments: Any) -> str:
    """Call `lowering.module.lower_graph`, with torch-mlir ready for use."""
    name = f"{__package__}.lowering.module"
    if name not in _ready:
        with shielded():
            from torch_mlir import ir
            from torch_mlir.dialects import torch

            with ir.Context() as context:
                torch.register_dialect(context)
            load(name)
    return str(sys.modules[name].lower_graph(*arguments))


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
