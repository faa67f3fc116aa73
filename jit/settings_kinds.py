# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How the text of an environment variable becomes the value of a knob, and back.

Each parser takes stripped text and raises ValueError for what it does not take; the caller adds
the name of the variable and what is allowed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = [
    "choice",
    "count",
    "flags",
    "home_path",
    "nbytes",
    "nbytes_or_none",
    "path",
    "paths",
    "seconds",
    "spell",
    "strategies",
    "switch",
    "words",
]


_SWITCH = {
    **dict.fromkeys(("on", "true", "yes", "1"), True),
    **dict.fromkeys(("off", "false", "no", "0"), False),
}


def choice(*names: str) -> tuple[Callable[[str], str], str]:
    """Return a parser that takes one of ``names`` in any case, and its description."""

    def parse(text: str) -> str:
        for name in names:
            if text.lower() == name.lower():
                return name
        raise ValueError

    return parse, " | ".join(names)


def count(low: int, high: int) -> tuple[Callable[[str], int], str]:
    """Return a parser of integers from ``low`` to ``high``, and its description."""

    def parse(text: str) -> int:
        value = int(text)
        if not low <= value <= high:
            raise ValueError
        return value

    return parse, f"an integer from {low} to {high}"


def seconds(text: str) -> float:
    """Parse a positive, finite number of seconds."""
    value = float(text)
    if not 0 < value <= 1e6:  # also refuses NaN
        raise ValueError
    return value


def nbytes(text: str) -> int:
    """Parse a positive byte count such as ``500M`` or ``2GiB`` (powers of 1024)."""
    digits = text.upper().removesuffix("B").removesuffix("I")
    scale = {"K": 10, "M": 20, "G": 30, "T": 40}.get(digits[-1:], 0)
    value = int(digits[:-1] if scale else digits) << scale
    if value <= 0:
        raise ValueError
    return value


def nbytes_or_none(text: str) -> int:
    """Parse a byte count as `nbytes` does, or 0."""
    return 0 if text == "0" else nbytes(text)


def switch(text: str) -> bool:
    """Parse a yes or no, in any of the usual words."""
    word = text.lower()
    if word not in _SWITCH:
        raise ValueError
    return _SWITCH[word]


def path(text: str) -> Path | None:
    """Parse a path, relative to the working directory or to ``~``; None when empty."""
    if not text:
        return None  # a value that is computed when empty
    found = home_path(text)
    if not found:
        raise ValueError
    return Path(os.path.abspath(found))


def home_path(text: str) -> str:
    """Return a path with the folder that ``~`` stands for; empty where there is no such folder."""
    found = os.path.expanduser(text)
    return found if not text.startswith("~") or os.path.isabs(found) else ""


def paths(text: str) -> tuple[Path, ...]:
    """Parse paths joined by ``:``, each as `path` does; none when empty."""
    return tuple(found for part in text.split(os.pathsep) if (found := path(part.strip())))


def flags(text: str) -> tuple[str, ...]:
    """Parse compiler flags, split as a shell splits words."""
    if not text:
        return ()
    import shlex

    found = tuple(shlex.split(text))
    # One-dash options of the command line tool, such as -o, would redirect its output.
    if not all(flag.startswith("--") and len(flag) > 2 for flag in found):
        raise ValueError
    return found


def words(text: str) -> tuple[str, ...]:
    """Parse names separated by commas or spaces; empty ones are left out."""
    return tuple(text.replace(",", " ").split())


def strategies(text: str) -> tuple[str, ...]:
    """Parse strategies, ``op=strategy`` or one for all ops, separated by commas or spaces."""
    found: dict[str, str] = {}
    for item in text.replace(",", " ").split():
        op, equals, name = item.partition("=")
        op, name = (op, name) if equals else ("all", op)
        if op in found or not all(part.replace("_", "").isalnum() for part in (op, name)):
            raise ValueError
        found[op] = name
    return tuple(f"{op}={name}" for op, name in sorted(found.items()))


def spell(value: Any) -> str:
    """Return a value in the spelling of its variable; the parser of its knob reads it back."""
    if value is None:
        return ""
    if isinstance(value, tuple | list):
        if value and all(isinstance(item, Path) for item in value):
            return os.pathsep.join(map(str, value))
        import shlex

        return shlex.join(map(str, value))
    return str(value)
