# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Python's cycle collector, paused while a large graph is made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collector_paused"]


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the cycle collector, as a context or as a decorator.

    Reading and freezing a graph leave no cycles behind, but make some 70 objects for each node, so
    that the collector looks through all that the process holds again and again: half of the time
    of parsing JSON, a tenth of the rest, and more in a host of many objects.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
