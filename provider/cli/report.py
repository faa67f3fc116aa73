# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree report``: what a run says, as text, JSON or a page; for CI what got worse."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...graph_api.errors import SettingError
from ..units import time_text
from .exits import CHECK_FAILED
from .options import Command, State, output_option
from .output import bold, complain, count, emit, number, say, table, talk, working

if TYPE_CHECKING:
    from ..sweep.report import Report
    from ..sweep.row import Row, Run

JSON: dict[str, str] = {
    "run, rows, cut": "file; rows of it; where and why reading ended before the file did, or null",
    "counts": "status to rows",
    "geomean": "by pair of engines (`iree/torch`): geometric mean of the ratios of their times, "
    "each the median over the rounds that both were timed in",
    "disturbed": "`rows` whose rounds differ widely, as something else kept the machine busy "
    "(docs/reports.md), of how many `timed` ones; the machine's `load` when parts of the run began",
    "pairs": "of each pair `engine`, `against`, `rows`, `geomean`, `disturbed` (rows), "
    "`geomean_steady` (of the others), `faster`, `above_1_5`, `above_3` (rows), `worst` (ratio)",
    "by": "`op`, `engine`, `target`, `dtype`: of each value `name`, `rows`, `counts`, `geomean` "
    "of the ratios against the yardstick, `timed` (rows that have one)",
    "worst": "`broken` (invalid problems last), `errors` (with `of_bound`), `times` (the "
    "longest, with `median_us` and `roofline`, their share of it or null) and `ratios` (with "
    "`ratio`, `against`; both with `disturbed`): rows with `key`, `case`, `status`, `detail` and "
    "the `command` that does them again",
    "baseline": "with `--baseline`, else null: `alike` (machines), `counts` of verdicts, "
    "`geomean`, `scatters` (by `engine|target`: `rows`, `shift`, the median of the ratios, "
    "`scatter` of their logarithms, `unrest`, that of rows against themselves in a run, "
    "`threshold` and `highest`, the smallest ratio that is told of the calmest row and of the most "
    "restless one) and `changes` "
    "(`key`, `verdict`, `before`, `after`, `before_us`, `after_us`, `against`, `ratio`, `low`, "
    "`high`, `p`) of the rows that are not the same",
    "failed_on": "keys of the rows for which `--fail-on` fails",
    "page": "file that was written with `-o`, or null",
}


def _kinds(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    from ..sweep.report import FAIL_ON

    kinds = tuple(filter(None, value.split(",")))
    for kind in kinds:
        if kind not in FAIL_ON:
            text = f"{kind!r} is none of {', '.join(FAIL_ON)}"
            raise click.BadParameter(text, ctx=ctx, param=param)
    return kinds


@click.command(cls=Command)
@click.argument("run", metavar="RUN")
@click.option(
    "--baseline",
    "baselines",
    metavar="OLD",
    multiple=True,
    help="An earlier run to compare with; repeatable: what has changed must have done so against "
    "each of them.",
)
@output_option("Write a page (HTML, one file, needs no network).")
@click.option(
    "--fail-on",
    "kinds",
    metavar="KINDS",
    default="",
    callback=_kinds,
    help="End with 1 if there are such rows: slower, gone, wrong, declined, invalid, "
    "compile-error, crash, timeout, out-of-memory, separated by commas.  With a baseline those "
    "count that have become so.",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(min=0, max=10),
    default=0.05,
    show_default=True,
    help="Smaller changes of time are none.",
)
@click.option(
    "--absolute",
    is_flag=True,
    help="Compare times also where the machines differ, not only their ratios.",
)
@click.pass_obj
def command(
    state: State,
    run: str,
    baselines: tuple[str, ...],
    output: str | None,
    kinds: tuple[str, ...],
    tolerance: float,
    absolute: bool,
) -> None:
    """Say what is in RUN: what broke, how engines compare, what changed since a baseline.

    A time has changed if ranks and medians of its rounds say so, the ratio against a yardstick
    that was timed in the same rounds says the same, and it stands out of the scatter of all rows.
    Between unlike machines only ratios are compared.  A run that is still being written, or was cut
    off, is read as far as it goes.  Results of `bench -o FILE` are taken as well.
    """
    if "slower" in kinds and not baselines:
        raise click.UsageError("--fail-on slower wants a --baseline to be slower than")
    from ..sweep.compare_runs import compare_runs
    from ..sweep.report import Report

    found, *older = (_read(path) for path in (run, *baselines))
    comparison = None
    if older:
        with working("comparing"):
            comparison = compare_runs(found, older, tolerance=tolerance, absolute=absolute)
        if comparison.blind and "slower" in kinds:
            raise SettingError(
                "the machines differ, and there is no yardstick that was timed in both runs; "
                "--absolute compares times all the same"
            )
    report = Report(found, comparison, path=run)
    failed = report.failed_on(kinds)
    if output is not None:
        from ..sweep.report_html import page
        from .files import write_page

        write_page(output, page(report))
    if state.json:
        emit({**report.as_dict(), "failed_on": failed, "page": output})
    else:
        _show(report)
    if failed:
        complain(
            f"{count(len(failed), 'row', 'rows')} of --fail-on {','.join(kinds)}: {failed[0]} ..."
        )
        sys.exit(CHECK_FAILED)


def _read(path: str) -> Run:
    from ..sweep.bench_rows import read_results
    from .files import file_errors

    with file_errors(path):
        found = read_results(Path(path))
    if found.cut is not None:
        talk(f"warning: read up to {found.cut}")
    return found


def _mark(report: Report, row: Row) -> str:
    return ", disturbed" if row.key in report.disturbed else ""


def _without(pair: dict[str, Any]) -> str:
    """Return the mean of a pair's rows that are not disturbed, where some are."""
    if not pair["disturbed"]:
        return ""
    left, mean = pair["rows"] - pair["disturbed"], pair["geomean_steady"]
    if mean is None:
        return "; all are disturbed"
    return f"; {number(mean)} of the {left:,} that are not disturbed"


def _show(report: Report) -> None:
    """Print the report for people."""
    from ..sweep.disturbed import in_words

    say(count(len(report.run.rows), "row", "rows") + ": " + _counts(report.counts))
    for pair in report.pairs:
        about = pair.as_dict()
        say(
            f"time of {pair.engine} / {pair.against}: geometric mean {number(about['geomean'])} of "
            f"{count(about['rows'], 'row', 'rows')}, worst {number(about['worst'])}, "
            f"{about['above_3']} above 3{_without(about)}"
        )
    if said := in_words(**report.disturbance()):
        say(said)
    by_op = report.by(lambda row: row.op)
    say()
    statuses = list(report.counts)
    rows = [[s.name, s.rows, *(s.counts.get(x) for x in statuses), s.geomean] for s in by_op]
    table(["op", "rows", *statuses, "geomean"], rows)
    broken = [[row.key, row.status, row.detail] for row in report.broken()[:20]]
    _list("broken", ["row", "status", "detail"], broken)
    longest = [
        [
            row.key,
            time_text(us / 1e6) + _mark(report, row),
            "" if share is None else f"{100 * share:.3g} %",
        ]
        for row, us, share in report.longest_times()[:10]
    ]
    _list("longest times", ["row", "time", "of the roofline"], longest)
    slow = [
        [row.key, ratio, against + _mark(report, row)]
        for row, ratio, against in report.slowest_ratios()[:10]
    ]
    _list("slowest against the yardstick", ["row", "ratio", "by time of"], slow)
    if report.comparison is not None:
        _show_changes(report)


def _show_changes(report: Report) -> None:
    found = report.comparison
    assert found is not None
    say()
    how = "" if found.alike else "; the machines differ: by ratios"
    say(f"since the baseline: {_counts(found.counts())}{how}")
    for group, one in found.scatters.items():
        say(
            f"{group.replace('|', ', ')}: now / before {one.shift:.3f} in the median of {one.rows} "
            f"rows, scatter {100 * one.scatter:.1f} %, of rows against themselves "
            f"{100 * one.unrest:.1f} %; told from {one.told_from} on"
        )
    rows: list[list[Any]] = []
    for change in report.regressions()[:50]:
        told = change.told
        rows.append([change.key, change.verdict, change.before, told.ratio if told else None])
    _list("worse", ["row", "now", "before", "now / before"], rows)


def _list(title: str, headers: list[str], rows: list[list[Any]]) -> None:
    if rows:
        say()
        say(bold(title))
        table(headers, rows)


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{number:,} {name}" for name, number in counts.items()) or "nothing"
