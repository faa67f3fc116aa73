# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The columns of a report's table, and how their values are embedded in its page."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .report import Report
from .row import Row

__all__ = ["COLUMNS", "Column", "embedded"]

_DIGITS = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """A fact of a row.

    Attributes
    ----------
    name : str
    label : str
        Heading, with the unit.
    about : str
        What it is, for a tooltip.
    of : callable
        From the report and a row to text, a number, or None.
    hidden : bool
        Whether it only shows when a row is opened.
    """

    name: str
    label: str
    about: str = ""
    of: Callable[[Report, Row], Any]
    hidden: bool = False


def _row(name: str, label: str, about: str = "", *, hidden: bool = False) -> Column:
    return Column(
        name=name, label=label, about=about, hidden=hidden, of=lambda _, row: getattr(row, name)
    )


def _part(
    part: str, name: str, label: str, about: str = "", *, scale: float = 1, hidden: bool = False
) -> Column:
    """Return a column of a number in one of a row's parts."""

    def of(_: Report, row: Row) -> Any:
        value = getattr(getattr(row, part), name, None)
        return value * scale if value is not None and scale != 1 else value

    return Column(name=name, label=label, about=about, of=of, hidden=hidden)


def _ratio(report: Report, row: Row) -> float | None:
    found = report.ratios.get(row.key)
    return found[0] if found is not None else None


def _against(report: Report, row: Row) -> str:
    found = report.ratios.get(row.key)
    return found[1] if found is not None else ""


def _verdict(report: Report, row: Row) -> str:
    change = report.comparison.by_key.get(row.key) if report.comparison is not None else None
    return change.verdict if change is not None else ""


def _change(report: Report, row: Row) -> float | None:
    change = report.comparison.by_key.get(row.key) if report.comparison is not None else None
    return change.told.ratio if change is not None and change.told is not None else None


def _spaced(name: str) -> Callable[[Report, Row], str]:
    return lambda _, row: " ".join(getattr(row, name))


def _knobs(_: Report, row: Row) -> str:
    return " ".join(f"{name}={value}" for name, value in row.knobs.items())


def _disturbed(report: Report, row: Row) -> str:
    return "disturbed" if row.key in report.disturbed else ""


COLUMNS: tuple[Column, ...] = (
    _row("status", "status"),
    _row("case", "case"),
    _row("op", "op"),
    _row("dtype", "type"),
    _row("engine", "engine"),
    _row("target", "target"),
    _part("times", "median_us", "time, µs", "median of all calls"),
    _part("times", "spread", "spread, %", "half the distance of the quartiles", scale=100),
    Column(name="disturbed", label="disturbed", about="rounds differ widely: a busy machine",
           of=_disturbed),
    Column(name="ratio", label="ratio", about="time by the yardstick's, same rounds", of=_ratio),
    Column(name="change", label="now / before", about="time by the baseline's", of=_change),
    Column(name="verdict", label="change", about="since the baseline", of=_verdict),
    _part("check", "of_bound", "error / bound", "largest error in units of the allowed one"),
    _part("work", "tflops", "TFLOP/s"),
    _part("work", "gbytes_per_s", "GB/s"),
    _part("work", "roofline", "roofline, %", "least possible time by the median", scale=100),
    _part("compile", "total_s", "build, s", "from the graph to a plan"),
    _part("code", "dispatches", "dispatches", "kernels that one execution starts"),
    _part("code", "spills", "spills", "registers of gfx9 kernels that did not fit"),
    Column(name="rules", label="rules", about="that decline it or that it breaks",
           of=_spaced("rules")),
    _row("detail", "detail"),
    Column(name="against", label="yardstick", of=_against, hidden=True),
    _part("times", "best_us", "fastest call, µs", hidden=True),
    _part("times", "cold_us", "time with cold caches, µs", hidden=True),
    _part("times", "calls", "calls", hidden=True),
    _part("check", "method", "checked by", hidden=True),
    _part("check", "data", "data", hidden=True),
    _part("check", "elements", "elements", hidden=True),
    _part("check", "bad", "wrong elements", hidden=True),
    _part("check", "max_abs", "largest absolute error", hidden=True),
    _part("check", "max_rel", "largest relative error", hidden=True),
    _part("compile", "cache", "cache", hidden=True),
    _part("compile", "module_bytes", "module, bytes", hidden=True),
    _part("code", "transient_bytes", "workspace, bytes", hidden=True),
    _part("code", "registers", "registers", hidden=True),
    _part("code", "lds_bytes", "LDS, bytes", hidden=True),
    _part("code", "mfma", "MFMA instructions", hidden=True),
    _part("work", "flops", "operations", hidden=True),
    _part("work", "bytes", "bytes", "of inputs and outputs", hidden=True),
    _part("work", "peak_tflops", "the machine's TFLOP/s", hidden=True),
    _part("work", "peak_gbytes_per_s", "the machine's GB/s", hidden=True),
    _part("work", "no_roofline", "why there is no share of the roofline", hidden=True),
    _row("device", "device", hidden=True),
    Column(name="knobs", label="knobs", of=_knobs, hidden=True),
    Column(name="tags", label="tags", of=_spaced("tags"), hidden=True),
    _row("source", "from", hidden=True),
    _row("digest", "digest of the graph", hidden=True),
    _row("seconds", "whole row, s", hidden=True),
    _row("at", "at", hidden=True),
    Column(name="command", label="again", of=lambda report, row: report.command(row), hidden=True),
)  # fmt: skip


def embedded(report: Report) -> dict[str, Any]:
    """Return the rows by columns, as the page's script reads them.

    Returns
    -------
    dict
        ``rows``, their number; ``columns``, of each that has a value ``name``, ``label``,
        ``about``, ``hidden`` and either ``values``, or ``texts`` and for each row an index ``at``
        of one of them.  Numbers have four digits.
    """
    rows = report.run.rows
    columns = []
    for column in COLUMNS:
        values = [_plain(column.of(report, row)) for row in rows]
        if any(value is not None and value != "" for value in values):
            about = {key: getattr(column, key) for key in ("name", "label", "about", "hidden")}
            columns.append({**about, **_compact(values)})
    return {"rows": len(rows), "columns": columns}


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    return value


def _compact(values: Sequence[Any]) -> dict[str, Any]:
    """Return texts with an index for each row where that is shorter, else the values."""
    if not any(isinstance(value, str) for value in values):
        return {"values": list(values)}
    texts = list(dict.fromkeys(value or "" for value in values))
    if len(texts) > len(values) / 2:
        return {"values": [value or "" for value in values]}
    places = {text: at for at, text in enumerate(texts)}
    return {"texts": texts, "at": [places[value or ""] for value in values]}
