# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree sweep regret``: how much slower default strategies are than the best ones."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from ...graph_api.errors import SettingError
from .options import Command, State
from .output import count, emit, say, table, talk

__all__ = ["command"]

JSON: dict[str, str] = {
    "run, cut": "file; where and why reading ended before the file did, or null",
    "cases": "`case`, `dtype`, `target`, `default`, `best` (empty: none is faster), `default_us`, "
    "`best_us`, `ratio`; the largest ratio first",
    "within_1.1, within_2.0": "part of the cases whose ratio is at most that",
    "geomean": "of the ratios",
}


@click.command("regret", cls=Command)
@click.argument("run", metavar="RUN")
@click.option(
    "--above",
    type=click.FloatRange(min=1.0),
    default=1.0,
    show_default=True,
    help="List the cases whose ratio is above this; the summary is of all.",
)
@click.pass_obj
def command(state: State, run: str, above: float) -> None:
    """Print the time of the default strategies over that of the best ones, case by case.

    RUN is of `sweep --strategies --perf`.  The ratio is the median over the rounds; of the best of
    several strategies it is above 1 by the noise of their times.
    """
    from ..sweep.regret import LIMITS, regrets, shares
    from ..sweep.row import read_run
    from .files import file_errors

    with file_errors(run):
        read = read_run(Path(run))
    if read.cut is not None:
        talk(f"warning: read up to {read.cut}")
    found = regrets(read.rows)
    if not found:
        raise SettingError(
            f"{run} has no case with times of several strategies; "
            "'hipdnn-iree sweep SUITE --strategies --perf' makes such a run"
        )
    listed, about = [one for one in found if one.ratio >= above], shares(found)
    if state.json:
        emit({"run": run, "cut": read.cut, "cases": [asdict(one) for one in listed], **about})
        return
    table(
        ["case", "type", "default", "us", "best", "us", "ratio"],
        [
            (r.case, r.dtype, r.default, r.default_us, r.best or "-", r.best_us, r.ratio)
            for r in listed
        ],
    )
    kept = ", ".join(f"{about[f'within_{limit}']:.0%} within {limit}" for limit in LIMITS)
    say(f"{count(len(found), 'case', 'cases')}: {kept}, geometric mean {about['geomean']:.3f}")
