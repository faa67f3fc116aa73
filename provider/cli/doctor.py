# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree doctor``: what is broken here, and what to do about it."""

from __future__ import annotations

import click

from .diagnosis import as_dict, examine
from .exits import CHECK_FAILED
from .options import Command, State
from .output import count, emit, label, say, shown, working

JSON: dict[str, str] = {
    "ok": "whether nothing is broken that is needed",
    "findings": "of each `check`, `state` (`ok`, `note`: may be meant, or `problem`), what was "
    "`found`, and of notes and problems the `remedy`",
}


@click.command(cls=Command)
@click.option(
    "--run/--no-run",
    "runs",
    default=True,
    show_default=True,
    help="Compile a small graph for this CPU, run it and check the result.",
)
@click.pass_obj
def command(state: State, runs: bool) -> None:
    """Say what is broken here, and what to do about it; exit code 1 when something is.

    It looks at Python, packages and their versions, settings, the cache, compiler and runtime,
    GPUs with HIP, and hipDNN.  A GPU and hipDNN are needed only where they are installed.
    Libraries are loaded in other processes, so that nothing that is broken stops it.
    """
    with working("looking"):
        findings = examine(runs=runs)
    problems = [f for f in findings if f.state == "problem"]
    if state.json:
        emit(as_dict(findings))
    else:
        for one in findings:
            say(f"{label(one.state, 8)} {one.check:10} {shown(one.found)}")
            if one.remedy:
                say(f"{'':19} {shown(one.remedy)}")
        say()
        say(count(len(problems), "problem", "problems") if problems else "nothing is broken")
    if problems:
        raise click.exceptions.Exit(CHECK_FAILED)
