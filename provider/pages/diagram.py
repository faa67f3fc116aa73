# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Diagrams of boxes and arrows, and how they become SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .layers import place
from .markup import Markup, element, text_width

__all__ = ["COLOURS", "MOST_BOXES", "TINTS", "Arrow", "Box", "Diagram", "svg"]

COLOURS = 8
"""How many colours there are for engines; the style sheet has those of the dark mode."""

TINTS = ("#cfe3ff", "#ffe3b3", "#cdeccb", "#f3d0ea", "#fff0a8", "#c8edf0", "#dcd6ff", "#e2e5ea")
"""Fills that dark text is read on, in turn for what is fused."""

MOST_BOXES = 1000
"""Nodes of one picture: more are not looked at, and pages would be larger than 2 MB."""

_STROKES = ("#0067b0", "#c25100", "#00795b", "#a53f7d", "#7a6000", "#2b7fa8", "#5b4bb5", "#5b626b")
_FONT, _LINE, _PAD = 11.0, 14.0, 7.0
_NARROWEST, _WIDEST = 76.0, 300.0
_MARGIN, _LEGEND = 12.0, 22.0
_STRIPE = 5.0
_PORT = 9.0
_BOLD = 1.1  # is wider by that


@dataclass(frozen=True, kw_only=True, slots=True)
class Box:
    """A box of a diagram.

    Attributes
    ----------
    title : str
        Its first line.
    lines : tuple of str
        What stands below.
    about : str
        All there is to know, shown when the pointer is on it.
    round : bool
        Whether its ends are round: a buffer, not a node.
    colour : int or None
        Of the stripe at its left: the number of a key of the diagram.
    tint : int or None
        Of its fill; boxes of one number belong together.
    badge : str
        In its upper right corner.
    bad : bool
        Whether something is wrong with it.
    """

    title: str
    lines: tuple[str, ...] = ()
    about: str = ""
    round: bool = False
    colour: int | None = None
    tint: int | None = None
    badge: str = ""
    bad: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Arrow:
    """From one box to another, by their numbers; ``port`` stands at its head."""

    start: int
    end: int
    port: str = ""
    about: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagram:
    """Boxes and arrows.

    Attributes
    ----------
    title : str
        What it shows, for those who do not see it.
    keys : tuple of str
        What the colours of stripes stand for.
    """

    title: str
    boxes: Sequence[Box]
    arrows: Sequence[Arrow]
    keys: Sequence[str] = field(default=())


def svg(diagram: Diagram, *, style: str = "") -> Markup:
    """Return the picture of a diagram.

    Parameters
    ----------
    diagram : Diagram
    style : str
        A style sheet, for a picture that stands alone; it then names SVG's name space too.
    """
    heads = _heads(diagram)
    sizes = [_size(box, heads.get(i, ())) for i, box in enumerate(diagram.boxes)]
    placed = place(sizes, [(arrow.start, arrow.end) for arrow in diagram.arrows])
    legend = _LEGEND if diagram.keys else 0.0
    keys, across = _legend(diagram.keys)
    width = max(placed.width, across) + 2 * _MARGIN
    height = placed.height + legend + 2 * _MARGIN
    tips = _tips(diagram, heads, placed.centres, sizes)
    arrows = [
        _arrow(arrow, tips[number], route)
        for number, (arrow, route) in enumerate(zip(diagram.arrows, placed.routes, strict=True))
    ]
    boxes = [_box(i, box, placed.centres[i], sizes[i]) for i, box in enumerate(diagram.boxes)]
    inner = element("g", *arrows, *boxes, transform=f"translate({_MARGIN:g} {_MARGIN + legend:g})")
    return element(
        "svg",
        element("title", diagram.title),
        element("style", style) if style else None,  # XML: its text is escaped
        keys,
        inner,
        xmlns="http://www.w3.org/2000/svg" if style else None,
        class_="diagram",
        role="img",
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=f"{width:.0f}",
        height=f"{height:.0f}",
        font_family="system-ui, sans-serif",
        font_size=f"{_FONT:g}",
    )


def _heads(diagram: Diagram) -> Mapping[int, Sequence[int]]:
    """Return the numbers of the arrows that end at each box."""
    found: dict[int, list[int]] = {}
    for number, arrow in enumerate(diagram.arrows):
        found.setdefault(arrow.end, []).append(number)
    return found


def _size(box: Box, heads: Sequence[int]) -> tuple[float, float]:
    badge = text_width(box.badge, _PORT) + 8 if box.badge else 0.0
    widest = max(
        text_width(box.title, _FONT) * _BOLD + badge,
        *(text_width(line, _FONT) for line in box.lines),
        0.0,
    )
    wide = max(_NARROWEST, min(widest + 2 * _PAD + _STRIPE, _WIDEST), 34.0 * len(heads))
    return wide, (1 + len(box.lines)) * _LINE + 2 * _PAD - 3


Point = tuple[float, float]


def _tips(
    diagram: Diagram,
    heads: Mapping[int, Sequence[int]],
    centres: Sequence[Point],
    sizes: Sequence[tuple[float, float]],
) -> list[tuple[Point, Point]]:
    """Return where each arrow starts and ends: heads side by side, by where they come from."""
    found: list[tuple[Point, Point]] = []
    for arrow in diagram.arrows:
        (x, y), (_, height) = centres[arrow.start], sizes[arrow.start]
        found.append(((x, y + height), centres[arrow.end]))
    for box, numbers in heads.items():
        x, y = centres[box]
        room = sizes[box][0] * 0.8
        by_side = sorted(numbers, key=lambda n: found[n][0][0])
        for rank, number in enumerate(by_side):
            shift = (rank + 0.5) / len(by_side) - 0.5
            found[number] = (found[number][0], (x + room * shift, y))
    return found


def _arrow(
    arrow: Arrow, tips: tuple[Point, Point], route: Sequence[tuple[float, float, float]]
) -> Markup:
    (x, y), (end_x, end_y) = tips
    path = [f"M{x:.1f} {y:.1f}"]
    for at, top, bottom in (*route, (end_x, end_y - 5, end_y - 5)):
        middle = (y + top) / 2
        path.append(f"C{x:.1f} {middle:.1f} {at:.1f} {middle:.1f} {at:.1f} {top:.1f}")
        if bottom != top:
            path.append(f"V{bottom:.1f}")
        x, y = at, bottom
    tip = (
        f"M{end_x - 3:.1f} {end_y - 6:.1f}L{end_x:.1f} {end_y:.1f}L{end_x + 3:.1f} {end_y - 6:.1f}z"
    )
    return element(
        "g",
        element("title", arrow.about) if arrow.about else None,
        element("path", d="".join(path), fill="none", stroke="#7d858f", class_="arrow-line"),
        element("path", d=tip, fill="#7d858f", class_="arrow-tip"),
        element(
            "text",
            arrow.port,
            x=f"{end_x + 4:.1f}",
            y=f"{end_y - 4:.1f}",
            font_size=f"{_PORT:g}",
            fill="#5b626b",
            class_="port",
        )
        if arrow.port
        else None,
        class_="arrow",
        data_from=arrow.start,
        data_to=arrow.end,
    )


def _box(number: int, box: Box, centre: Point, size: tuple[float, float]) -> Markup:
    (middle, top), (width, height) = centre, size
    left = middle - width / 2
    inside = width - 2 * _PAD - _STRIPE
    tint = None if box.tint is None else box.tint % len(TINTS)
    corner = height / 2 if box.round else 4.0
    fill = "#ffffff" if box.round else "#f4f5f7" if tint is None else TINTS[tint]
    parts = [
        element(
            "rect",
            x=left,
            y=top,
            width=width,
            height=height,
            rx=corner,
            fill=fill,
            stroke="#b3261e" if box.bad else "#8b939d",
            stroke_width=2 if box.bad else None,
            class_=f"shape{'' if tint is None else f' t{tint}'}{' wrong' if box.bad else ''}",
        )
    ]
    if box.colour is not None:
        parts.append(
            element(
                "rect",
                x=left,
                y=top + 3,
                width=_STRIPE,
                height=height - 6,
                fill=_STROKES[box.colour % COLOURS],
                class_=f"f{box.colour % COLOURS}",
            )
        )
    anchor = {"text_anchor": "middle"} if box.round else {}
    text_x = middle if box.round else left + _STRIPE + _PAD
    badge = text_width(box.badge, _PORT) + 8 if box.badge else 0.0
    y = top + _PAD + _FONT - 2
    for row, line in enumerate((box.title, *box.lines)):
        parts.append(
            element(
                "text",
                _cut(line, inside - (badge if not row else 0.0), bold=not row),
                x=text_x,
                y=y + row * _LINE,
                fill="#1a1c1f" if not row else "#40464d",
                font_weight="600" if not row else None,
                class_="first" if not row else None,
                **anchor,
            )
        )
    if box.badge:
        parts.append(
            element(
                "text",
                box.badge,
                x=left + width - 6,
                y=y,
                text_anchor="end",
                font_size=f"{_PORT:g}",
                fill="#40464d",
            )
        )
    return element(
        "g",
        element("title", box.about) if box.about else None,
        *parts,
        class_="buffer" if box.round else "node",
        data_box=number,
        data_tint=box.tint,
        data_colour=box.colour,
    )


def _cut(text: str, room: float, *, bold: bool) -> str:
    size = _FONT * (_BOLD if bold else 1.0)
    if text_width(text, size) <= room + 2:
        return text
    while text and text_width(text, size) > room - 10:
        text = text[:-1]
    return f"{text}…"


def _legend(keys: Sequence[str]) -> tuple[Markup | None, float]:
    """Return what the stripes stand for, and how wide that is."""
    if not keys:
        return None, 0.0
    x, parts = _MARGIN, list[Markup]()
    for number, key in enumerate(keys):
        parts.append(
            element(
                "rect",
                x=x,
                y=_MARGIN,
                width=10,
                height=10,
                fill=_STROKES[number % COLOURS],
                class_=f"f{number % COLOURS}",
            )
        )
        parts.append(
            element("text", key, x=x + 15, y=_MARGIN + 9, fill="#40464d", class_="key-text")
        )
        x += text_width(key, _FONT) + 36
    return element("g", *parts, class_="legend"), x - _MARGIN
