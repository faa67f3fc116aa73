# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What has changed from one run to another: times beyond their noise, and what became of cases.

Rows are paired by their keys.  Four kinds of noise could pass for a regression:

- *inside a run*, from round to round: `compare_times.compare` tells it.
- *a whole machine* that is slower for a while, or another machine: a yardstick, another engine
  that was timed in the same rounds, is slowed as well.  Where both runs have one, the ratio of both
  must bear the time out; between unlike machines the ratio alone counts.
- *for some seconds*: somebody else has the memory or a core.  A case is timed several times, with
  other cases in between (`runner`): all times of one run must lie beyond those of the other, and
  further than each run's own lie from each other, or nearly so.
- *between runs*: memory lies elsewhere, a core is shared with somebody else.  No round of a run
  shows it, but all rows together do: what is told must stand out of the scatter of all rows; from
  half as much again on only where rows differ as widely from themselves, at their several times.
  Rows that take about as long differ about as much (`compare_scatter`): a kernel of a GPU that
  takes 20 microseconds shows what its host does, one of a millisecond does not.  Several baselines
  show it for each row: what is told must be told against each of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from statistics import fmean, median
from typing import Any

from ..timing import geomean
from .compare_scatter import Lying, Scatter, Unrest, lying
from .compare_times import TOLERANCE, Change, compare
from .row import Header, Row, Run

__all__ = [
    "YARDSTICKS",
    "Comparison",
    "RowChange",
    "compare_runs",
    "problem_of",
    "regressed",
    "rounds_of",
    "visits_of",
    "yardstick",
]

YARDSTICKS = ("torch",)
"""What is no engine of ours: being slower is no regression."""
_PREFERRED = (*YARDSTICKS, "torch-engine")
_BORNE_OUT = 0.5  # share of a change of time that the ratio to the yardstick has to show
_ALIKE = ("cpu", "processors", "gpus")


@dataclass(frozen=True, kw_only=True, slots=True)
class RowChange:
    """What has changed in a row.

    Attributes
    ----------
    key : str
    verdict : str
        ``slower``, ``faster`` or ``same`` for times; ``new`` and ``gone`` for rows of one run
        only; ``another graph``; else the status that the row has now and did not have before.
    before, after : str or None
        Statuses.
    before_us, after_us : float or None
        Medians over rounds.
    time, relative : Change or None
        Of times, and of times by those of the yardstick in the same rounds.
    against : str
        The yardstick, or empty.
    """

    key: str
    verdict: str
    before: str | None = None
    after: str | None = None
    before_us: float | None = None
    after_us: float | None = None
    time: Change | None = None
    relative: Change | None = None
    against: str = ""

    @property
    def told(self) -> Change | None:
        """The change that is shown: of times, or between unlike machines of ratios."""
        return self.time or self.relative


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A run held against an earlier one.

    Attributes
    ----------
    changes : tuple of RowChange
        For each row of either run.
    alike : bool
        Whether every row was made on a machine like that of its counterpart.
    scatters : dict of str to Scatter
        By ``engine|target``, or ``engine|target|by yardstick`` where only ratios count.
    """

    changes: tuple[RowChange, ...]
    alike: bool
    scatters: Mapping[str, Scatter]

    @cached_property
    def by_key(self) -> Mapping[str, RowChange]:
        """The changes by the keys of rows."""
        return {change.key: change for change in self.changes}

    @property
    def blind(self) -> bool:
        """Whether there are times in both runs, and none that can be compared."""
        both = [change for change in self.changes if change.before_us and change.after_us]
        return bool(both) and all(change.told is None for change in both)

    @property
    def geomean(self) -> float | None:
        """Geometric mean of the ratios, after by before."""
        return geomean([c.told.ratio for c in self.changes if c.told is not None])

    def counts(self) -> dict[str, int]:
        """Return how many rows have each verdict."""
        found: dict[str, int] = {}
        for change in self.changes:
            found[change.verdict] = found.get(change.verdict, 0) + 1
        return dict(sorted(found.items()))


def yardstick(engines: Sequence[str], engine: str) -> str | None:
    """Return whom an engine is held against: PyTorch if it is there, else the second one."""
    preferred = next((name for name in _PREFERRED if name in engines), None)
    chosen = preferred or next(iter(engines[1:]), None)
    return chosen if chosen != engine else None


def compare_runs(
    run: Run, baselines: Sequence[Run], *, tolerance: float = TOLERANCE, absolute: bool = False
) -> Comparison:
    """Say what has changed from the baselines to a run.

    Parameters
    ----------
    run : Run
    baselines : sequence of Run
        At least one.  With several, a row is slower or faster only if it is against each of them;
        the numbers are those of the one that is nearest to it.
    tolerance : float
        Smaller changes of time are none.
    absolute : bool
        Whether times alone count, also on unlike machines.
    """
    found = [_compared(run, old, tolerance, absolute) for old in baselines]
    first = found[0]
    if len(found) == 1:
        return first
    changes = tuple(
        _agreed([other.by_key[change.key] for other in found if change.key in other.by_key])
        for change in first.changes
    )
    return replace(
        first,
        changes=changes,
        alike=all(one.alike for one in found),
        scatters={
            group: max((one.scatters[group] for one in found if group in one.scatters), key=_width)
            for group in dict.fromkeys(group for one in found for group in one.scatters)
        },
    )


def _width(scatter: Scatter) -> float:
    return scatter.highest


def regressed(change: RowChange, kinds: Sequence[str]) -> bool:
    """Whether a row has become one of some kinds: verdicts, and statuses it did not have."""
    if change.verdict == "slower" and change.key.rsplit("|", 2)[1] in YARDSTICKS:
        return False
    verdict = change.after if change.verdict == "new" else change.verdict
    return change.verdict in kinds or verdict in kinds


def _agreed(changes: Sequence[RowChange]) -> RowChange:
    """Return what all baselines agree on; a time that differs from some only is the same."""
    first = changes[0]
    if len({change.verdict for change in changes}) == 1:
        return min(changes, key=lambda c: abs(math.log(c.told.ratio)) if c.told else 0.0)
    calm = next((change for change in changes if change.verdict == "same"), None)
    return calm or (replace(first, verdict="same") if first.time or first.relative else first)


def _compared(run: Run, old: Run, tolerance: float, absolute: bool) -> Comparison:
    mine, theirs = _Timed(run), _Timed(old)
    changes: list[RowChange] = []
    alike = True
    for key in dict.fromkeys([*theirs.rows, *mine.rows]):
        before, after = theirs.rows.get(key), mine.rows.get(key)
        same = before is None or after is None or _alike(theirs.header(key), mine.header(key))
        alike = alike and same
        by_time, by_ratio = same or absolute, not absolute
        changes.append(_change(key, mine, theirs, tolerance, by_time=by_time, by_ratio=by_ratio))
    unrest: dict[str, list[tuple[float, float]]] = {}
    for row in (*theirs.rows.values(), *mine.rows.values()):
        unrest.setdefault(f"{row.engine}|{row.target}", []).extend(_departures(row))
    return _told(
        changes, alike, tolerance, {name: Unrest(visits) for name, visits in unrest.items()}
    )


def _departures(row: Row) -> Iterator[tuple[float, float]]:
    """Yield the logarithm of a row's time, and how far that of each visit lies from the mean."""
    logs = [math.log(median(visit)) for visit in visits_of(row)]
    if (n := len(logs)) > 1:
        # A mean lies nearer to what it is of than the value that is sought.
        yield from ((fmean(logs), (log - fmean(logs)) * math.sqrt(n / (n - 1))) for log in logs)


class _Timed:
    """The rows of a run by key, and whose rounds belong together."""

    def __init__(self, run: Run) -> None:
        self.rows: dict[str, Row] = {row.key: row for row in run.rows}
        self._headers = {
            row.key: run.headers[at] for row, at in zip(run.rows, run.header_of, strict=True)
        }
        self._beside: dict[tuple[str, str, str], dict[str, Row]] = {}
        for row in run.rows:
            if rounds_of(row):
                self._beside.setdefault(problem_of(row), {})[row.engine] = row

    def header(self, key: str) -> Header:
        """Return the header that a row belongs to."""
        return self._headers[key]

    def beside(self, row: Row) -> Mapping[str, Row]:
        """Return the rows of all engines that were timed on the problem of a row."""
        return self._beside.get(problem_of(row), {})


def problem_of(row: Row) -> tuple[str, str, str]:
    """Return what is the same in rows that were timed in the same rounds."""
    return (row.case, row.dtype, row.target)


def _alike(one: Header, other: Header) -> bool:
    return all(one.machine.get(key) == other.machine.get(key) for key in _ALIKE)


def _change(
    key: str, mine: _Timed, theirs: _Timed, tolerance: float, *, by_time: bool, by_ratio: bool
) -> RowChange:
    """Return what has changed in a row, as far as the row alone can tell."""
    before, after = theirs.rows.get(key), mine.rows.get(key)
    about: dict[str, Any] = {
        "key": key,
        "before": before and before.status,
        "after": after and after.status,
    }
    if before is None or after is None:
        return RowChange(verdict="gone" if after is None else "new", **about)
    if before.digest and after.digest and before.digest != after.digest:
        return RowChange(verdict="another graph", **about)
    if before.status != after.status:
        return RowChange(verdict=after.status, **about)
    a, b = rounds_of(before), rounds_of(after)
    if not a or not b:
        verdict = "same" if bool(a) == bool(b) else "new" if b else "gone"
        return RowChange(verdict=verdict, **about)
    against = _common(mine, theirs, before, after) if by_ratio else ""
    relative = None
    if against and (by_time or yardstick([after.engine, against], after.engine)):
        quotients = [
            [x / y for x, y in zip(rounds, rounds_of(side.beside(row)[against]), strict=True)]
            for rounds, side, row in ((a, theirs, before), (b, mine, after))
        ]
        relative = compare(*quotients, tolerance=tolerance)
    time = None
    if by_time:
        time = compare(a, b, tolerance=tolerance)
        if time.verdict != "same" and not _apart(visits_of(before), visits_of(after)):
            time = replace(time, verdict="same")
    found = time or relative
    return RowChange(
        verdict=found.verdict if found is not None else "same",
        before_us=median(a),
        after_us=median(b),
        time=time,
        relative=relative,
        against=against if relative is not None else "",
        **about,
    )


def rounds_of(row: Row) -> list[float]:
    """Return the times of a row's rounds, none where one of them is no time."""
    found = row.times.rounds_us if row.times is not None else []
    return found if min(found, default=0.0) > 0 else []


def visits_of(row: Row) -> list[list[float]]:
    """Return the times of a row's rounds, those of each time that it was timed at together."""
    rounds = iter(rounds_of(row))
    counts = row.times.visits if row.times is not None else []
    found = [list(islice(rounds, count)) for count in counts]
    return [*found, rest] if (rest := list(rounds)) else found


def _apart(before: Sequence[Sequence[float]], after: Sequence[Sequence[float]]) -> bool:
    """Whether all visits of one side took longer than those of the other, and not by chance.

    Between them lies at least half of what lies between the visits of either side: a row whose
    times were 53, 91 and 64 is not slower than one of 51, 51 and 52.
    """
    a, b = (sorted(map(median, visits)) for visits in (before, after))
    if a[0] > b[0]:
        a, b = b, a
    return b[0] / a[-1] > math.sqrt(max(a[-1] / a[0], b[-1] / b[0]))


def _common(mine: _Timed, theirs: _Timed, before: Row, after: Row) -> str:
    """Return a yardstick that both runs have timed in the rounds of a row, or nothing."""
    engines = [
        engine
        for engine in mine.beside(after)
        if _same_rounds(mine, after, engine) and _same_rounds(theirs, before, engine)
    ]
    # The yardstick itself is held against another engine.
    others = [engine for engine in engines if engine != after.engine]
    return yardstick(engines, after.engine) or next(iter(others), "")


def _same_rounds(side: _Timed, row: Row, engine: str) -> bool:
    other = side.beside(row).get(engine)
    return other is not None and len(rounds_of(other)) == len(rounds_of(row))


def _told(
    changes: Sequence[RowChange],
    alike: bool,
    tolerance: float,
    unrest: Mapping[str, Unrest],
) -> Comparison:
    """Return the changes; those of times that do not stand out of all others are none."""
    least = math.log1p(tolerance)
    before = _lying(changes, tolerance, unrest)

    def shifted(change: RowChange) -> bool:
        """Whether an engine and its yardstick are slower alike: it is another machine then."""
        groups = (before.get(name) for name in (_group(change), _beside(change)))
        logs = [math.log(one.scatter.shift) if one is not None else 0.0 for one in groups]
        return change.time is not None and (min(logs) > least or max(logs) < -least)

    changes = [_by_ratio(change) if shifted(change) else change for change in changes]
    found = _lying(changes, tolerance, unrest)

    def settled(change: RowChange) -> RowChange:
        told = change.told
        if told is None or change.verdict not in ("slower", "faster"):
            return change
        scatter, thresholds = found[_group(change)].scatter, found[_group(change)].thresholds
        # A shift of all rows within the tolerance is the machine's.
        shift = math.log(scatter.shift) if scatter.scatter and change.time else 0.0
        net = math.log(told.ratio) - (shift if abs(shift) <= least else 0.0)
        out = abs(net) > math.log(thresholds[change.key])
        if change.time and change.relative:
            out = out and math.log(change.relative.ratio) / net > _BORNE_OUT
        return change if out else replace(change, verdict="same")

    kept = tuple(map(settled, changes))
    scatters = {group: one.scatter for group, one in found.items()}
    return Comparison(changes=kept, alike=alike, scatters=scatters)


def _by_ratio(change: RowChange) -> RowChange:
    """Return a change of which the time says nothing."""
    engine = change.key.rsplit("|", 2)[1]
    if change.relative is None or yardstick([engine, change.against], engine) is None:
        return replace(change, time=None, relative=None, verdict="same")
    return replace(change, time=None, verdict=change.relative.verdict)


def _lying(
    changes: Sequence[RowChange], tolerance: float, unrest: Mapping[str, Unrest]
) -> dict[str, Lying]:
    """Return how the ratios that are shown lie, by group."""
    logs: dict[str, dict[str, tuple[float, float]]] = {}
    for change in changes:
        if change.told is not None and change.before_us:
            both = math.log(change.told.ratio), math.log(change.before_us)
            logs.setdefault(_group(change), {})[change.key] = both
    calm = Unrest()
    return {
        group: lying(ratios, tolerance, unrest.get(group, calm))
        for group, ratios in sorted(logs.items())
    }


def _beside(change: RowChange) -> str:
    """Return the group of the rows that a row is held against."""
    return f"{change.against}|{change.key.rpartition('|')[2]}"


def _group(change: RowChange) -> str:
    group = "|".join(change.key.rsplit("|", 2)[1:])
    return group if change.time is not None else f"{group}|by {change.against}"
