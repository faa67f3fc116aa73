# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree repro``: a folder that repeats one row of a run by itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from ...graph_api.errors import CompileError, NotSupportedError
from ...jit.settings import scope, settings
from .options import Command, State
from .output import emit, say, shown, talk, working

if TYPE_CHECKING:
    from ...graph_api.frozen import FrozenGraph
    from ..sweep.contestants import Contestant
    from ..sweep.row import Header, Row

JSON: dict[str, str] = {
    "key, status": "of the row",
    "folder": "what was written to",
    "files": "names of the files and folders in it",
    "ir": "`written`; `failed`: the compiler failed again, `compiler` repeats it; `none`: the "
    "engine compiles nothing, or the graph is declined",
    "said": "why there is no IR, or what the compiler said; empty otherwise",
    "again": "the command that repeats the row",
}


@click.command(cls=Command)
@click.argument("run", metavar="RUN")
@click.argument("case", metavar="CASE")
@click.option("-o", "--output", metavar="DIR", required=True, help="A folder to be made.")
@click.option(
    "--suite", metavar="SUITE", help="Where the suite of the row is now, if it has moved."
)
@click.pass_obj
def command(state: State, run: str, case: str, output: str, suite: str | None) -> None:
    """Write what repeats a row of RUN: graph, inputs, script, IR and versions.

    CASE is the key of a row (case|type|engine|target) or the name of a case, of which the first
    row that failed is taken.  The graph is that of the row, or it is an error: a suite that has
    changed since gives another digest.  DIR/run.sh repeats the row; stages has the IR of every
    stage, and compiler what repeats a failed compilation without this project.
    """
    from ...graph_api.dynamic import at_sizes
    from ..sweep.contestants import contestant
    from ..sweep.repro import about_row, find_row, graph_of, script
    from ..sweep.row import read_run
    from .files import file_errors, write, write_outputs

    with file_errors(run):
        row, header = find_row(read_run(Path(run)), case)
    graph, sizes = graph_of(row, suite or row.suite)
    who = contestant(row.engine, settings())
    folder = Path(output)
    with file_errors(folder, "write to"):
        folder.mkdir(parents=True)  # nothing that is there is mixed with it
    write(folder / "graph.json", f"{_json(graph)}\n".encode())
    at = at_sizes(graph, sizes) if sizes else graph
    write_outputs(str(folder / "inputs.npz"), at, _inputs(at, row))
    write(folder / "row.json", about_row(row, header).encode())
    write(folder / "run.sh", script(row, header, who, sizes).encode())
    (folder / "run.sh").chmod(0o755)
    with working("compiling"):
        ir, said = _stages(graph, row, header, who, folder)
    files = sorted(path.name for path in folder.iterdir())
    about = {"key": row.key, "status": row.status, "folder": output, "files": files}
    if state.json:
        emit({**about, "ir": ir, "said": said, "again": str(folder / "run.sh")})
        return
    say(shown(f"{row.status}: {row.key}"))
    if said:
        talk(said)
    say(f"{folder / 'run.sh'} repeats it")


def _json(graph: FrozenGraph) -> str:
    from ...graph_api.formats.json.json_form import dumps

    return dumps(graph)


def _inputs(graph: FrozenGraph, row: Row) -> Mapping[int, Any]:
    """Return the inputs that the row was checked with."""
    from ..sweep.checking import Data, inputs_of

    kinds: dict[str, Data] = {kind: kind for kind in get_args(Data)}
    return inputs_of(graph, kinds.get(row.check.data if row.check else "", "normal"))


def _stages(
    graph: FrozenGraph, row: Row, header: Header, who: Contestant, folder: Path
) -> tuple[str, str]:
    """Compile anew with every stage in a folder; return what came of it, and what was said."""
    from ...jit.options import BuildOptions
    from ...jit.pipeline import dump
    from ...jit.target import Target
    from ..engines.iree.iree_engine import IreeEngine, settings_with
    from ..registry import engine
    from ..selection.select import choose

    reproducers = {"reproducers_dir": folder / "compiler", "reproducers_keep": 5}
    with scope(**{**header.options.get("settings", {}), **reproducers}) as now:
        if who.engine is not None and engine(who.engine, now).NAME != IreeEngine.NAME:
            return "none", f"{row.engine} has no IR"
        its = who.under(now, 0)
        try:
            choice = choose(graph, row.target, its, engine_name="iree", knobs=row.knobs).choice
            options = BuildOptions.of(settings_with(its, choice))
            dump(graph, Target.parse(row.target), folder / "stages", options)
        except CompileError as error:
            return "failed", str(error)
        except NotSupportedError as error:
            return "none", str(error)
    return "written", ""
