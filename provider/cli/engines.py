"""``hipdnn-iree engines``: what can serve graphs here."""

from __future__ import annotations

from typing import Any

import click

from ...jit.target import Target
from ..manifest import engine, engines
from .options import Command, State
from .output import emit, say, table

JSON: dict[str, str] = {
    "engines": "of each one `name`, `alias`, `id` (signed), `id_hex`, `version`, `source` (file), "
    "`default` (whether it is taken without `--engine`), `targets`, `ops`"
}


@click.command(cls=Command)
@click.pass_obj
def command(state: State) -> None:
    """List the engines: name, id, where they are from, what they serve.

    An engine may still decline a graph; `hipdnn-iree explain GRAPH` says which do, and why.
    """
    rows = [_row(alias) for alias in engines()]
    if state.json:
        emit({"engines": rows})
        return
    table(
        ["name", "alias", "id", "version", "chosen", "targets", "ops"],
        [
            (
                row["name"],
                row["alias"],
                row["id_hex"],
                row["version"],
                "by default" if row["default"] else "when pinned",
                ", ".join(dict.fromkeys(Target.parse(t).family for t in row["targets"])),
                ", ".join(row["ops"]),
            )
            for row in rows
        ],
    )
    say()
    for row in rows:
        say(f"{row['alias']}: {row['source']}")


def _row(alias: str) -> dict[str, Any]:
    found = engine(alias)
    number = found.id
    return {
        "name": found.NAME,
        "alias": alias,
        "id": number,
        "id_hex": f"0x{number % 2**64:016X}",
        "version": found.version(),
        "source": found.source(),
        "default": found.BY_DEFAULT,
        "targets": list(found.targets()),
        "ops": list(found.ops()),
    }
