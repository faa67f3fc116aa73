# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A report as one HTML file that needs no network: tables as text, charts and a table by script.

Summaries, changes and the worst rows are plain HTML and can be read without a script.  The rows
are embedded as JSON; ``report_page/report.js`` makes the table and the charts of them.  Names in a
run are text of others: here they are escaped, there they only become text nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files

from ..pages.markup import Markup, element, join
from ..pages.page import code, document, section, table
from .disturbed import in_words
from .report import SUMMARISED, Report
from .report_columns import embedded
from .row import STATUSES, Row

__all__ = ["page"]

_MOST_CHANGES = 500  # in the list of what has changed; the table has all


def page(report: Report) -> str:
    """Return the page of a report."""
    return document(
        f"Sweep {report.path or report.run.headers[0].created}",
        *_sections(report),
        Markup(_text("body.html")),
        header=_conditions(report),
        script=_text("report.js"),
        data=embedded(report),
    )


def _text(name: str) -> str:
    return files(__package__).joinpath("report_page", name).read_text(encoding="utf-8")


def _conditions(report: Report) -> Markup:
    """Return when and where the run was made."""
    lines = []
    for header in report.run.headers:
        machine = ", ".join(
            f"{key} {value}" for key, value in header.machine.items() if value not in ("", [], None)
        )
        versions = ", ".join(f"{key} {value}" for key, value in header.versions.items() if value)
        lines += [f"{header.created}: {' '.join(header.argv)}", f"machine: {machine}"]
        lines += [f"versions: {versions}"]
    count = f"{len(report.run.rows):,} rows"
    cut = element("p", report.run.cut, class_="bad", role="alert") if report.run.cut else None
    items = element("ul", *(element("li", line) for line in lines))
    return join(
        [
            element("p", count),
            cut,
            element("details", element("summary", "Conditions"), items),
        ]
    )


def _sections(report: Report) -> Iterable[Markup]:
    """Yield what can be read without a script."""
    said = in_words(**report.disturbance())
    about = element("p", said, class_="bad", role="note") if said else Markup("")
    yield section("Summary", about, _pairs(report), *(_by(report, name) for name in SUMMARISED))
    if report.comparison is not None:
        yield section("Since the baseline", *_changes(report))
    yield section("Worst rows", *_worst(report))


def _by(report: Report, name: str) -> Markup:
    statuses = [status for status in STATUSES if status in report.counts]
    rows = [
        [
            _filter(name, one.name),
            one.rows,
            *(one.counts.get(status) for status in statuses),
            one.geomean,
            one.timed or None,
        ]
        for one in report.by(SUMMARISED[name])
    ]
    headers = [name, "rows", *statuses, "geomean of ratios", "with ratio"]
    return table(f"by {name}", headers, rows, fold=len(rows) > 40)


def _pairs(report: Report) -> Markup:
    rows = []
    for pair in report.pairs:
        about = pair.as_dict()
        names = ["rows", "geomean", "faster", "above_1_5", "above_3", "worst"]
        names += ["disturbed", "geomean_steady"] if report.disturbed else []
        rows.append([f"{pair.engine} / {pair.against}", *(about[name] for name in names)])
    headers = ["time of", "rows", "geomean", "faster", "above 1.5", "above 3", "worst"]
    headers += ["disturbed", "geomean without those"] if report.disturbed else []
    return table("engines against each other", headers, rows)


def _changes(report: Report) -> Iterable[Markup]:
    found = report.comparison
    assert found is not None
    counts = ", ".join(f"{count:,} {verdict}" for verdict, count in found.counts().items())
    how = "times and ratios" if found.alike else "ratios only, the machines differ"
    yield element("p", f"{counts}. Compared by {how}.")
    headers = ["engine, target", "rows", "median now / before", "scatter, %"]
    headers += ["of rows against themselves, %", "told from"]
    scatters = [
        [
            name.replace("|", ", "),
            of.rows,
            of.shift,
            100 * of.scatter,
            100 * of.unrest,
            of.told_from,
        ]
        for name, of in found.scatters.items()
    ]
    yield table("how times of all rows lie", headers, scatters, fold=True)
    bad = report.regressions()
    rows = []
    for change in bad[:_MOST_CHANGES]:
        row, told = report.rows.get(change.key), change.told
        rows.append(
            [
                _link(report, row) if row else change.key,
                change.verdict,
                change.before_us,
                change.after_us,
                told and told.ratio,
                f"{told.low:.3f} to {told.high:.3f}" if told and told.low and told.high else "",
                change.against,
                row and row.detail,
                code(report.command(row)) if row else "",
            ]
        )
    headers = ["row", "change", "before, µs", "now, µs", "now / before", "95 % interval"]
    yield table("what got worse", [*headers, "by time of", "detail", "again"], rows)
    if len(bad) > len(rows):
        yield element("p", f"{len(bad) - len(rows):,} more are in the table below.")


def _worst(report: Report) -> Iterable[Markup]:
    broken = report.broken()
    yield table(
        "broken",
        ["row", "status", "detail", "again"],
        [[_link(report, row), row.status, row.detail, _again(report, row)] for row in broken[:50]],
    )
    if len(broken) > 50:
        yield element("p", f"{len(broken) - 50:,} more are in the table below.")
    yield table(
        "largest errors",
        ["row", "error / bound", "largest relative error", "wrong elements", "again"],
        [
            [_link(report, row), of, row.check.max_rel, row.check.bad, _again(report, row)]
            for row, of in report.largest_errors()
            if row.check is not None
        ],
        fold=True,
    )
    yield table(
        "longest times",
        ["row", "time, µs", "% of the roofline", "again"],
        [
            [_link(report, row), us, share and 100 * share, _again(report, row)]
            for row, us, share in report.longest_times()
        ],
        fold=bool(report.pairs),
    )
    yield table(
        "slowest against the yardstick",
        ["row", "ratio", "by time of", "time, µs", "again"],
        [
            [_link(report, row), ratio, against, row.times.median_us, _again(report, row)]
            for row, ratio, against in report.slowest_ratios()
            if row.times is not None
        ],
        fold=True,
    )


def _link(report: Report, row: Row) -> Markup:
    """Return a row's key, which opens it."""
    return element("a", row.key, href=f"#row-{report.places[row.key]}")


def _filter(column: str, value: str) -> Markup:
    """Return a value, which the table is filtered by."""
    return element("a", value or "none", href="#rows", data_filter=column, data_value=value)


def _again(report: Report, row: Row) -> Markup:
    return code(report.command(row))
