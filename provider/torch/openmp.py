"""The idle threads of PyTorch's OpenMP, which keep the cores busy that a part needs.

After an op they wait for the next one in a loop, for milliseconds, and IREE's worker threads have
to share the cores with them.  OpenMP 5.0 has a call that ends them; the next op of PyTorch that
runs in parallel starts them again.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable
from functools import lru_cache

from ...jit.work import cpu_us
from ..plan import Plan
from ..torch_import import load_torch

__all__ = ["release_before"]

_RUNTIMES = ("libgomp.so.1", "libiomp5.so", "libomp.so")
_SOFT = 1  # omp_pause_soft: settings of the runtime stay
_RESTART_US = 100.0  # of one thread, to end and to start again: more than it takes on idle cores


def release_before(plans: Iterable[Plan]) -> Callable[[], object] | None:
    """Return a call that ends the caller's idle OpenMP threads; None where it does not pay.

    It pays where the plans run on worker threads for longer than it takes to start PyTorch's
    threads again: beside threads that wait busily, work takes up to twice as long.

    Parameters
    ----------
    plans : iterable of Plan
        What will be run after it.

    Notes
    -----
    The call does nothing within a parallel region, and takes less than a microsecond where there
    are no such threads.  Those of other callers go on.
    """
    others = load_torch().get_num_threads() - 1
    spent = sum(cpu_us(p.graph) for p in plans if getattr(p, "driver", "") == "local-task")
    if not others or spent / (others + 1) / 2 < others * _RESTART_US:
        return None
    return _release()


@lru_cache(maxsize=1)
def _release() -> Callable[[], object] | None:
    """Return the call of the runtime that PyTorch has loaded, if that has one."""
    for name in _RUNTIMES:
        try:
            pause = ctypes.CDLL(name, mode=os.RTLD_NOLOAD | os.RTLD_NOW).omp_pause_resource_all
        except (OSError, AttributeError):  # another runtime, or one before OpenMP 5.0
            continue
        pause.argtypes, pause.restype = (ctypes.c_int,), ctypes.c_int
        return lambda: pause(_SOFT)
    return None
