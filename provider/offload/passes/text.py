# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The text of a module: read with our own form of ``hipdnn.execute``, and written with it.

The op is not registered with MLIR, which has a generic form for it::

    %2 = "hipdnn.execute"(%a, %b, %1) {graph = "g", operandSegmentSizes = array<i32: 2, 1>} : (..)

What is shown and may be given is::

    %2 = hipdnn.execute graph("g") ins(%a, %b : T, T) outs(%1 : T) -> T
"""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["generic", "readable"]

_GENERIC = re.compile(
    r'"hipdnn\.execute"\(([^()]*)\) <?\{graph = ("(?:[^"\\]|\\.)*"), '
    r"operandSegmentSizes = array<i32: (\d+), (\d+)>\}>? : \((.*)\) -> (.*?)( loc\(.*\))?$"
)
_READABLE = re.compile(
    r'hipdnn\.execute graph\(("(?:[^"\\]|\\.)*")\) ins\((.*?)\) outs\((.*?)\)'
    r"(?: -> (.*?))?( loc\(.*\))?$"
)


def readable(text: str) -> str:
    """Return MLIR text with executions in the form that is shown."""
    return "\n".join(_GENERIC.sub(_shown, line) for line in text.split("\n"))


def generic(text: str) -> str:
    """Return MLIR text with executions in the form that MLIR reads."""
    if "hipdnn.execute graph" not in text:
        return text
    return "\n".join(_READABLE.sub(_read, line) for line in text.split("\n"))


def _shown(found: re.Match[str]) -> str:
    values, kinds = _split(found[1]), _split(found[5])
    ins = int(found[3])
    parts = [
        f"{word}({', '.join(values[part])}{' : ' if values[part] else ''}{', '.join(kinds[part])})"
        for word, part in (("ins", slice(ins)), ("outs", slice(ins, None)))
    ]
    results = found[6]
    arrow = "" if results == "()" else f" -> {results}"
    return f"hipdnn.execute graph({found[2]}) {' '.join(parts)}{arrow}{found[7] or ''}"


def _read(found: re.Match[str]) -> str:
    sides = [_split_side(found[i]) for i in (2, 3)]
    values = ", ".join(value for side in sides for value in side[0])
    kinds = ", ".join(kind for side in sides for kind in side[1])
    sizes = ", ".join(str(len(side[0])) for side in sides)
    return (
        f'"hipdnn.execute"({values}) {{graph = {found[1]}, operandSegmentSizes = '
        f"array<i32: {sizes}>}} : ({kinds}) -> {found[4] or '()'}{found[5] or ''}"
    )


def _split_side(text: str) -> tuple[list[str], list[str]]:
    values, _, kinds = text.partition(":")
    return _split(values.strip()), _split(kinds.strip())


def _split(text: str) -> list[str]:
    """Return the parts between commas outside of brackets."""
    return list(_parts(text)) if text else []


def _parts(text: str) -> Iterable[str]:
    depth, start = 0, 0
    for i, character in enumerate(text):
        if character in "<([{":
            depth += 1
        elif character in ">)]}" and text[i - 1 : i] != "-":
            depth -= 1
        elif character == "," and not depth:
            yield text[start:i].strip()
            start = i + 1
    yield text[start:].strip()
