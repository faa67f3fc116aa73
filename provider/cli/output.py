# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What commands print: data on stdout, talk on stderr, and never the other way round."""

from __future__ import annotations

import json
import math
import re
import shutil
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import click

from ...jit.settings import foreign

__all__ = [
    "SCHEMA_VERSION",
    "begin",
    "bold",
    "columns",
    "complain",
    "count",
    "emit",
    "facts",
    "is_quiet",
    "label",
    "number",
    "quiet",
    "say",
    "shown",
    "table",
    "talk",
    "versioned",
    "working",
]

SCHEMA_VERSION = 1
"""Of all that ``--json`` prints; another one when a key goes or changes its meaning."""

# How the first word of a line on stderr is set on a terminal.
_COLOURS = {
    "error": "red",
    "internal error": "red",
    "check failed": "red",
    "verification failed": "red",
    "problem": "red",
    "critical": "red",
    "warning": "yellow",
    "remark": "yellow",
    "note": "cyan",
}
_LABEL = re.compile(rf"^(?:{'|'.join(_COLOURS)})(?=[ :\[])")

_quiet = [False]
_command = [""]


def begin(command: str) -> None:
    """Note which command runs from now on, for what it prints as JSON."""
    _command[0] = command


@contextmanager
def quiet(on: bool) -> Iterator[None]:
    """Have `talk` and `working` print nothing within the block."""
    before, _quiet[0] = _quiet[0], _quiet[0] or on
    try:
        yield
    finally:
        _quiet[0] = before


def is_quiet() -> bool:
    """Whether `talk` prints nothing."""
    return _quiet[0]


def say(text: str = "") -> None:
    """Print a line of data on stdout."""
    click.echo(text, color=_colour(sys.stdout))


def talk(text: str) -> None:
    """Print lines for people on stderr: progress, notes, warnings; nothing with ``--quiet``."""
    if not _quiet[0]:
        complain(text)


def complain(text: str) -> None:
    """Print lines on stderr that are wanted with ``--quiet`` too: errors."""
    # Not by click, which goes past what `working` puts in the place of sys.stderr.
    if sys.stderr is not None:
        lines = [shown(line) for line in text.split("\n")]
        if _colour(sys.stderr):
            lines = [_LABEL.sub(_coloured, line) for line in lines]
        print("\n".join(lines), file=sys.stderr, flush=True)


def _coloured(label: re.Match[str]) -> str:
    return click.style(label[0], fg=_COLOURS[label[0]], bold=True)


def versioned(data: dict[str, Any]) -> dict[str, Any]:
    """Return what a command prints as JSON, with the version of its form and its own name."""
    return {"schema_version": SCHEMA_VERSION, "command": _command[0], **data}


def emit(data: dict[str, Any]) -> None:
    """Print one JSON object on stdout; numbers that are not finite become null."""
    click.echo(json.dumps(_finite(versioned(data)), indent=2, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _colour(stream: Any) -> bool:
    """Whether a stream takes colour: a terminal does, unless the environment says otherwise.

    NO_COLOR (https://no-color.org) comes first, then FORCE_COLOR (https://force-color.org), then
    TERM=dumb.
    """
    if stream is None:  # the shell has closed it
        return False
    given = foreign("NO_COLOR", "FORCE_COLOR", "TERM")
    if given["NO_COLOR"]:
        return False
    if given["FORCE_COLOR"]:
        return True
    return bool(stream.isatty()) and given["TERM"] not in ("dumb", "unknown")


def columns(stream: Any) -> int | None:
    """Return how wide the terminal is that a stream goes to; None when it goes elsewhere."""
    if stream is None or not stream.isatty():
        return None
    return shutil.get_terminal_size().columns


_STATES = {"ok": "green", "note": "cyan", "problem": "red"}


def label(state: str, width: int) -> str:
    """Return the state of a finding for the start of a line, coloured by what it means."""
    return click.style(state.ljust(width), fg=_STATES.get(state))


def bold(text: str) -> str:
    """Return a heading; `say` drops the codes where they do not belong."""
    return click.style(text, bold=True)


def shown(text: str) -> str:
    """Return text from a file so that it cannot move the cursor or break a line."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def number(value: float, digits: int = 3) -> str:
    """Return a number for a table: thousands marked where there are any, else few digits."""
    text = f"{value:.{digits}g}"
    whole = isinstance(value, int) or ("e+" in text and abs(value) < 1e15)
    return f"{value:,.0f}" if whole else text


def count(n: int, one: str, many: str) -> str:
    """Return a number with its noun."""
    return f"{n:,} {one if n == 1 else many}"


def table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table on stdout; columns of numbers are aligned to the right.

    On a terminal it takes no more columns than that has: long texts are wrapped.  Elsewhere a row
    is a line, for other programs.
    """
    right = [any(_numeric(row[i]) for row in rows) for i in range(len(headers))]
    texts = [[_cell(value) for value in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(headers, *texts, strict=True)]
    room = columns(sys.stdout)
    if room is not None and sum(widths) + _GAP * (len(widths) - 1) > room:
        _wrapped(headers, texts, right, room)
        return

    def line(cells: Sequence[str]) -> str:
        places = zip(cells, widths, right, strict=True)
        padded = [_pad(cell, width, to_right) for cell, width, to_right in places]
        return (" " * _GAP).join(padded).rstrip()

    say(bold(line(headers)))
    for row in texts:
        say(line(row))


_GAP = 2  # columns between those of a table


def _wrapped(
    headers: Sequence[str], texts: Sequence[Sequence[str]], right: Sequence[bool], room: int
) -> None:
    """Print a table that is too wide for the terminal, with cells of several lines."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for header, to_right in zip(headers, right, strict=True):
        grid.add_column(
            Text(header),
            justify="right" if to_right else "left",
            overflow="fold",
            no_wrap=to_right,  # a number is of no use in two lines
        )
    for row in texts:
        grid.add_row(*map(Text, row))
    # Without colour there is no bold either.
    styles: Literal["auto"] | None = "auto" if _colour(sys.stdout) else None
    Console(file=sys.stdout, width=room, highlight=False, color_system=styles).print(grid)


def facts(rows: Sequence[tuple[str, object]]) -> None:
    """Print labels with their values on stdout, one a line; wrapped on a terminal."""
    width = max(len(label) for label, _ in rows)
    room = columns(sys.stdout)
    for label, value in rows:
        lines = _folded(_cell(value), room - width - _GAP if room else None)
        say(f"{bold(label.ljust(width))}  {lines[0]}".rstrip())
        for more in lines[1:]:
            say(f"{' ' * (width + _GAP)}{more}")


def _folded(text: str, room: int | None) -> list[str]:
    """Return a text in lines; words that are too long, such as paths, stay whole."""
    if room is None or room < 20 or _width(text) <= room:  # too narrow to be of use
        return [text]
    import textwrap

    return textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]


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
    """Show on a terminal that something goes on, and for how long; elsewhere nothing."""
    if _quiet[0] or sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    shape = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*shape, console=Console(stderr=True), transient=True) as going:
        going.add_task(f"{shown(what)} …", total=None)
        yield
