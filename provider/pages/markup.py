# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""HTML and SVG as text: elements whose attributes and contents are always escaped."""

from __future__ import annotations

import unicodedata
from html import escape

__all__ = ["Markup", "element", "join", "text_width", "visible"]


class Markup(str):
    """Text that is HTML or SVG already; every other text is escaped where it is put in."""

    __slots__ = ()


def element(tag: str, /, *content: object, **attributes: object) -> Markup:
    """Return an element.

    Parameters
    ----------
    tag : str
    *content : Markup or object
        What is inside; None is nothing, and what is no `Markup` is shown as text.
    **attributes : object
        None and False are left out, True stands alone; ``class_`` is ``class``, and ``_`` in a
        name is ``-``.
    """
    written = "".join(
        f" {name.strip('_').replace('_', '-')}" + ("" if value is True else f'="{_value(value)}"')
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    inner = join(content)
    if not inner and tag in _EMPTY:
        return Markup(f"<{tag}{written}>")
    return Markup(f"<{tag}{written}>{inner}</{tag}>")


_EMPTY = {"br", "meta", "link", "img"}


def join(content: object) -> Markup:
    """Return pieces one after the other, escaped where they are no markup."""
    if content is None:
        return Markup()
    if isinstance(content, Markup):
        return content
    if isinstance(content, str | int | float):
        return Markup(_plain(content))
    if isinstance(content, tuple | list):
        return Markup("".join(map(join, content)))
    raise TypeError(f"{type(content).__name__} is neither text nor markup")


def _plain(value: object) -> str:
    return escape(visible(str(value)))


def _value(value: object) -> str:
    """Return what an attribute says: exactly that, as scripts compare it; places to 0.1."""
    return escape(f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value))


def visible(text: str) -> str:
    """Return text without what no document may hold, or what turns the text around it.

    Control characters, halves of surrogate pairs and marks of direction become escapes.
    """
    if text.isprintable():  # nearly always
        return text
    return "".join(
        c if c == "\n" or unicodedata.category(c) not in _HIDDEN
        else c.encode("unicode_escape").decode()
        for c in text
    )  # fmt: skip


# Control and format characters, surrogates, unassigned code points, separators of lines.
_HIDDEN = ("Cc", "Cf", "Cs", "Cn", "Zl", "Zp")


def text_width(text: str, size: float) -> float:
    """Return how wide a text is in a wide sans-serif font of this size, in pixels."""
    ems = 0.0
    for c in text:
        if unicodedata.east_asian_width(c) in "WF":
            ems += 1.0
        elif not unicodedata.combining(c):
            ems += 0.38 if c in _NARROW else 0.98 if c in _WIDE else 0.72 if c.isupper() else 0.64
    return ems * size


_NARROW, _WIDE = frozenset(" ,.:;|'!ijl()[]ft·"), frozenset("MWmw@%—")
