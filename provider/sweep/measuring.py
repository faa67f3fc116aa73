# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Right or wrong, and how fast: what sweeps and benchmarks do with a plan that is built."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from ...graph_api.dtypes import DataType
from ...graph_api.frozen import FrozenGraph
from ...jit.settings_table import Settings
from ..timing import Samples, Times
from .contestants import Contestant
from .row import TimeFacts

if TYPE_CHECKING:
    from ..verify import Report

__all__ = ["SEED", "keep_memory", "pytorch_threads", "results_of", "right", "times_of"]

SEED = 7
"""Of the inputs."""

# How far a yardstick may be off, relative to the result or its root mean square: it is no engine
# of ours, and need not keep the bounds that engines keep.
_YARDSTICK = {DataType.FLOAT: 1e-3, DataType.DOUBLE: 1e-6}
_NARROW = 5e-2
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # of glibc's malloc.h


def keep_memory() -> None:
    """Let glibc keep what is freed, instead of giving it back to the system.

    PyTorch takes new memory for each result; with glibc's defaults, whether its pages have to be
    made again at each call (2 ms for 4 MiB here) depends on what was freed before.
    """
    import ctypes

    with suppress(OSError, AttributeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, -1)


def pytorch_threads(
    contestants: Sequence[Contestant], count: int, settings: Settings
) -> AbstractContextManager[None]:
    """Set PyTorch's number of threads once, not at each call; 0 leaves it alone."""
    from ..engines.torch.torch_engine import TorchEngine

    names = (None, TorchEngine.NAME, TorchEngine.ALIAS)  # None: a policy may choose it as well
    wanted = count and any(one.engine in names for one in contestants)
    if not wanted or not TorchEngine(settings).version():
        return nullcontext()
    from ..engines.torch.torch_program import using_threads

    return using_threads(count)


def results_of(
    graph: FrozenGraph, call: Callable[[], object], outputs: Mapping[int, Any]
) -> dict[int, Any]:
    """Run once and return the results by uid.

    Parameters
    ----------
    graph : FrozenGraph
    call : callable
        What `Contestant.call` returned.
    outputs : mapping of int to ndarray
        What it writes to, by uid; a native program returns new memory instead.
    """
    results = call()
    if not isinstance(results, list):
        return dict(outputs)
    return {
        uid: _array(tensor, outputs[uid].dtype)
        for uid, tensor in zip(graph.outputs, results, strict=True)
    }


def right(graph: FrozenGraph, report: Report, contestant: Contestant) -> bool:
    """Whether results are good: within all bounds, or nearly so for a yardstick."""
    allowed = max(_YARDSTICK.get(graph.spec(uid).data_type, _NARROW) for uid in graph.outputs)
    worst = report.max_rel_error
    return report.ok or (contestant.native and math.isfinite(worst) and worst <= allowed)


def times_of(visits: Sequence[Samples], cold_us: float | None) -> TimeFacts:
    """Return what a row keeps of the times of one call, which was timed once or several times."""
    times = Times.of([us for found in visits for us in found.calls_us])
    return TimeFacts(
        median_us=round(times.median, 3),
        best_us=round(times.best, 3),
        spread=round(times.noise, 4),
        calls=times.samples,
        rounds_us=[round(us, 2) for found in visits for us in found.rounds_us],
        cold_us=cold_us and round(cold_us, 3),
        visits=[len(found.rounds_us) for found in visits] if len(visits) > 1 else [],
    )


def _array(tensor: Any, dtype: Any) -> Any:
    import torch

    if tensor.dtype is torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(dtype)
    return tensor.numpy()
