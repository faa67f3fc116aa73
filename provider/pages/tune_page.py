# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The page of ``hipdnn-iree tune --html``: every candidate against the way without tuning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..units import number_text
from .charts import Bar, bars, keys
from .markup import Markup, element
from .page import document, facts, long_text, section, status, table

__all__ = ["tune_page"]


def tune_page(about: Mapping[str, Any]) -> str:
    """Return the page of what ``tune --json`` prints."""
    graphs = about["graphs"]
    title = f"Tuning {graphs[0]['file']}" if len(graphs) == 1 else f"Tuning {len(graphs)} graphs"
    return document(
        title,
        *(_graph(one) for one in graphs),
        header=facts([("remembered in", about["winners"])]),
    )


def _graph(one: Mapping[str, Any]) -> Markup:
    if "error" in one:
        return section(one["file"], element("p", one["error"]["message"], class_="bad"))
    rows = sorted(one["rows"], key=_time)
    name, digest = one["graph"]["name"], one["graph"]["digest"]
    target = f"{one['target']}{', emulated: there are no times' * one['emulated']}"
    return section(
        f"{one['file']} on {target}",
        facts(
            [
                ("graph", f"{name or '(no name)'}, {digest[:16]}"),
                ("took", f"{one['seconds']:.1f} s"),
                ("remembered", bool(one["stored"])),
            ]
        ),
        *_chart(rows, one["winner"]),
        _table(rows, one["winner"]),
    )


def _time(row: Mapping[str, Any]) -> tuple[bool, float]:
    return row["median_us"] is None, row["median_us"] or 0.0


def _chart(rows: Sequence[Mapping[str, Any]], winner: Any) -> Iterator[Markup]:
    timed = [row for row in rows if row["median_us"] is not None]
    engines = list(dict.fromkeys(row["engine"] for row in timed))
    # What there is without tuning: the fastest engine as it is.
    plain = next((row for row in timed if not row["knobs"]), None)
    base = None if plain is None else plain["median_us"]
    chart = bars(
        "time of each candidate",
        [
            Bar(
                label=_title(row),
                value=row["median_us"],
                low=row["low_us"],
                high=row["high_us"],
                text=f"{number_text(row['median_us'])} µs"
                + (f", ×{row['median_us'] / base:.2f}" if base else "")
                + (", winner" if row == winner else ""),
                about=f"quartiles {row['low_us']:.4g} to {row['high_us']:.4g} µs, "
                f"{row['samples']} samples",
                series=engines.index(row["engine"]),
            )
            for row in timed
        ],
        unit="µs",
        baseline=base,
        name="the fastest engine with its defaults",
    )
    if chart:
        yield keys(engines)
        yield chart
        text = "Medians, with the quartiles as whiskers."
        text += " The dashed line is the fastest engine with its defaults." if base else ""
        yield element("p", text, class_="hint")


def _title(row: Mapping[str, Any]) -> str:
    return f"{row['engine']} {_knobs(row)}"


def _knobs(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in row["knobs"].items()) or "defaults"


def _table(rows: Sequence[Mapping[str, Any]], winner: Any) -> Markup:
    return table(
        "candidates",
        ["engine", "knobs", "result", "median, µs", "low", "high", "noise, %", "samples",
         "max rel error", "build, s", "reason"],
        [
            [
                row["engine"],
                long_text(_knobs(row)),
                status("winner" if row == winner else row["status"]),
                row["median_us"],
                row["low_us"],
                row["high_us"],
                None if row["noise"] is None else 100 * row["noise"],
                row["samples"],
                row["max_rel_error"],
                row["build_s"],
                long_text(row["reason"]),
            ]
            for row in rows
        ],
    )  # fmt: skip
