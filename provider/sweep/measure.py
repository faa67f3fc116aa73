"""Timing of several calls in turn, so that a busy machine slows all of them alike.

A round gives each call one block of time, in an order that turns from round to round.  A block
starts with a pause, in which threads that another library keeps spinning after its work go to
sleep, and a call that is not counted.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from ...graph_api.errors import SettingError

__all__ = ["Times", "measure", "undisturbed"]

# libgomp spins for some milliseconds after a parallel region; on two cores, that is half the
# machine.
_PAUSE_S = 0.005
_ROUNDS = (5, 40)
_LEAST_CALLS = 3


@dataclass(slots=True)
class Times:
    """Times of one call, in microseconds: of every call, and of the fastest one of each round.

    What else runs on a machine only ever adds time, so the fastest call of a block says most.
    """

    calls_us: list[float] = field(default_factory=list)
    rounds_us: list[float] = field(default_factory=list)


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
    *,
    seconds: float = 1.0,
    rounds: tuple[int, int] = _ROUNDS,
    pause_s: float = _PAUSE_S,
) -> list[Times]:
    """Time calls in turn.

    Parameters
    ----------
    calls : sequence of callable
        Each runs to its end; each was called before, so that nothing is made for the first time.
    seconds : float
        How long each is run in all, about.
    rounds : tuple of int
        Least and most rounds: at least so many even when a call takes long.
    pause_s : float
        Pause before each block.
    """
    found = [Times() for _ in calls]
    least, most = rounds
    block_s = seconds / most
    spent, done = 0.0, 0
    collecting = gc.isenabled()
    gc.disable()
    try:
        while done < least or (done < most and spent < seconds * len(calls)):
            begin = time.perf_counter()
            order = range(len(calls))
            for place in order if done % 2 == 0 else reversed(order):
                _block(calls[place], found[place], block_s, pause_s)
            spent += time.perf_counter() - begin
            done += 1
    finally:
        if collecting:
            gc.enable()
    return found


def _block(call: Callable[[], object], times: Times, block_s: float, pause_s: float) -> None:
    clock = time.perf_counter_ns
    time.sleep(pause_s)
    call()
    end = clock() + int(block_s * 1e9)
    block: list[float] = []
    while len(block) < _LEAST_CALLS or clock() < end:
        begin = clock()
        call()
        block.append((clock() - begin) / 1000)
    times.calls_us += block
    times.rounds_us.append(min(block))
