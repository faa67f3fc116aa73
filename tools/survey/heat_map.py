# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The support table as one picture: ops by target and data type, by how much stands behind it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hipdnn_iree.provider.pages.markup import Markup, element, text_width

from .table import Table

__all__ = ["STATES", "heat_map", "state_of"]

STATES: dict[str, str] = {
    "failed": "a sample that was tried failed or was wrong",
    "declined": "declined by a rule",
    "served": "served, not tried",
    "compiled": "compiled",
    "emulated": "compiled, right by emulation",
    "ran": "ran here, right",
}
"""What stands behind an entry, and what that means; the more the later."""

_FILLS = {
    "failed": ("#c62828", "#ff6e63"),
    "declined": ("#d9dde2", "#3a4149"),
    "served": ("#fff2c2", "#5d5320"),
    "compiled": ("#b7dcf2", "#245a77"),
    "emulated": ("#5fb3e0", "#3f94c4"),
    "ran": ("#2e9d57", "#3fbd70"),
}
_CELL, _GAP, _FONT = 11.0, 16.0, 10.0
_SOFT = ("#40464d", "#b6bdc6")


def state_of(entry: Mapping[str, Any], target: str) -> str:
    """Return what stands behind an entry of the table, one of `STATES`."""
    emulated = entry.get("emulated") or {"ok": 0, "wrong": []}
    if entry["failed"] or emulated["wrong"]:
        return "failed"
    if not entry["served"]:
        return "declined"
    if not entry["compiled"]:
        return "served"
    if target == "cpu":
        return "ran"
    return "emulated" if emulated["ok"] else "compiled"


def heat_map(ops: Table) -> str:
    """Return the picture of a support table, as an SVG file.

    A cell whose corner is cut off is of a type of which some samples are declined; where there is
    no cell, the op is not tested in the type.
    """
    targets = list(dict.fromkeys(t for types in ops.values() for by in types.values() for t in by))
    kinds = list(dict.fromkeys(kind for types in ops.values() for kind in types))
    left = max((text_width(op, _FONT) for op in ops), default=0.0) + 12
    group = len(kinds) * _CELL + _GAP
    top = max((text_width(kind, _FONT) for kind in kinds), default=0.0) + 34
    width, height = left + group * len(targets), top + len(ops) * _CELL + 40
    parts: list[Markup] = []
    for at, target in enumerate(targets):
        x = left + at * group
        middle = x + (group - _GAP) / 2
        parts.append(_text(target, middle, 12, anchor="middle", weight="600"))
        for number, kind in enumerate(kinds):
            place = x + (number + 0.5) * _CELL + 3
            parts.append(
                _text(kind, 0, 0, turn=f"translate({place:.1f} {top - 6:.1f}) rotate(-90)")
            )
    for row, (op, types) in enumerate(ops.items()):
        y = top + row * _CELL
        parts.append(_text(op, left - 8, y + _CELL - 2, anchor="end"))
        for at, target in enumerate(targets):
            for number, kind in enumerate(kinds):
                entry = types.get(kind, {}).get(target)
                if entry is not None:
                    x = left + at * group + number * _CELL
                    parts.append(_cell(op, kind, target, entry, x, y))
    return str(
        element(
            "svg",
            element("title", "Which op is served in which data type, on which target"),
            element("style", _style()),
            *parts,
            *_legend(left, height - 18),
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {width:.0f} {height:.0f}",
            width=f"{width:.0f}",
            height=f"{height:.0f}",
            role="img",
            font_family="system-ui, sans-serif",
            font_size=f"{_FONT:g}",
        )
    )


def _style() -> str:
    rules = [f".{state} {{ fill: light-dark({a}, {b}); }}" for state, (a, b) in _FILLS.items()]
    soft = f"text {{ fill: light-dark({_SOFT[0]}, {_SOFT[1]}); }}"
    return " ".join(["svg { color-scheme: light dark; }", soft, *rules])


def _text(
    text: str, x: float, y: float, *, anchor: str = "", weight: str = "", turn: str = ""
) -> Markup:
    where: dict[str, object] = {"transform": turn} if turn else {"x": x, "y": y}
    return element(
        "text",
        text,
        **where,
        text_anchor=anchor or None,
        font_weight=weight or None,
        fill=_SOFT[0],
    )


def _cell(op: str, kind: str, target: str, entry: Mapping[str, Any], x: float, y: float) -> Markup:
    state = state_of(entry, target)
    size = _CELL - 1
    partly = state not in ("declined", "failed") and entry["declined"]
    cut = f"h{size - 4:g}l4 4v{size - 4:g}" if partly else f"h{size:g}v{size:g}"
    return element(
        "path",
        element("title", "\n".join(_about(op, kind, target, entry, state))),
        d=f"M{x:.1f} {y:.1f}{cut}H{x:.1f}z",
        fill=_FILLS[state][0],
        class_=state,
    )


def _about(op: str, kind: str, target: str, entry: Mapping[str, Any], state: str) -> Iterator[str]:
    yield f"{op}, {kind}, {target}: {STATES[state]}"
    yield f"{entry['served']} of {entry['samples']} samples served"
    if entry["compiled"]:
        yield f"{entry['compiled']} compiled"
    if right := (entry.get("emulated") or {}).get("ok"):
        yield f"{right} right by emulation"
    if entry["declined"]:
        yield "declined by " + ", ".join(f"{rule} ({n})" for rule, n in entry["declined"].items())


def _legend(x: float, y: float) -> Iterator[Markup]:
    for state in reversed(STATES):  # the best first
        size = _CELL - 1
        yield element(
            "path",
            d=f"M{x:.1f} {y:.1f}h{size:g}v{size:g}h{-size:g}z",
            fill=_FILLS[state][0],
            class_=state,
        )
        yield _text(STATES[state], x + _CELL + 3, y + _CELL - 2)
        x += text_width(STATES[state], _FONT) + 34
