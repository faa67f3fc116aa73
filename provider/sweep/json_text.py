# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""JSON that can be read in a diff: a line for each part of a table."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["json_lines"]


def json_lines(data: Any, depth: int) -> str:
    """Return JSON text in which what is ``depth`` levels deep has a line each.

    Examples
    --------
    >>> print(json_lines({"about": {"a": 1}, "cases": [{"b": [2, 3]}, {"b": []}]}, 2))
    {
     "about": {
      "a": 1
     },
     "cases": [
      {"b": [2, 3]},
      {"b": []}
     ]
    }
    """
    return "\n".join(_lines(data, depth, ""))


def _lines(data: Any, depth: int, indent: str) -> list[str]:
    if not (depth and data and isinstance(data, dict | list)):
        return [indent + json.dumps(data, allow_nan=False)]
    inner = f"{indent} "
    if isinstance(data, list):
        parts = [_lines(item, depth - 1, inner) for item in data]
        opening, closing = "[", "]"
    else:
        parts = [
            _keyed(json.dumps(key), _lines(item, depth - 1, inner), inner)
            for key, item in data.items()
        ]
        opening, closing = "{", "}"
    joined = [line for part in parts[:-1] for line in (*part[:-1], part[-1] + ",")]
    return [indent + opening, *joined, *parts[-1], indent + closing]


def _keyed(key: str, lines: list[str], indent: str) -> list[str]:
    return [f"{indent}{key}: {lines[0].strip()}", *lines[1:]]
