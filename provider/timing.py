# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times of several calls, taken in turns so that a busy machine slows all of them alike.

A round gives each call one block of time, in an order that turns from round to round.  A block
starts with a call that is not counted: what another call left in caches and in spinning threads
does not fall on it.  What else runs on a machine only ever adds time, so the fastest run of a
block says most; a call has to be that lucky in half of the rounds, as the median decides.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from math import ceil, exp, inf, log
from statistics import median, quantiles

from ..graph_api.errors import SettingError
from ..jit.runtime.repeated import Repeated

__all__ = [
    "BENCHMARK",
    "TUNING",
    "Effort",
    "Samples",
    "Times",
    "cold",
    "cold_repeated",
    "geomean",
    "measure",
    "measure_repeated",
    "paired_ratio",
    "resident",
    "undisturbed",
]

_LEAST_RUNS = 3  # of a block
_HOPELESS = 4.0  # this many times the fastest needs no further samples
_SETTLED = 0.02
# On a busy machine the first ten or so parallel calls of PyTorch wait up to 30 ms for a thread.
_WARM_CALLS, _WARM_S = 20, 0.3
# Of a GPU: executions between two waits take so long together that the wait does not count; and
# not so many that the driver's queue is full, for which a host waits in the middle.
_BETWEEN_S, _MOST_BETWEEN = 2e-3, 200
_COLD_BETWEEN = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Effort:
    """How calls are measured.

    Attributes
    ----------
    rounds : tuple of int
        Least and most; the least are made of every call whatever they take.
    block_s : float
        Seconds of a block; 0: what the budget leaves for each of the most rounds.
    run_s : float
        Seconds of one run of calls, which are timed together; 0: each call is timed by itself.
    long_s : float
        A call that takes longer is made once in a block: what is in caches before matters little.
    pause_s : float
        Pause before each block, in which threads that another library keeps spinning after its
        work go to sleep.
    settle : int
        Rounds after which measuring ends as soon as the fastest call is told apart or its times
        no longer spread, and hopelessly slow calls are given up; 0: neither.  Each call is warmed
        up then; otherwise it was made before.
    """

    rounds: tuple[int, int]
    block_s: float = 0.0
    run_s: float = 0.0
    long_s: float = inf
    pause_s: float = 0.0
    settle: int = 0


# A run is long against the clock, a block has several.
TUNING = Effort(rounds=(3, 25), block_s=1e-3, run_s=5e-5, long_s=0.05, settle=7)
# libgomp spins for some milliseconds after a parallel region; on two cores, that is half the
# machine.
BENCHMARK = Effort(rounds=(5, 40), long_s=0.3, pause_s=0.005)


@dataclass(slots=True)
class Samples:
    """Times of one call, in microseconds: of every run, and of the fastest one of each round."""

    calls_us: list[float] = field(default_factory=list)
    rounds_us: list[float] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True, slots=True)
class Times:
    """What is typical of some times, in microseconds: quartiles, the best, how many there are."""

    low: float
    median: float
    high: float
    best: float
    samples: int

    @classmethod
    def of(cls, times_us: Sequence[float]) -> Times:
        """Return what is typical of some times, of which there is at least one."""
        both = times_us if len(times_us) > 1 else [*times_us, *times_us]
        low, middle, high = quantiles(both, n=4, method="inclusive")
        return cls(low=low, median=middle, high=high, best=min(both), samples=len(times_us))

    @property
    def noise(self) -> float:
        """Half the distance of the quartiles, relative to the median."""
        return (self.high - self.low) / 2 / self.median


def geomean(values: Sequence[float]) -> float | None:
    """Return the geometric mean, None of nothing."""
    if not values:
        return None
    return exp(sum(map(log, values)) / len(values))


def paired_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return the median of the quotients of what was measured in the same round.

    What slows a whole round down slows both alike, and does not count.
    """
    return median(a / b for a, b in zip(ours, theirs, strict=True))


def resident(call: Callable[[], object]) -> Callable[[], object]:
    """Return what is timed of a bound plan: on a GPU without the copies of host arrays."""
    found: Callable[[], object] = getattr(call, "resident", call)
    return found


@contextmanager
def undisturbed() -> Iterator[None]:
    """Run this process's threads before those of all others, in real time, as Linux calls it.

    Raises
    ------
    SettingError
        If this user may not do so.
    """
    try:
        _schedule(os.SCHED_RR, 1)
    except OSError as error:
        raise SettingError(f"no real-time scheduling for this user: {error.strerror}") from None
    try:
        yield
    finally:
        _schedule(os.SCHED_OTHER, 0)


def _schedule(policy: int, priority: int) -> None:
    """Set how every thread of this process is scheduled."""
    for thread in os.listdir("/proc/self/task"):
        with suppress(ProcessLookupError):  # it has ended meanwhile
            os.sched_setscheduler(int(thread), policy, os.sched_param(priority))


def measure(
    calls: Sequence[Callable[[], object]],
    effort: Effort,
    *,
    budget_s: float,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Samples]:
    """Time calls in turns; each has a sample of each of the least rounds.

    Parameters
    ----------
    calls : sequence of callable
        Each runs to its end.
    effort : Effort
        `TUNING` or `BENCHMARK`, or another.
    budget_s : float
        Seconds for all samples together, beyond the least rounds.
    clock : callable
        Seconds that have passed, for tests.
    """
    found = [Samples() for _ in calls]
    fastest = [_warm_up(call, clock) if effort.settle else inf for call in calls]
    alive = list(range(len(calls)))
    least, most = effort.rounds
    block_s = effort.block_s or budget_s / max(len(calls), 1) / most
    begin = clock()
    for turn in range(most if calls else 0):
        if effort.settle and turn >= least:
            limit = _HOPELESS * min(fastest[i] for i in alive)
            alive = [i for i in alive if fastest[i] <= limit]
        shift = turn % len(alive)
        for i in (*alive[shift:], *alive[:shift]):
            block = _block(calls[i], fastest[i], block_s, effort, clock)
            # The warm-up does not count.
            fastest[i] = min(block) if turn == 0 else min(fastest[i], *block)
            found[i].calls_us += [1e6 * seconds for seconds in block]
            found[i].rounds_us.append(1e6 * min(block))
        if turn + 1 >= least and clock() - begin >= budget_s:
            break
        if 0 < effort.settle <= turn + 1 and _settled([found[i] for i in alive]):
            break
    return found


def cold(
    call: Callable[[], object],
    flush: Callable[[], object],
    *,
    most: int,
    budget_s: float,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Return the median time of calls whose data is in no cache, in microseconds.

    Parameters
    ----------
    call : callable
        Runs to its end.
    flush : callable
        Pushes its data out of the caches; called before each call, and not counted.
    most : int
        Most calls; three are made whatever they take.
    budget_s : float
        Seconds after which no further call is made.
    clock : callable
        Seconds that have passed, for tests.
    """
    found: list[float] = []
    begin = clock()
    while len(found) < min(most, _LEAST_RUNS) or (len(found) < most and clock() - begin < budget_s):
        flush()
        found.append(1e6 * _run(call, 1, clock))
    return median(found)


def measure_repeated(
    calls: Sequence[Repeated],
    effort: Effort,
    *,
    budget_s: float,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Samples]:
    """Time calls of a GPU in turns, as `measure` does, many between two waits of the host.

    Parameters
    ----------
    calls : sequence of Repeated
    effort, budget_s, clock
        As of `measure`; a sample is the mean over the executions between two waits.
    """
    counts = [_between(call, clock) for call in calls]
    runs = [partial(call.run, count) for call, count in zip(calls, counts, strict=True)]
    return [
        Samples(
            calls_us=[us / count for us in samples.calls_us],
            rounds_us=[us / count for us in samples.rounds_us],
        )
        for samples, count in zip(
            measure(runs, effort, budget_s=budget_s, clock=clock), counts, strict=True
        )
    ]


def cold_repeated(
    call: Repeated, *, rounds: int, clock: Callable[[], float] = time.perf_counter
) -> float | None:
    """Return the time of executions on a GPU whose data is in no cache, in microseconds.

    Parameters
    ----------
    call : Repeated
    rounds : int
        The result is the median over them: of the time of executions with writes of other
        memory between them, less that of the writes alone.  None: no difference is seen.
    clock : callable
        Seconds that have passed, for tests.
    """
    found = []
    for flushed in (call.cold, call.flush):
        flushed(1)
    for _ in range(rounds):
        both = _run(partial(call.cold, _COLD_BETWEEN), 1, clock)
        alone = _run(partial(call.flush, _COLD_BETWEEN), 1, clock)
        found.append(1e6 * (both - alone) / _COLD_BETWEEN)
    return us if (us := median(found)) > 0 else None


def _between(call: Repeated, clock: Callable[[], float]) -> int:
    """Return how many executions lie between two waits; warms up as well."""
    call.run(1)
    some = 2
    while True:
        seconds = _run(partial(call.run, some), 1, clock)
        if seconds >= _BETWEEN_S / 2 or some >= _MOST_BETWEEN:
            return max(1, min(_MOST_BETWEEN, ceil(some * _BETWEEN_S / max(seconds, 1e-9))))
        some = min(2 * some, _MOST_BETWEEN)


def _warm_up(call: Callable[[], object], clock: Callable[[], float]) -> float:
    """Return a first time, of which the length of runs follows."""
    found: list[float] = []
    while not found or (len(found) < _WARM_CALLS and sum(found) < _WARM_S):
        found.append(_run(call, 1, clock))
    return min(found)


def _block(
    call: Callable[[], object],
    expected_s: float,
    block_s: float,
    effort: Effort,
    clock: Callable[[], float],
) -> list[float]:
    """Return the times of the runs of a block, in seconds for one call."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        if effort.pause_s:
            time.sleep(effort.pause_s)
        if (first := _run(call, 1, clock)) > effort.long_s:
            return [first]
        count = max(1, round(effort.run_s / expected_s))
        block: list[float] = []
        end = clock() + block_s
        while len(block) < _LEAST_RUNS or clock() < end:
            block.append(_run(call, count, clock))
        return block
    finally:
        if collecting:
            gc.enable()


def _run(call: Callable[[], object], count: int, clock: Callable[[], float]) -> float:
    begin = clock()
    for _ in range(count):
        call()
    return (clock() - begin) / count


def _settled(found: Sequence[Samples]) -> bool:
    """Whether the fastest is clear of the others, or times no longer spread."""
    times = sorted((Times.of(one.rounds_us) for one in found), key=lambda t: t.median)
    return len(times) == 1 or times[0].high < times[1].low or times[0].noise < _SETTLED
