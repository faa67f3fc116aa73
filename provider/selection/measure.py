"""Times of several calls, taken in turns so that none has a better hour than another."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import quantiles

__all__ = ["Times", "measure"]

_BLOCK_S = 1e-3  # of one sample, which has three runs at least
_RUN_S = 5e-5  # of one run of calls: long against the clock
_LONG_S = 0.05  # what takes longer is called once a sample
_ROUNDS = (7, 25)  # at least and at most
_HOPELESS = 4.0  # this many times the fastest needs no further samples
_SETTLED = 0.02
# On a busy machine the first ten or so parallel calls of PyTorch wait up to 30 ms for a thread.
_WARM_CALLS, _WARM_S = 20, 0.3


@dataclass(frozen=True, slots=True)
class Times:
    """Samples of one call, in microseconds: quartiles, and how many there are."""

    low: float
    median: float
    high: float
    samples: int

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Times:
        """Return the quartiles of some samples, of which there is at least one."""
        us = sorted(1e6 * s for s in seconds)
        if len(us) == 1:
            return cls(us[0], us[0], us[0], 1)
        low, middle, high = quantiles(us, n=4, method="inclusive")
        return cls(low, middle, high, len(us))

    @property
    def noise(self) -> float:
        """Half the distance of the quartiles, relative to the median."""
        return (self.high - self.low) / 2 / self.median


def measure(
    calls: Sequence[Callable[[], None]],
    *,
    budget_s: float = 2.0,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Times]:
    """Return the times of some calls, each after a warm-up.

    A sample is the fastest run of a block of calls, after one that does not count: what another
    call left in caches and in spinning threads does not fall on it, nor what other programs do
    for a part of the block.  A candidate has to be that lucky in half of the rounds, as the
    median decides.  Rounds go on until the fastest ones are told apart or no longer spread,
    within a budget of time; what is hopelessly slow is not called again.

    Parameters
    ----------
    calls : sequence of callable
    budget_s : float
        Seconds for all samples together; each call has at least one whatever it takes.
    clock : callable
        Seconds that have passed, for tests.
    """
    samples = [_warm_up(call, clock) for call in calls]
    begin = clock()
    alive = list(range(len(calls)))
    for turn in range(_ROUNDS[1]):
        best = min(min(samples[i]) for i in alive)
        alive = [i for i in alive if min(samples[i]) <= _HOPELESS * best]
        shift = turn % len(alive)
        for i in (*alive[shift:], *alive[:shift]):
            sample = _fastest(calls[i], min(samples[i]), clock)
            if turn == 0:
                samples[i] = [sample]  # the warm-up does not count
            else:
                samples[i].append(sample)
        late = clock() - begin
        if late > budget_s or (turn + 1 >= _ROUNDS[0] and _settled([samples[i] for i in alive])):
            break
    return [Times.of(s) for s in samples]


def _warm_up(call: Callable[[], None], clock: Callable[[], float]) -> list[float]:
    """Return a first time: one disturbed call must not make a candidate look hopeless."""
    found: list[float] = []
    while not found or (len(found) < _WARM_CALLS and sum(found) < _WARM_S):
        found.append(_run(call, 1, clock))
    return [min(found)]


def _fastest(call: Callable[[], None], expected: float, clock: Callable[[], float]) -> float:
    """Return the time of the fastest run of a block, in seconds for one call."""
    if expected > _LONG_S:
        return _run(call, 1, clock)
    call()
    count = max(1, round(_RUN_S / expected))
    runs = max(3, round(_BLOCK_S / (count * expected)))
    return min(_run(call, count, clock) for _ in range(runs))


def _run(call: Callable[[], None], count: int, clock: Callable[[], float]) -> float:
    begin = clock()
    for _ in range(count):
        call()
    return (clock() - begin) / count


def _settled(samples: Sequence[Sequence[float]]) -> bool:
    """Whether the fastest is clear of the others, or times no longer spread."""
    times = sorted((Times.of(s) for s in samples), key=lambda t: t.median)
    return len(times) == 1 or times[0].high < times[1].low or times[0].noise < _SETTLED
