# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a run says: counts, engines against each other, the worst rows, what has changed.

``Report`` has the facts; `report_html` makes a page of them, ``as_dict`` what ``--json`` prints.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import combinations
from statistics import median
from typing import Any

from ..timing import geomean, paired_ratio
from .compare_runs import (
    Comparison,
    RowChange,
    problem_of,
    regressed,
    rounds_of,
    yardstick,
)
from .disturbed import disturbed
from .row import FAILED, STATUSES, Row, Run

__all__ = ["FAIL_ON", "SUMMARISED", "Pair", "Report", "Summary", "change_as_dict", "command_of"]

FAIL_ON = ("slower", "gone", *(status for status in STATUSES if status != "ok"))
"""What a report can be made to fail on."""

_LISTED = 20  # rows in a list of the worst


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """Two engines on the problems that both were timed on.

    Attributes
    ----------
    engine, against : str
    ratios : dict of str to float
        By the key of the engine's row: the median over rounds of its time by the other's.
    disturbed : frozenset of str
        Keys of those of which a time is disturbed (`disturbed.disturbed`).
    """

    engine: str
    against: str
    ratios: dict[str, float]
    disturbed: frozenset[str] = frozenset()

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form: how the ratios are distributed."""
        values = sorted(self.ratios.values())
        steady = [ratio for key, ratio in self.ratios.items() if key not in self.disturbed]
        return {
            "engine": self.engine,
            "against": self.against,
            "rows": len(values),
            "geomean": geomean(values),
            "disturbed": len(self.disturbed),
            "geomean_steady": geomean(steady),
            "faster": sum(value < 1 for value in values),
            "above_1_5": sum(value > 1.5 for value in values),
            "above_3": sum(value > 3 for value in values),
            "worst": values[-1],
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """The rows of one op, engine or target.

    Attributes
    ----------
    name : str
    rows : int
    counts : dict of str to int
        Status to rows.
    geomean : float or None
        Of the ratios against the yardstick.
    timed : int
        Rows that have such a ratio.
    """

    name: str
    rows: int
    counts: dict[str, int]
    geomean: float | None
    timed: int

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return asdict(self)


class Report:
    """The facts of a run.

    Parameters
    ----------
    run : Run
    comparison : Comparison, optional
        With earlier runs.
    path : str
        The run's file, as commands name it.
    """

    def __init__(self, run: Run, comparison: Comparison | None = None, *, path: str = "") -> None:
        self.run, self.comparison, self.path = run, comparison, path
        self.rows: Mapping[str, Row] = {row.key: row for row in run.rows}

    @cached_property
    def places(self) -> Mapping[str, int]:
        """By key of a row its place among all."""
        return {key: at for at, key in enumerate(self.rows)}

    @cached_property
    def counts(self) -> dict[str, int]:
        """Status to rows, in the order of `STATUSES`."""
        return _counts(self.run.rows)

    @cached_property
    def engines(self) -> tuple[str, ...]:
        """Engines, the one to judge first, as on the command line."""
        return tuple(dict.fromkeys(row.engine for row in self.run.rows))

    @cached_property
    def _timed(self) -> Sequence[Mapping[str, Row]]:
        """Of each problem the rows by engine whose results are right and that have times."""
        found: dict[tuple[str, str, str], dict[str, Row]] = {}
        for row in self.run.rows:
            if row.status == "ok" and rounds_of(row):
                found.setdefault(problem_of(row), {})[row.engine] = row
        return tuple(found.values())

    @cached_property
    def disturbed(self) -> frozenset[str]:
        """Keys of the rows whose times are disturbed."""
        rows = self.run.rows
        return frozenset(r.key for r in rows if r.times is not None and disturbed(r.times))

    def disturbance(self) -> dict[str, Any]:
        """Return how many timed rows are disturbed, and the machine's load at each header."""
        timed = sum(row.times is not None for row in self.run.rows)
        load = [h.machine["load"] for h in self.run.headers if "load" in h.machine]
        return {"rows": len(self.disturbed), "timed": timed, "load": load}

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """Each engine against each later one, where both were timed on the same problem."""
        found = []
        for engine, against in combinations(self.engines, 2):
            both = [rows for rows in self._timed if engine in rows and against in rows]
            ratios = {rows[engine].key: _ratio(rows[engine], rows[against]) for rows in both}
            off = {
                rows[engine].key
                for rows in both
                if self.disturbed & {rows[engine].key, rows[against].key}
            }
            if ratios:
                about = {"engine": engine, "against": against}
                found.append(Pair(**about, ratios=ratios, disturbed=frozenset(off)))
        return tuple(found)

    @cached_property
    def ratios(self) -> Mapping[str, tuple[float, str]]:
        """By key of a row: its time by the yardstick's, and who that is."""
        found: dict[str, tuple[float, str]] = {}
        for rows in self._timed:
            for engine, row in rows.items():
                against = yardstick(self.engines, engine)
                if against is not None and against in rows:
                    found[row.key] = (_ratio(row, rows[against]), against)
        return found

    def by(self, of: Callable[[Row], str]) -> list[Summary]:
        """Return summaries of the rows by what a function says of each."""
        groups: dict[str, list[Row]] = {}
        for row in self.run.rows:
            groups.setdefault(of(row), []).append(row)
        found = []
        for name in sorted(groups):
            rows = groups[name]
            ratios = [self.ratios[row.key][0] for row in rows if row.key in self.ratios]
            found.append(
                Summary(
                    name=name,
                    rows=len(rows),
                    counts=_counts(rows),
                    geomean=geomean(ratios),
                    timed=len(ratios),
                )
            )
        return found

    def broken(self) -> list[Row]:
        """Return the rows of which something is broken here, then the problems that are invalid."""
        order = {status: at for at, status in enumerate(STATUSES)}
        rows = (row for row in self.run.rows if row.status in FAILED or row.status == "invalid")
        return sorted(rows, key=lambda row: (row.status == "invalid", order[row.status]))

    def largest_errors(self) -> list[tuple[Row, float]]:
        """Return rows with their largest error in units of what is allowed, the worst first."""
        found = [
            (row, row.check.of_bound)
            for row in self.run.rows
            if row.check is not None and row.check.of_bound
        ]
        return sorted(found, key=lambda pair: -pair[1])[:_LISTED]

    def longest_times(self) -> list[tuple[Row, float, float | None]]:
        """Return right rows with their median time in microseconds and share of the roofline.

        The longest first; the share is None where the machine's limits are not known.
        """
        found = [
            (row, row.times.median_us, row.work.roofline if row.work is not None else None)
            for row in self.run.rows
            if row.status == "ok" and row.times is not None
        ]
        return sorted(found, key=lambda told: -told[1])[:_LISTED]

    def slowest_ratios(self) -> list[tuple[Row, float, str]]:
        """Return rows with their time by the yardstick's, and its name; the slowest first."""
        found = sorted(self.ratios.items(), key=lambda item: -item[1][0])[:_LISTED]
        return [(self.rows[key], ratio, against) for key, (ratio, against) in found if ratio > 1]

    def regressions(self) -> list[RowChange]:
        """Return what is slower, gone or has got another status, slower ones first."""
        if self.comparison is None:
            return []
        bad = [c for c in self.comparison.changes if regressed(c, FAIL_ON)]

        def how_bad(change: RowChange) -> float:
            return -change.told.ratio if change.told is not None else 0.0

        return sorted(bad, key=how_bad)

    def failed_on(self, kinds: Sequence[str]) -> list[str]:
        """Return the keys of rows for which a report shall fail.

        Parameters
        ----------
        kinds : sequence of str
            Of `FAIL_ON`.  With a baseline a status counts where the row did not have it before;
            without one in every row.
        """
        if self.comparison is None:
            return [row.key for row in self.run.rows if row.status in kinds]
        return [c.key for c in self.comparison.changes if regressed(c, kinds)]

    def command(self, row: Row) -> str:
        """Return the command line that does a row again."""
        return command_of(row)

    def as_dict(self) -> dict[str, Any]:
        """Return what ``--json`` prints."""
        return {
            "run": self.path,
            "rows": len(self.run.rows),
            "cut": self.run.cut,
            "counts": self.counts,
            "disturbed": self.disturbance(),
            "geomean": {f"{p.engine}/{p.against}": p.as_dict()["geomean"] for p in self.pairs},
            "pairs": [pair.as_dict() for pair in self.pairs],
            "by": {name: [one.as_dict() for one in self.by(of)] for name, of in SUMMARISED.items()},
            "worst": {
                "broken": [self._brief(row) for row in self.broken()[:_LISTED]],
                "errors": [self._brief(row, of_bound=e) for row, e in self.largest_errors()],
                "times": [
                    self._timed_brief(row, median_us=us, roofline=share)
                    for row, us, share in self.longest_times()
                ],
                "ratios": [
                    self._timed_brief(row, ratio=ratio, against=against)
                    for row, ratio, against in self.slowest_ratios()
                ],
            },
            "baseline": self._compared(),
        }

    def _compared(self) -> dict[str, Any] | None:
        found = self.comparison
        if found is None:
            return None
        return {
            "alike": found.alike,
            "counts": found.counts(),
            "geomean": found.geomean,
            "scatters": {group: asdict(one) for group, one in found.scatters.items()},
            "changes": [change_as_dict(c) for c in found.changes if c.verdict != "same"],
        }

    def _timed_brief(self, row: Row, **more: object) -> dict[str, Any]:
        return self._brief(row, **more, disturbed=row.key in self.disturbed)

    def _brief(self, row: Row, **more: object) -> dict[str, Any]:
        about = {name: getattr(row, name) for name in ("key", "case", "status", "detail")}
        return {**about, **more, "command": self.command(row)}


SUMMARISED: dict[str, Callable[[Row], str]] = {
    "op": lambda row: row.op,
    "engine": lambda row: row.engine,
    "target": lambda row: row.target,
    "dtype": lambda row: row.dtype,
}
"""What rows are counted by."""


def change_as_dict(change: RowChange) -> dict[str, Any]:
    """Return the JSON form of a change; numbers are those of the change that decides."""
    told = change.told
    numbers = {name: getattr(told, name) for name in ("ratio", "low", "high", "p")} if told else {}
    names = ("key", "verdict", "before", "after", "before_us", "after_us", "against")
    return {**{name: getattr(change, name) for name in names}, **numbers}


def command_of(row: Row) -> str:
    """Return the command line that does a row again, for a shell, into a run of its own."""
    words = ["hipdnn-iree", "sweep", row.suite, "--case", f"^{re.escape(row.case)}$"]
    words += ["--engines", row.engine, "--targets", row.target]
    words += ["--perf"] if row.times is not None else []
    words += ["--emulate"] if row.emulated else []
    return f'{shlex.join(words)} -o "$(mktemp -u)"'


def _counts(rows: Sequence[Row]) -> dict[str, int]:
    found = Counter(row.status for row in rows)
    return {status: found[status] for status in STATUSES if found[status]}


def _ratio(ours: Row, theirs: Row) -> float:
    """Return the ratio of times: in the same rounds, or of medians where rounds are others."""
    mine, other = rounds_of(ours), rounds_of(theirs)
    return paired_ratio(mine, other) if len(mine) == len(other) else median(mine) / median(other)
