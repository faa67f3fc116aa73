# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree sweep export``: a run as a table for other programs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, ClassVar

import click

from .options import Command, State, output_option
from .output import emit, talk
from .sweep_regret import command as regret

__all__ = ["Sweep"]

JSON: dict[str, str] = {
    "run, rows, cut": "file; rows of it; where and why reading ended before the file did, or null",
    "format, file": "what was written, and where",
}


@click.command("export", cls=Command)
@click.argument("run", metavar="RUN")
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "parquet"]),
    help="By default what the name of the file ends with, else csv.  Parquet needs pyarrow.",
)
@output_option("Where to write it, instead of stdout.")
@click.pass_obj
def command(state: State, run: str, form: str | None, output: str | None) -> None:
    """Write the rows of RUN as CSV or Parquet: a column for each fact, such as times.median_us.

    Lists and mappings become JSON text in CSV; in Parquet lists stay lists.
    """
    from ..sweep.export import exported, format_of
    from ..sweep.row import read_run
    from .files import file_errors, write

    form = form or format_of(output or "")
    if output is None and (state.json or (form == "parquet" and sys.stdout.isatty())):
        raise click.UsageError("name a file with -o")
    with file_errors(run):
        found = read_run(Path(run))
    if found.cut is not None:
        talk(f"warning: read up to {found.cut}")
    data = exported(found, form)
    if output is None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    write(output, data)
    about = {"run": run, "rows": len(found.rows), "cut": found.cut}
    if state.json:
        emit({**about, "format": form, "file": output})
    else:
        talk(f"wrote {output}")


class Sweep(Command):
    """The command ``sweep``, of which a first word of ``INNER`` is another command.

    A suite of such a name is ``./export``.
    """

    INNER: ClassVar[dict[str, click.Command]] = {"export": command, "regret": regret}

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        inner = self.INNER.get(args[0]) if args else None
        if inner is None:
            return super().make_context(info_name, args, parent, **extra)
        return inner.make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
