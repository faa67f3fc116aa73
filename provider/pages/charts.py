# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Charts as SVG that need no script: bars with their spread, and the roofline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from ..units import si
from .diagram import COLOURS
from .markup import Markup, element, text_width

__all__ = ["Bar", "Point", "Roof", "bars", "keys", "roofline"]

_WIDTH = 760.0
_ROW, _BAR = 20.0, 12.0
_TOP, _BOTTOM = 8.0, 24.0
_FONT = 11.0
_WIDEST_LABEL = 300.0
_TALL = 24  # rows


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """A row of a chart.

    Attributes
    ----------
    label : str
        At its left.
    value : float or None
        None: there is no bar, only the text.
    low, high : float or None
        How far it spreads.
    text : str
        At its right.
    about : str
        Shown when the pointer is on it.
    series : int
        Number of its colour.
    heading : bool
        Whether it only names the rows that follow.
    """

    label: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    text: str = ""
    about: str = ""
    series: int = 0
    heading: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """A point of a roofline: operations per byte, and operations per second."""

    x: float
    y: float
    label: str
    about: str = ""
    series: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Roof:
    """A peak of arithmetic, in operations per second."""

    label: str
    peak: float


def keys(names: Sequence[str]) -> Markup:
    """Return what the colours of series stand for."""
    parts = []
    for number, name in enumerate(names):
        mark = element(
            "svg",
            element("path", d="M6 6h0", class_=f"points s{number % COLOURS}"),
            viewBox="0 0 12 12",
            aria_hidden="true",
        )
        parts.append(element("span", mark, name, class_="key"))
    return element("div", *parts, class_="keys")


def bars(
    title: str,
    rows: Sequence[Bar],
    *,
    unit: str,
    baseline: float | None = None,
    name: str = "",
    ratio: bool = False,
) -> Markup:
    """Return a chart of bars; nothing where no row has a value.

    Parameters
    ----------
    title : str
        For those who do not see it.
    rows : sequence of Bar
    unit : str
        What the axis shows.
    baseline : float, optional
        Where a line stands across all rows.
    name : str
        What that line is.
    ratio : bool
        Bars start at the baseline, on a logarithmic axis; else at 0.
    """
    values = [v for row in rows for v in (row.value, row.low, row.high) if v is not None]
    if not values or max(values) <= 0:
        return Markup()
    values += [baseline] if baseline is not None else []
    left = min(max(text_width(row.label, _FONT) for row in rows) + 14, _WIDEST_LABEL)
    right = max(text_width(row.text, _FONT) for row in rows) + 14
    scale = _log_scale(values) if ratio else _linear(values)
    width = max(_WIDTH - left - right, 160.0)
    start = baseline if ratio and baseline is not None else 0.0

    def at(value: float) -> float:
        return left + scale.share(value) * width

    tall = len(rows) > _TALL  # the axis stands above too
    top = _BOTTOM if tall else _TOP
    height = top + _ROW * len(rows) + _BOTTOM
    bottom = height - _BOTTOM
    parts: list[Markup] = []
    for tick in scale.ticks:
        x = at(tick)
        parts += [
            element("path", d=f"M{x:.1f} {top:g}V{bottom:.1f}", class_="grid"),
            *(
                element("text", _tick(tick), x=x, y=y, text_anchor="middle")
                for y in ((top - 6, bottom + 13) if tall else (bottom + 13,))
            ),
        ]
    end = left + width
    parts.append(element("text", unit, x=end + 6, y=bottom + 13))
    for number, row in enumerate(rows):
        parts.append(_bar(row, top + number * _ROW, left, end, at, start))
    if baseline is not None:
        x = at(baseline)
        parts.append(
            element(
                "path",
                element("title", name) if name else None,
                d=f"M{x:.1f} {top:g}V{bottom:.1f}",
                class_="guide",
                stroke="#5b626b",
            )
        )
    return element(
        "svg",
        element("title", title),
        *parts,
        viewBox=f"0 0 {left + width + right:.0f} {height:.0f}",
        role="img",
        class_="chart",
    )


def _bar(
    row: Bar, top: float, left: float, end: float, at: Callable[[float], float], start: float
) -> Markup:
    middle = top + _ROW / 2
    label = element(
        "text",
        row.label,
        x=0 if row.heading else left - 8,
        y=middle + 4,
        text_anchor=None if row.heading else "end",
        class_="strong" if row.heading else None,
        font_weight="600" if row.heading else None,
    )
    parts = [element("title", row.about) if row.about else None, label]
    if row.value is not None:
        a, b = sorted((at(start) if start else left, at(row.value)))
        line = f"M{a:.1f} {middle:.1f}H{max(b, a + 1):.1f}"
        parts.append(
            element(
                "path", d=line, class_=f"s{row.series % COLOURS}", stroke_width=_BAR, fill="none"
            )
        )
    if row.low is not None and row.high is not None:
        a, b = at(row.low), at(row.high)
        cap = f"V{middle + 3:.1f}"
        spread = f"M{a:.1f} {middle:.1f}H{b:.1f}"
        spread += "".join(f"M{x:.1f} {middle - 3:.1f}{cap}" for x in (a, b))
        parts.append(element("path", d=spread, class_="spread"))
    parts.append(element("text", row.text, x=end + 6, y=middle + 4) if row.text else None)
    return element("g", *parts, class_="heading" if row.heading else "bar")


@dataclass(frozen=True, slots=True)
class _Scale:
    share: Callable[[float], float]
    ticks: Sequence[float]


def _linear(values: Sequence[float]) -> _Scale:
    most = max(values)
    step = 10.0 ** floor(log10(most))
    step = next(s for s in (step / 10, step / 5, step / 2, step, 2 * step) if most / s <= 6)
    ticks = [step * n for n in range(floor(most / step * 1.0001) + 1)]
    return _Scale(lambda value: min(value / most, 1.0), ticks)


def _log_scale(values: Sequence[float]) -> _Scale:
    known = [value for value in values if value > 0]
    low, high = log10(min(known)) - 0.05, log10(max(known)) + 0.05
    ticks = list(_ticks(low, high))

    def share(value: float) -> float:
        return (log10(max(value, 10**low)) - low) / (high - low)

    return _Scale(share, ticks)


def _ticks(low: float, high: float) -> Iterator[float]:
    """Yield round numbers between two powers of ten, at most about ten."""
    span = high - low
    steps: Iterable[float] = (1,)
    if span < 0.5:
        steps = (1, 1.1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 4, 5, 6, 7, 8, 9)
    elif span < 3:
        steps = (1, 2, 5)
    every = max(1, ceil(span / 9))
    for exponent in range(floor(low), ceil(high) + 1):
        if exponent % every:
            continue
        for step in steps:
            value = float(f"{step}e{exponent}")
            if low <= log10(value) <= high:
                yield value


def _tick(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"


_HIGH, _SIDE, _FOOT = 340.0, 64.0, 40.0


def roofline(
    title: str, points: Sequence[Point], roofs: Sequence[Roof], bytes_per_s: float
) -> Markup:
    """Return a roofline: what memory and arithmetic allow, and where work lies.

    Nothing without points.
    """
    if not points or not roofs:
        return Markup()
    ridges = [roof.peak / bytes_per_s for roof in roofs]
    xs = [point.x for point in points] + ridges
    low_x, high_x = log10(min(xs)) - 0.3, log10(max(xs)) + 0.5
    top = max(roof.peak for roof in roofs)
    ys = [point.y for point in points] + [top]
    low_y, high_y = min(log10(min(ys)) - 0.3, log10(top) - 2), log10(top) + 0.3

    def at(x: float, y: float) -> tuple[float, float]:
        return (
            _SIDE + (log10(x) - low_x) / (high_x - low_x) * (_WIDTH - _SIDE - 12),
            _HIGH - _FOOT - (log10(y) - low_y) / (high_y - low_y) * (_HIGH - _FOOT - 10),
        )

    (left, bottom), (right, upper) = at(10**low_x, 10**low_y), at(10**high_x, 10**high_y)
    parts = []
    for tick in _ticks(low_x, high_x):
        x, _ = at(tick, top)
        parts += [
            element("path", d=f"M{x:.1f} {upper:.1f}V{bottom:.1f}", class_="grid"),
            element("text", f"{tick:g}", x=x, y=bottom + 14, text_anchor="middle"),
        ]
    for tick in _ticks(low_y, high_y):
        _, y = at(1.0, tick)
        parts += [
            element("path", d=f"M{left:.1f} {y:.1f}H{right:.1f}", class_="grid"),
            element("text", si(tick).strip(), x=left - 6, y=y + 4, text_anchor="end"),
        ]
    for number, (roof, ridge) in enumerate(zip(roofs, ridges, strict=True)):
        start = max(10**low_x, 10**low_y / bytes_per_s)
        path = [at(start, start * bytes_per_s), at(ridge, roof.peak), at(10**high_x, roof.peak)]
        line = "L".join(f"{x:.1f} {y:.1f}" for x, y in path)
        parts += [
            element("path", d=f"M{line}", class_=f"roof s{(7 - number) % COLOURS}"),
            element(
                "text", roof.label, x=right - 4, y=path[-1][1] - 5, text_anchor="end",
            ),
        ]  # fmt: skip
    for point in points:
        x, y = at(point.x, point.y)
        parts.append(
            element(
                "g",
                element("title", point.about or point.label),
                element(
                    "path",
                    d=f"M{x:.1f} {y:.1f}h0",
                    class_=f"points s{point.series % COLOURS}",
                    stroke_width=9,
                ),
                element("text", point.label, x=x + 7, y=y + 14, class_="strong"),
                class_="point",
            )
        )
    middle = (left + right) / 2
    across = (upper + bottom) / 2
    parts += [
        element("text", "FLOP / byte", x=middle, y=_HIGH - 8, text_anchor="middle"),
        element("text", "FLOP/s", x=14, y=across, text_anchor="middle",
                transform=f"rotate(-90 14 {across:.0f})"),
    ]  # fmt: skip
    return element(
        "svg",
        element("title", title),
        *parts,
        viewBox=f"0 0 {_WIDTH:g} {_HIGH:g}",
        role="img",
        class_="chart",
    )
