# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree targets``: what code can be compiled for."""

from __future__ import annotations

import click

from ...jit.target import Target
from .options import Command, State
from .output import emit, say, table

JSON: dict[str, str] = {"targets": "of each one `target`, `arch`, `family`, `backend`, `drivers`"}


@click.command(cls=Command)
@click.pass_obj
def command(state: State) -> None:
    """List the targets that code can be compiled for; no hardware is needed for that."""
    names = ("target", "arch", "family", "backend", "drivers")
    rows = [
        (str(t), t.arch, t.family, t.backend, list(t.drivers))
        for t in map(Target.parse, Target.known())
    ]
    if state.json:
        emit({"targets": [dict(zip(names, row, strict=True)) for row in rows]})
        return
    table(names, [(*row[:-1], ", ".join(row[-1])) for row in rows])
    say()
    say(
        "cpu:NAME takes any CPU name of LLVM; gfx9 targets take modes, as in gfx942:sramecc+:xnack-"
    )
