# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A report as one HTML file that needs no network: tables as text, charts and a table by script.

Summaries, changes and the worst rows are plain HTML and can be read without a script.  The rows
are embedded as JSON; ``report_page/report.js`` makes the table and the charts of them.  Names in a
run are text of others: here they are escaped, there they only become text nodes; the page's policy
forbids every other script.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import Any, NamedTuple

from .report import SUMMARISED, Report
from .report_columns import embedded
from .row import STATUSES, Row

__all__ = ["page"]

_MOST_CHANGES = 500  # in the list of what has changed; the table has all


def page(report: Report) -> str:
    """Return the page of a report."""
    style, script = (_text(f"report.{kind}") for kind in ("css", "js"))
    policy = f"default-src 'none'; style-src {_allowed(style)}; script-src {_allowed(script)}"
    title = f"Sweep {report.path or report.run.headers[0].created}"
    # A JSON string may hold what ends a script or begins a comment.
    data = json.dumps(embedded(report), separators=(",", ":"), allow_nan=False)
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title><style>{style}</style></head><body>",
            f"<header><h1>{escape(title)}</h1>{_conditions(report)}</header><main>",
            *_sections(report),
            _text("body.html"),
            "</main>",
            f'<script type="application/json" id="data">{data.replace("<", chr(92) + "u003c")}'
            "</script>",
            f"<script>{script}</script></body></html>\n",
        ]
    )


def _text(name: str) -> str:
    return files(__package__).joinpath("report_page", name).read_text(encoding="utf-8")


def _allowed(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _conditions(report: Report) -> str:
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
    cut = f'<p class="bad" role="alert">{escape(report.run.cut)}</p>' if report.run.cut else ""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<p>{count}</p>{cut}<details><summary>Conditions</summary><ul>{items}</ul></details>"


def _sections(report: Report) -> Iterable[str]:
    """Yield what can be read without a script."""
    yield _section("Summary", _pairs(report), *(_by(report, name) for name in SUMMARISED))
    if report.comparison is not None:
        yield _section("Since the baseline", *_changes(report))
    yield _section("Worst rows", *_worst(report))


def _section(title: str, *parts: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{''.join(filter(None, parts))}</section>"


def _by(report: Report, name: str) -> str:
    statuses = [status for status in STATUSES if status in report.counts]
    rows = [
        [
            _Filter(name, one.name),
            one.rows,
            *(one.counts.get(status) for status in statuses),
            one.geomean,
            one.timed or None,
        ]
        for one in report.by(SUMMARISED[name])
    ]
    headers = [name, "rows", *statuses, "geomean of ratios", "with ratio"]
    return _table(f"by {name}", headers, rows, fold=len(rows) > 40)


def _pairs(report: Report) -> str:
    rows = []
    for pair in report.pairs:
        about = pair.as_dict()
        numbers = (about[key] for key in ("rows", "geomean", "faster", "above_1_5", "above_3"))
        rows.append([f"{pair.engine} / {pair.against}", *numbers, about["worst"]])
    headers = ["time of", "rows", "geomean", "faster", "above 1.5", "above 3", "worst"]
    return _table("engines against each other", headers, rows)


def _changes(report: Report) -> Iterable[str]:
    found = report.comparison
    assert found is not None
    counts = ", ".join(f"{count:,} {verdict}" for verdict, count in found.counts().items())
    how = "times and ratios" if found.alike else "ratios only, the machines differ"
    yield f"<p>{escape(counts)}. Compared by {how}.</p>"
    headers = ["engine, target", "rows", "median now / before", "scatter, %", "told from"]
    scatters = [
        [group.replace("|", ", "), one.rows, one.shift, 100 * one.scatter, one.threshold]
        for group, one in found.scatters.items()
    ]
    yield _table("how times of all rows lie", headers, scatters, fold=True)
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
                _Code(report.command(row)) if row else "",
            ]
        )
    headers = ["row", "change", "before, µs", "now, µs", "now / before", "95 % interval"]
    yield _table("what got worse", [*headers, "by time of", "detail", "again"], rows)
    if len(bad) > len(rows):
        yield f"<p>{len(bad) - len(rows):,} more are in the table below.</p>"


def _worst(report: Report) -> Iterable[str]:
    broken = report.broken()
    yield _table(
        "broken",
        ["row", "status", "detail", "again"],
        [[_link(report, row), row.status, row.detail, _again(report, row)] for row in broken[:50]],
    )
    if len(broken) > 50:
        yield f"<p>{len(broken) - 50:,} more are in the table below.</p>"
    yield _table(
        "largest errors",
        ["row", "error / bound", "largest relative error", "wrong elements", "again"],
        [
            [_link(report, row), of, row.check.max_rel, row.check.bad, _again(report, row)]
            for row, of in report.largest_errors()
            if row.check is not None
        ],
        fold=True,
    )
    yield _table(
        "slowest against the yardstick",
        ["row", "ratio", "by time of", "time, µs", "again"],
        [
            [_link(report, row), ratio, against, row.times.median_us, _again(report, row)]
            for row, ratio, against in report.slowest_ratios()
            if row.times is not None
        ],
        fold=True,
    )


class _Code(NamedTuple):
    """Text set as code."""

    text: str


class _Link(NamedTuple):
    """A row's key, and its place in the run."""

    key: str
    at: int


class _Filter(NamedTuple):
    """A column and a value that the table can be filtered by."""

    column: str
    value: str


def _link(report: Report, row: Row) -> _Link:
    return _Link(row.key, report.places[row.key])


def _again(report: Report, row: Row) -> _Code:
    return _Code(report.command(row))


def _table(title: str, headers: Sequence[str], rows: Sequence[Sequence[Any]], *,
           fold: bool = False) -> str:  # fmt: skip
    """Return a table; nothing without rows."""
    if not rows:
        return ""
    right = [any(isinstance(row[i], int | float) for row in rows) for i in range(len(headers))]
    head = "".join(
        f'<th scope="col"{_class(number)}>{escape(text)}</th>'
        for text, number in zip(headers, right, strict=True)
    )
    body = "".join(
        f"<tr>{''.join(f'<td{_class(n)}>{_cell(c)}</td>' for c, n in zip(row, right, strict=True))}"
        "</tr>"
        for row in rows
    )
    caption = f"{escape(title)} ({len(rows)})"
    table = (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(title)}"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
    return f"<details{'' if fold else ' open'}><summary>{caption}</summary>{table}</details>"


def _class(number: bool) -> str:
    return ' class="n"' if number else ""


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, _Link):
        return f'<a href="#row-{value.at}">{escape(value.key)}</a>'
    if isinstance(value, _Filter):
        name, text = map(escape, value)
        return f'<a href="#rows" data-filter="{name}" data-value="{text}">{text or "none"}</a>'
    if isinstance(value, _Code):
        return f"<code>{escape(value.text)}</code>"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else escape(str(value))
