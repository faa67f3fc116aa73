"""Whether two sets of measured times differ, beyond their noise.

Standard library only, so that results can be compared where nothing is installed.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles

__all__ = ["Change", "compare"]

_DRAWS = 2000
_SEED = 20261121


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """How two sets of times differ.

    Attributes
    ----------
    ratio : float
        Median after / median before.
    low, high : float
        Where 95% of the ratios lie when both sets are drawn again (bootstrap).
    p : float
        Probability that sets of one origin are ranked this differently (Mann-Whitney).
    verdict : str
        ``"faster"``, ``"slower"`` or ``"same"``.
    """

    ratio: float
    low: float
    high: float
    p: float
    verdict: str


def compare(
    before: Sequence[float], after: Sequence[float], *, tolerance: float = 0.05, level: float = 0.01
) -> Change:
    """Say whether times have changed, beyond their noise.

    A change is told when the bootstrap interval of the ratio of medians leaves out 1, the ranks
    differ at the level, and the ratio is at least ``tolerance`` away from 1.  The draws are
    seeded: the same numbers give the same answer.

    Parameters
    ----------
    before, after : sequence of float
        Times of rounds; more than three each, or nothing can be told.
    tolerance : float
        Changes smaller than this are none, whatever the statistics say.
    level : float
        Highest ``p`` at which ranks count as different.
    """
    draw = random.Random(_SEED)
    ratio = median(after) / median(before)
    ratios = [
        median(draw.choices(after, k=len(after))) / median(draw.choices(before, k=len(before)))
        for _ in range(_DRAWS)
    ]
    low, *_, high = quantiles(ratios, n=40, method="inclusive")  # at 2.5 and 97.5 %
    p = _rank_test(before, after)
    verdict = "same"
    if min(len(before), len(after)) > 3 and p <= level:
        if low > 1 and ratio > 1 + tolerance:
            verdict = "slower"
        elif high < 1 and ratio < 1 / (1 + tolerance):
            verdict = "faster"
    return Change(ratio=ratio, low=low, high=high, p=p, verdict=verdict)


def _rank_test(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the two-sided p of the Mann-Whitney test, by its normal approximation.

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
    variance = n * m / 12 * (total + 1 - ties / (total * (total - 1)))
    if variance <= 0:
        return 1.0
    z = max(abs(u - n * m / 2) - 0.5, 0.0) / math.sqrt(variance)
    return math.erfc(z / math.sqrt(2))
