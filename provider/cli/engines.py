# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree engines``: what can serve graphs here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ...jit.settings import settings
from ...jit.target import Target
from ..registry import engine, engines
from .options import Command, State
from .output import bold, count, emit, say, shown, table, working

if TYPE_CHECKING:
    from ..engines.foreign.probe_report import Report

JSON: dict[str, str] = {
    "engines": "of each one `name`, `alias`, `id` (signed, as text), `id_hex`, `version`, "
    "`source` (file), `api_version` (of hipDNN's plugin API; empty for an engine in Python), "
    "`default` (whether it is taken without `--engine`), `targets`, `ops`",
    "plugins": "with `--probe`: of each file that hipDNN would look at `path`, `usable`, `name`, "
    "`version`, `api_version`, `era` (of its wire format), `engines` (`id`, `id_hex`, `name`), "
    "`features` (optional functions), `problems`, and `said` (what it logged)",
    "hipdnn": "with `--probe`: the same of hipDNN's own library",
}


@click.command(cls=Command)
@click.option(
    "--probe",
    is_flag=True,
    help="Ask every engine plugin of others anew, each in a process of its own, and report.",
)
@click.pass_obj
def command(state: State, probe: bool) -> None:
    """List the engines: name, id, where they are from, what they serve.

    An engine may still decline a graph; `hipdnn-iree explain GRAPH` says which do, and why.
    """
    plugins, backend = _probed() if probe else ([], None)
    rows = [_row(alias) for alias in engines(settings())]
    if state.json:
        about: dict[str, Any] = {"engines": rows}
        if backend is not None:
            about |= {"plugins": list(map(_as_dict, plugins)), "hipdnn": _as_dict(backend)}
        emit(about)
        return
    table(
        ["name", "alias", "id", "version", "chosen", "targets", "ops"],
        [
            (
                row["name"],
                row["alias"],
                row["id_hex"],
                row["version"] or ("?" if row["api_version"] else "absent"),
                "by default" if row["default"] else "on request",
                ", ".join(dict.fromkeys(Target.parse(t).family for t in row["targets"])),
                _ops(row["ops"]),
            )
            for row in rows
        ],
    )
    say()
    for row in rows:
        api = f" (engine API {row['api_version']})" if row["api_version"] else ""
        told = row["version"] or row["api_version"] or not row["source"]
        lacks = "" if told else f"; it needs the extra hipdnn-iree[{row['alias']}]"
        say(f"{row['alias']}: {shown(row['source']) or 'not installed'}{api}{lacks}")
        if row["ops"] and (missing := _missing(row["ops"])):
            say(f"  serves all ops but {', '.join(missing)}")
    if backend is not None:
        say()
        say(bold(count(len(plugins), "plugin file", "plugin files")))
        for one in plugins:
            _print(one)
        say()
        say(bold("hipDNN"))
        _print(backend)


def _ops(served: list[str]) -> str:
    return f"{len(served)} of {len(_missing([]))}" if served else "-"


def _missing(served: list[str]) -> list[str]:
    from ...graph_api.ops import OPS

    return sorted(set(OPS) - set(served))


def _probed() -> tuple[list[Report], Report]:
    from ..engines.foreign.backend_engine import report
    from ..engines.foreign.discovery import reports

    with working("asking plugins"):
        now = settings()
        return reports(now, again=True), report(now, again=True)


def _as_dict(one: Report) -> dict[str, Any]:
    """Return the JSON form, with ids as text: JSON's numbers end at 2**53."""
    found = one.as_dict()
    return {**found, "engines": [{**e, "id": str(e["id"])} for e in found["engines"]]}


def _print(one: Report) -> None:
    """Print what was found of a plugin, or of hipDNN."""
    names = ", ".join(e.name or str(e.id) for e in one.engines) or "no engines"
    api = f", API {one.api_version}" if one.api_version else ""
    say(f"{'ok' if one.usable else 'skipped':8} {shown(one.path or 'none')}")
    if one.name:
        say(f"         {shown(f'{one.name} {one.version}{api}: {names}')}")
    for problem in one.problems:
        say(f"         {shown(str(problem))}")


def _row(alias: str) -> dict[str, Any]:
    found = engine(alias, settings())
    number = found.id
    return {
        "name": found.NAME,
        "alias": alias,
        "id": str(number),
        "id_hex": f"0x{number % 2**64:016X}",
        "version": found.version(),
        "api_version": found.api_version(),
        "source": found.source(),
        "default": found.BY_DEFAULT,
        "targets": list(found.targets()),
        "ops": list(found.ops()),
    }
