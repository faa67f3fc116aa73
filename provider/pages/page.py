# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pages and their parts: one look, one style sheet, no script of others and no network.

Everything that is shown is escaped by `markup`, whatever a graph or a file calls itself; the
policy of a page also forbids every script but its own.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from ..units import number_text
from .diagram import Diagram, svg
from .markup import Markup, element, join, visible

__all__ = [
    "alone",
    "code",
    "document",
    "facts",
    "fragment",
    "long_text",
    "picture",
    "section",
    "status",
    "table",
    "text_of",
]

_ALONE = "svg.diagram { color-scheme: light dark; }\n"


@cache
def text_of(name: str) -> str:
    """Return a file that lies beside this module."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _style() -> str:
    return text_of("style.css") + text_of("picture.css")


def document(
    title: str, *parts: object, header: object = None, script: str = "", data: Any = None
) -> str:
    """Return a page.

    Parameters
    ----------
    title : str
    *parts : Markup or str
        What is in it, one after the other.
    header : Markup or str, optional
        Below the title.
    script : str
        The only script that the page's policy allows; it finds ``data`` in the element ``#data``.
    data : object, optional
        JSON types.
    """
    style = _style()
    policy = f"default-src 'none'; style-src {_digest(style)}"
    policy += f"; script-src {_digest(script)}" if script else ""
    scripts = []
    if script:
        # A JSON string may hold what ends a script or begins a comment.
        text = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
        scripts = [
            element("script", Markup(text), type="application/json", id="data"),
            element("script", Markup(script)),
        ]
    head = element(
        "head",
        element("meta", charset="utf-8"),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{join(policy)}">'),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", Markup(style)),
    )
    body = element(
        "body",
        element("header", element("h1", title), header),
        element("main", *parts),
        *scripts,
        class_="hipdnn-iree",
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _digest(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def fragment(*parts: object) -> str:
    """Return what a notebook shows of an object; it brings the style sheet along."""
    return element("div", element("style", Markup(_style())), *parts, class_="hipdnn-iree")


def section(title: str, *parts: object) -> Markup:
    """Return a part of a page with its heading; nothing without contents."""
    inner = join(parts)
    return element("section", element("h2", title), inner) if inner else Markup()


def picture(diagram: Diagram) -> Markup:
    """Return a diagram as a part of a page, which scrolls where it is large."""
    return element("div", svg(diagram), class_="picture", tabindex=0, role="region",
                   aria_label=visible(diagram.title))  # fmt: skip


def alone(diagram: Diagram) -> str:
    """Return a diagram as an SVG file."""
    return f"{svg(diagram, style=_ALONE + text_of('picture.css'))}\n"


def code(text: str) -> Markup:
    """Return text set as code."""
    return element("code", text)


def status(word: str, *, as_: str = "") -> Markup:
    """Return a word in the colour of what it says, or of the word ``as_``."""
    return element("span", word, class_=f"status-{(as_ or word).replace(' ', '-')}")


class _Long(Markup):
    """What is broken into lines in a table."""

    __slots__ = ()


def long_text(text: object) -> Markup:
    """Return a cell whose text may have several lines."""
    return _Long(join(text))


def facts(rows: Sequence[tuple[str, object]]) -> Markup:
    """Return labels with what they say; those that say nothing are left out."""
    said = [(label, value) for label, value in rows if value is not None and value != ""]
    lines = [
        element("tr", element("th", label, scope="row"), element("td", _shown(value)))
        for label, value in said
    ]
    return element("table", element("tbody", *lines), class_="facts") if said else Markup()


def table(
    title: str, headers: Sequence[str], rows: Sequence[Sequence[object]], *, fold: bool = False
) -> Markup:
    """Return a table with its caption, under which it folds; nothing without rows.

    Columns with numbers are aligned to the right.
    """
    if not rows:
        return Markup()
    right = [any(isinstance(row[i], int | float) for row in rows) for i in range(len(headers))]
    head = [
        element("th", text, scope="col", class_="n" if number else None)
        for text, number in zip(headers, right, strict=True)
    ]
    body = [
        element("tr", *(_cell(c, number) for c, number in zip(row, right, strict=True)))
        for row in rows
    ]
    inner = element("table", element("thead", element("tr", *head)), element("tbody", *body))
    return element(
        "details",
        element("summary", f"{title} ({len(rows)})"),
        element("div", inner, class_="wide", tabindex=0, role="region", aria_label=title),
        open=not fold,
    )


def _cell(value: object, number: bool) -> Markup:
    kind = "n" if number else "long" if isinstance(value, _Long) else None
    return element("td", _shown(value), class_=kind)


def _shown(value: object) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return number_text(value) if isinstance(value, int | float) else value
