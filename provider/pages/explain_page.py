# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The page of ``hipdnn-iree explain --html``: who serves a graph, and what is decided about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..units import number_text
from .charts import Bar, bars
from .markup import Markup, element
from .page import document, facts, long_text, section, status, table
from .shown import Coloured, drawn_picture

__all__ = ["explain_page"]


def explain_page(about: Mapping[str, Any], found: Coloured, plan: Sequence[str] = ()) -> str:
    """Return the page of what ``explain --json`` prints.

    Parameters
    ----------
    about : mapping
    found : Coloured
        The graph, by the engine that is chosen.
    plan : sequence of str
        What is decided about the code, in lines.
    """
    return document(
        f"Who serves {about['graph']['name'] or 'the graph'} on {about['target']}",
        section("Engines", *_estimates(about), _engines(about)),
        section("Graph", element("p", found.remark, class_="hint"), drawn_picture(found.drawn)),
        section("Dispatches", found.dispatches),
        section("Code", element("pre", "\n".join(plan)) if plan else None),
        header=facts(list(_facts(about))),
    )


def _facts(about: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    chosen, cache = about["chosen"], about["cache"]
    word = "none"
    if chosen is not None:
        knobs = ", ".join(f"{name}={value}" for name, value in chosen["knobs"].items())
        word = f"{chosen['engine']}{f' with {knobs}' if knobs else ''} by {chosen['policy']}"
    yield "chosen", f"{word}: {about['why']}"
    yield "policies", ", ".join(about["policies"])
    yield "digest", about["graph"]["digest"]
    if cache is not None:
        yield "cache", f"{cache['state']}, {cache['key'][:16]} in {cache['root']}"
        yield "served with", cache["attempt"]
        if cache["miss"]:
            yield "why it is missing", element("pre", cache["miss"]["text"])


def _estimates(about: Mapping[str, Any]) -> Iterator[Markup]:
    rows = []
    known = [c for c in about["candidates"] if c["estimate"] is not None]
    for series, one in enumerate(c for c in known if not c["last_resort"]):  # a thousand times more
        us, measured = one["estimate"]["us"], next(iter(one["measured"]), None)
        terms = one["estimate"]["terms_us"].items()
        rows.append(
            Bar(
                label=f"{one['alias']}, estimated",
                value=us,
                text=f"{number_text(us)} µs",
                about="\n".join(f"{name}: {value:.3g} µs" for name, value in terms),
                series=series,
            )
        )
        if measured is not None:
            rows.append(
                Bar(
                    label=f"{one['alias']}, measured",
                    value=measured["median_us"],
                    low=measured["low_us"],
                    high=measured["high_us"],
                    text=f"{number_text(measured['median_us'])} µs",
                    about=f"{measured['samples']} samples, {measured['when']}",
                    series=series,
                )
            )
    yield bars("time of one execution", rows, unit="µs")


def _engines(about: Mapping[str, Any]) -> Markup:
    return table(
        "engines",
        ["engine", "", "estimated, µs", "measured, µs", "knobs, or why it declines"],
        [
            [
                f"{one['engine']} ({one['alias']})",
                status("serves" if one["served"] else "declines"),
                one["estimated_us"],
                one["measured_us"],
                long_text(element("span", *_lines(one))),
            ]
            for one in about["candidates"]
        ],
    )


def _lines(one: Mapping[str, Any]) -> Iterator[object]:
    texts = [reason["text"] for reason in one["reasons"]]
    texts += [f"part for {p['engine']}: {', '.join(p['nodes'])}" for p in one["parts"] or ()]
    texts += [f"{knob['name']}: {', '.join(_choices(knob))}" for knob in one["knobs"]]
    for number, text in enumerate(texts):
        if number:
            yield element("br")
        yield text


def _choices(knob: Mapping[str, Any]) -> Iterator[str]:
    for choice in knob["choices"]:
        yield f"{choice} (default)" if choice == knob["default"] else choice
