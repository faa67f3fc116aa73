# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether two sets of measured times differ, beyond the noise inside of each."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median, quantiles

__all__ = ["TOLERANCE", "Change", "compare"]

TOLERANCE = 0.05
"""Changes smaller than this are none, whatever the statistics say."""
_DRAWS = 2000
_SEED = 20261121
_EXACT = 20  # rounds of each, up to which ranks are counted; above, their distribution is normal


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """How two sets of times differ.

    Attributes
    ----------
    ratio : float
        Median after / median before.
    low, high : float or None
        Where 95 % of the ratios lie when both sets are drawn again (bootstrap); None where ranks
        or the tolerance have already said that nothing has changed.
    p : float
        Probability that sets of one origin are ranked this differently (Mann-Whitney).
    verdict : str
        ``"faster"``, ``"slower"`` or ``"same"``.
    """

    ratio: float
    low: float | None = None
    high: float | None = None
    p: float
    verdict: str = "same"


def compare(
    before: Sequence[float],
    after: Sequence[float],
    *,
    tolerance: float = TOLERANCE,
    level: float = 0.01,
) -> Change:
    """Say whether times have changed, beyond their noise.

    A change is told when the bootstrap interval of the ratio of medians leaves out 1, the ranks
    differ at the level, and the ratio is at least ``tolerance`` away from 1.  The draws are
    seeded: the same numbers give the same answer.

    Parameters
    ----------
    before, after : sequence of float
        Times of rounds, above 0; more than three each, or nothing can be told.
    tolerance : float
        Smaller changes are none.
    level : float
        Highest ``p`` at which ranks count as different.
    """
    ratio = median(after) / median(before)
    p = _rank_test(before, after)
    inside = 1 / (1 + tolerance) <= ratio <= 1 + tolerance
    if inside or p > level or min(len(before), len(after)) <= 3:
        return Change(ratio=ratio, p=p)
    low, high = _interval(before, after)
    verdict = "slower" if low > 1 else "faster" if high < 1 else "same"
    return Change(ratio=ratio, low=low, high=high, p=p, verdict=verdict)


def _interval(before: Sequence[float], after: Sequence[float]) -> tuple[float, float]:
    """Return the 2.5 and 97.5 % quantiles of the ratio of medians when times are drawn again."""
    draw = random.Random(_SEED)
    ratios = [
        median(draw.choices(after, k=len(after))) / median(draw.choices(before, k=len(before)))
        for _ in range(_DRAWS)
    ]
    low, *_, high = quantiles(ratios, n=40, method="inclusive")
    return low, high


def _rank_test(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the two-sided p of the Mann-Whitney test: exact for few without ties, else normal.

    Source: Mann and Whitney, 1947; variance with the usual correction for ties.
    """
    both = sorted([(x, 0) for x in a] + [(x, 1) for x in b])
    n, m, total = len(a), len(b), len(both)
    ranks, ties, start = 0.0, 0, 0
    while start < total:
        end = start
        while end < total and both[end][0] == both[start][0]:
            end += 1
        ranks += (start + end + 1) / 2 * sum(1 - side for _, side in both[start:end])
        ties += (end - start) ** 3 - (end - start)
        start = end
    u = ranks - n * (n + 1) / 2
    if not ties and max(n, m) <= _EXACT:
        below = sum(_orders(n, m)[: round(min(u, n * m - u)) + 1])
        return min(1.0, 2 * below / math.comb(n + m, n))
    variance = n * m / 12 * (total + 1 - ties / (total * (total - 1)))
    if variance <= 0:
        return 1.0
    z = max(abs(u - n * m / 2) - 0.5, 0.0) / math.sqrt(variance)
    return math.erfc(z / math.sqrt(2))


@cache
def _orders(n: int, m: int) -> tuple[int, ...]:
    """Return how many orders of n and m values have each value of U: a Gaussian binomial."""
    counts = [1] + [0] * (n * m)
    for i in range(1, n + 1):
        # times (1 - q^(m+i)), by (1 - q^i)
        for k in range(n * m, m + i - 1, -1):
            counts[k] -= counts[k - m - i]
        for k in range(i, n * m + 1):
            counts[k] += counts[k - i]
    return tuple(counts)
