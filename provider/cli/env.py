# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree env``: what is installed, set and found here, for bug reports."""

from __future__ import annotations

from typing import Any

import click

from .options import Command, State
from .output import bold, emit, facts, say, table
from .probes import report

JSON: dict[str, str] = {
    "hipdnn_iree": "`version`, `location`",
    "python": "`version`, `implementation`, `executable`, `virtual_environment`",
    "platform": "`system`, `release`, `machine`, `distribution`",
    "packages": "version of each package by name, null when it is not installed",
    "settings": "of each setting `name`, `env`, `value`, `default`, `origin`, `allowed`, "
    "`in_cache_key`",
    "unknown_variables": "variables that look like ours but are not, with the closest one",
    "cache": "`root`, `mode`, `off`, `entries`, `nbytes`, `max_bytes`",
    "cpu": "`model`, `processors`, `usable`, `memory_bytes`, `digest` (part of the cache key)",
    "rocm": "`libraries`, `kernel_driver`, `gpus`; with `--probe` also `probe`",
    "torch": "`present`, `location`",
}


@click.command(cls=Command)
@click.option("--probe", is_flag=True, help="Load ROCm's library, in another process, and ask it.")
@click.pass_obj
def command(state: State, probe: bool) -> None:
    """Say what is installed, what is set, and what this machine has.

    It looks without importing the packages, and prints whatever can be found when some of them
    are broken or missing.
    """
    about = report(probe=probe)
    if state.json:
        emit(about)
        return
    for section, found in about.items():
        say(bold(section.replace("_", " ")))
        if section == "settings" and isinstance(found, list):
            table(
                ["  setting", "value", "from", "variable"],
                [[f"  {row['name']}", row["value"], row["origin"], row["env"]] for row in found],
            )
        elif isinstance(found, dict) and found:
            facts([(f"  {name}", _text(value, name)) for name, value in found.items()])
        else:
            say("  none" if not found else f"  {found}")
        say()


def _text(value: Any, name: str = "") -> Any:
    if name == "off":  # why the cache is
        return value or "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{k} {v}" for k, v in value.items()) or "none"
    return value
