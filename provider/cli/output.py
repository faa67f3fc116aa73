# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What commands print: data on stdout, talk on stderr, and never the other way round."""

from __future__ import annotations

import json
import math
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

__all__ = ["bold", "count", "emit", "facts", "number", "say", "shown", "table", "talk", "working"]


def say(text: str = "") -> None:
    """Print a line of data on stdout."""
    click.echo(text, color=_colour(sys.stdout))


def talk(text: str) -> None:
    """Print lines for people on stderr."""
    # Not by click, which goes past what `working` puts in the place of sys.stderr.
    if sys.stderr is not None:
        print("\n".join(map(shown, text.split("\n"))), file=sys.stderr, flush=True)


def emit(data: dict[str, Any]) -> None:
    """Print one JSON object on stdout; numbers that are not finite become null."""
    click.echo(json.dumps(_finite(data), indent=2, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _colour(stream: Any) -> bool:
    """Whether a stream takes colour: a terminal, and neither NO_COLOR nor TERM=dumb is set."""
    if stream is None or not stream.isatty():  # None: the shell has closed it
        return False
    from rich.console import Console

    console = Console(file=stream)
    return console.color_system is not None and not console.no_color


def bold(text: str) -> str:
    """Return a heading; `say` and `talk` drop the codes where they do not belong."""
    return click.style(text, bold=True)


def shown(text: str) -> str:
    """Return text from a file so that it cannot move the cursor or break a line."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def number(value: float, digits: int = 3) -> str:
    """Return a number for a table: thousands marked in integers, few digits in others."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.{digits}g}"


def count(n: int, one: str, many: str) -> str:
    """Return a number with its noun."""
    return f"{n:,} {one if n == 1 else many}"


def table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table on stdout, as wide as it is; columns of numbers are aligned to the right."""
    right = [any(_numeric(row[i]) for row in rows) for i in range(len(headers))]
    texts = [[_cell(value) for value in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(headers, *texts, strict=True)]

    def line(cells: Sequence[str]) -> str:
        places = zip(cells, widths, right, strict=True)
        padded = [_pad(cell, width, to_right) for cell, width, to_right in places]
        return "  ".join(padded).rstrip()

    say(bold(line(headers)))
    for row in texts:
        say(line(row))


def facts(rows: Sequence[tuple[str, object]]) -> None:
    """Print labels with their values on stdout, one a line."""
    width = max(len(label) for label, _ in rows)
    for label, value in rows:
        say(f"{bold(label.ljust(width))}  {_cell(value)}".rstrip())


def _numeric(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return number(value) if isinstance(value, int | float) else shown(str(value))


def _width(text: str) -> int:
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def _pad(text: str, width: int, right: bool) -> str:
    gap = " " * (width - _width(text))
    return gap + text if right else text + gap


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show on a terminal that something goes on; elsewhere, and when it is quick, nothing."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(f"{shown(what)} …")):
        yield
