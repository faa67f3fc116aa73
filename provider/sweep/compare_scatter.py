# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How widely rows differ from run to run and from visit to visit: what stands out of that is told.

Rows that take about as long differ about as much.  How much that is is seen from the visits of
each row; by how much more two runs differ than two visits, from the ratios of all rows.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, median

__all__ = ["Lying", "Scatter", "Unrest", "lying"]

_BODY = 0.8  # share of the rows of which most are taken not to have changed
_FEWEST = 8  # rows that a scatter can be taken from
_FALSE_ALARMS = 0.001  # expected in a comparison of two runs of one tree
_MOST_SCATTER = math.log(1.5)  # what is slower is told, unless a row differs as much from itself
_NEAR = 96  # visits of the rows that take about as long: three each of 16 rows in two runs
_CALMEST = 0.25  # of the unrest of all rows: less is taken to be luck


@dataclass(frozen=True, kw_only=True, slots=True)
class Scatter:
    """How the ratios of one engine on one target lie, now / before.

    Attributes
    ----------
    rows : int
    shift : float
        Their median.
    scatter : float
        Standard deviation of their logarithms, estimated without the rows that are furthest away;
        0 for too few rows.
    unrest : float
        The same of each row against itself, at the times that it was timed at; 0 for too few.
    threshold, highest : float
        Smallest ratio that is told: of the calmest row, and of the most restless one.
    """

    rows: int
    shift: float = 1.0
    scatter: float = 0.0
    unrest: float = 0.0
    threshold: float
    highest: float

    @property
    def told_from(self) -> str:
        """The smallest ratios that are told, in words."""
        return " to ".join(dict.fromkeys(f"{end:.3f}" for end in (self.threshold, self.highest)))


class Unrest:
    """How much rows differ from themselves, by how long they take.

    Parameters
    ----------
    visits : iterable of (float, float)
        Logarithm of a row's time, and how far that of one of its visits lies from it.
    """

    def __init__(self, visits: Iterable[tuple[float, float]] = ()) -> None:
        ordered = sorted(visits)
        self._times = [time for time, _ in ordered]
        self._departures = [departure for _, departure in ordered]
        enough = len(ordered) >= _FEWEST
        self.overall = _deviation(self._departures) if enough else 0.0

    def at(self, time: float) -> float:
        """Return the deviation of rows that take about as long; 1 where there are too few."""
        if not self.overall:
            return 1.0
        last = len(self._times) - _NEAR
        first = max(0, min(bisect_left(self._times, time) - _NEAR // 2, last))
        near = _deviation(self._departures[first : first + _NEAR])
        return max(near, _CALMEST * self.overall)


@dataclass(frozen=True, slots=True)
class Lying:
    """How the ratios of a group lie, and the smallest one that is told of each row by its key."""

    scatter: Scatter
    thresholds: Mapping[str, float]


def lying(ratios: Mapping[str, tuple[float, float]], tolerance: float, unrest: Unrest) -> Lying:
    """Return how ratios lie.

    They may scatter widely because many rows have changed.  That they are not told for that, rows
    have to differ as widely from themselves.

    Parameters
    ----------
    ratios : mapping of str to (float, float)
        Logarithms of the ratio and of the time of each row, by its key.
    tolerance : float
        Smaller changes are none.
    unrest : Unrest
    """
    logs = [log for log, _ in ratios.values()]
    centre, least = median(logs), math.log1p(tolerance)
    if len(logs) < _FEWEST:
        scatter = Scatter(
            rows=len(logs), shift=math.exp(centre), threshold=1 + tolerance, highest=1 + tolerance
        )
        return Lying(scatter, dict.fromkeys(ratios, 1 + tolerance))
    expected = {key: unrest.at(time) for key, (_, time) in ratios.items()}
    beyond = _deviation([(log - centre) / expected[key] for key, (log, _) in ratios.items()])
    times = NormalDist().inv_cdf(1 - _FALSE_ALARMS / 2 / len(logs))

    def threshold(deviation: float) -> float:
        itself = deviation if unrest.overall else 0.0
        return math.exp(
            max(least, min(times * beyond * deviation, max(_MOST_SCATTER, times * itself)))
        )

    thresholds = {key: threshold(deviation) for key, deviation in expected.items()}
    scatter = Scatter(
        rows=len(logs),
        shift=math.exp(centre),
        scatter=_deviation([log - centre for log in logs]),
        unrest=unrest.overall,
        threshold=min(thresholds.values()),
        highest=max(thresholds.values()),
    )
    return Lying(scatter, thresholds)


def _deviation(values: Sequence[float]) -> float:
    """Return the standard deviation of values about 0, without those that are furthest away.

    By the median, and by four in five where the tails are heavier.
    """
    normal, away = NormalDist(), sorted(map(abs, values))
    return max(
        median(away) / normal.inv_cdf(0.75),
        away[int(_BODY * (len(away) - 1))] / normal.inv_cdf((1 + _BODY) / 2),
    )
