# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The page of ``hipdnn-iree bench --html``: engines side by side, case by case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..units import time_text
from .charts import Bar, bars, keys
from .markup import Markup, element
from .page import document, facts, long_text, section, status, table

__all__ = ["bench_page"]


def bench_page(data: Mapping[str, Any]) -> str:
    """Return the page of what ``bench --json`` prints."""
    return document(
        data["title"],
        section("Result", _totals(data)),
        section("Time by that of the baseline", *_chart(data)),
        section("Cases", _cases(data)),
        section("Conditions", _conditions(data)),
    )


def _totals(data: Mapping[str, Any]) -> Markup:
    names, worst = data["engines"], data["worst"]
    pair = f"{names[0]} / {data['baseline']}"
    rows = [
        (f"{pair}, {what}", f"{data[key]:.3f} (fastest calls {data[f'{key}_best']:.3f})")
        for what, key in (("geometric mean", "geomean"), ("of fused cases", "geomean_fused"))
        if data[key] is not None
    ]
    if worst is not None:
        rows.append(("worst", f"{worst['name']}: {worst['ratio']:.2f}"))
    good = status("all are right" if data["ok"] else "NOT all are right",
                  as_="ok" if data["ok"] else "wrong")  # fmt: skip
    return facts([*rows, ("results", good)])


def _chart(data: Mapping[str, Any]) -> Iterator[Markup]:
    base = data["baseline"]
    timed = [case for case in data["cases"] if "median_us" in case["engines"].get(base, {})]
    if not timed:
        return
    yield keys(data["engines"])
    yield bars(
        f"time by that of {base}",
        [bar for case in timed for bar in _bars(case, data["engines"], base)],
        unit=f"× {base}",
        baseline=1.0,
        name=base,
        ratio=True,
    )
    yield element(
        "p",
        f"Medians by that of {base} (dashed); left is faster. Whiskers are half of the range of "
        "the middle half.",
        class_="hint",
    )


def _bars(case: Mapping[str, Any], names: Sequence[str], base: str) -> Iterator[Bar]:
    yield Bar(label=case["name"], heading=True)
    unit = case["engines"][base]["median_us"]
    for series, name in enumerate(names):
        row = case["engines"][name]
        if "median_us" not in row:
            yield Bar(label=name, text=_why_not(row)[:40], series=series)
            continue
        median, spread = row["median_us"] / unit, row["spread"]
        yield Bar(
            label=name,
            value=median,
            low=median * max(1 - spread, 0.01),
            high=median * (1 + spread),
            text=f"{time_text(row['median_us'] / 1e6)} ±{100 * spread:.0f} %"
            + ("" if row.get("ok", True) else ", WRONG"),
            about=f"{case['name']}, {name}\nfastest call {time_text(row['best_us'] / 1e6)}, "
            f"{row['calls']} calls",
            series=series,
        )


def _why_not(row: Mapping[str, Any]) -> str:
    if "declined" in row:
        return "declined " + ", ".join(sorted({d["rule"] for d in row["declined"]}))
    if "error" in row:
        return "failed: " + str(row["error"]).partition("\n")[0]
    return f"WRONG (error {row.get('max_rel_error')})"


def _cases(data: Mapping[str, Any]) -> Markup:
    names = data["engines"]
    rows = []
    for case in data["cases"]:
        first = case["engines"][names[0]]
        rows.append(
            [
                case["name"],
                long_text(" ".join(case["tags"])),
                *(_cell(case["engines"][name]) for name in names),
                case["ratio"],
                case["ratio_best"],
                first.get("dispatches"),
                first.get("transient_bytes"),
                first.get("max_rel_error"),
            ]
        )
    headers = ["case", "tags", *(f"{name}, µs" for name in names), "ratio", "best", "dispatches"]
    return table("cases", [*headers, "workspace, bytes", "max rel error"], rows)


def _cell(row: Mapping[str, Any]) -> object:
    if "median_us" not in row:
        return long_text(status(_why_not(row), as_="declined" if "declined" in row else "failed"))
    right = row.get("ok", True)
    return row["median_us"] if right else status(f"{row['median_us']:.4g} WRONG", as_="wrong")


def _conditions(data: Mapping[str, Any]) -> Markup:
    machine = [
        (key, ", ".join(map(str, value)) if isinstance(value, list) else value)
        for key, value in data["machine"].items()
    ]
    how = [
        ("target", data["target"]),
        ("threads", data["threads"]),
        ("seconds of each", data["seconds"]),
        ("real-time priority", bool(data["realtime"])),
    ]
    return facts([*how, *machine, *data["versions"].items()])
