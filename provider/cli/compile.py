"""``hipdnn-iree compile``: compile graphs for any target, without its hardware."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...graph_api.errors import HipdnnIreeError
from ...jit.knobs import scope
from .exits import exit_code
from .options import (
    COMPILING,
    Command,
    State,
    engine_knob_option,
    knob_options,
    output_option,
    target_option,
)
from .output import emit, say, shown, table, talk, working

if TYPE_CHECKING:
    from ...graph_api.frozen import FrozenGraph
    from ...jit.isa import Kernel
    from ...jit.knobs import Settings
    from ...jit.pipeline import Compiled
    from ...jit.target import Target

JSON: dict[str, str] = {
    "graph": "`name` and `digest`; only with one GRAPH",
    "targets": "of each one `target`, and either `error` or `cache`, `seconds`, `stages`, "
    "`vmfb_bytes`, `sha256`, `key`, `workspace_bytes`, `dispatches`, `fills`, `copies`, "
    "`transient_bytes`, `file`, `dump` and `kernels` (null unless asked for): of each kernel "
    "`name`, `vgprs`, `agprs`, `sgprs`, `vgpr_spills`, `sgpr_spills`, `lds_bytes`, "
    "`scratch_bytes`, `mfma`, `mfma_count`; only with one GRAPH",
    "graphs": "of each GRAPH, in the order given, its `path`, `graph` (as above, null when the "
    "file is no sound graph) and `targets` (as above)",
    "summary": "`pairs` of graph and target, of them `compiled`, `hits` (`cache` is `hit`, or "
    "`same` for the code of an earlier pair) and `failed`; `jobs`, and `seconds` of wall time",
    "error": "the first failure; not there without one",
}


@click.command(cls=Command)
@click.argument("graphs", metavar="GRAPHS...", nargs=-1, required=True)
@target_option(
    default=None, multiple=True, help="Target to compile for; may be repeated, or joined by commas."
)
@output_option(
    "Where to write the module; {target} in it stands for the target, {graph} for the name of the "
    "graph's file."
)
@click.option(
    "--dump",
    metavar="DIR",
    help="Compile anew and write every stage there: graph, Torch MLIR, module, IR and assembly "
    "of each dispatch (with several targets, in a folder for each).",
)
@engine_knob_option
@click.option("--kernels", is_flag=True, help="Compile anew and list the gfx9 kernels.")
@knob_options("--jobs", *COMPILING)
@click.pass_obj
def command(
    state: State,
    graphs: tuple[str, ...],
    targets: tuple[Target, ...],
    output: str | None,
    dump: str | None,
    chosen_knobs: dict[str, str],
    kernels: bool,
) -> None:
    """Compile GRAPHS for one or more targets into the cache; no hardware is needed.

    A pair of graph and target that fails does not stop the others; the exit code is that of the
    first failure.
    """
    targets, paths = tuple(dict.fromkeys(targets)), tuple(dict.fromkeys(graphs))
    _check(paths, targets, output, look_inside=dump is not None or kernels)
    begin = time.perf_counter()
    with scope(cache_require_precompiled=False) as now:  # what is precompiled is made here
        if dump is not None or kernels:
            rows = _look_inside(paths[0], targets, chosen_knobs, dump, output)
        else:
            rows = _precompile(paths, targets, chosen_knobs, output)
        jobs = _workers(now)
    failures = [row.error for row in rows if row.error is not None]
    summary = {
        "pairs": len(rows),
        "compiled": sum(row.cache in ("miss", "off", "verified") for row in rows),
        "hits": sum(row.cache in ("hit", "same") for row in rows),
        "failed": len(failures),
        "jobs": jobs,
        "seconds": time.perf_counter() - begin,
    }
    if state.json:
        emit(_as_dict(rows, summary, failures))
    else:
        _print(rows, summary, several=len(paths) > 1)
    for row in rows:
        if row.error is not None:
            talk(f"error [{row.error.code}]: {row.what(several=len(paths) > 1)}: {row.error}")
    if failures:
        raise click.exceptions.Exit(exit_code(failures[0]))


def _workers(now: Settings) -> int:
    from ...jit.compiler.client import worker_count

    return worker_count(now)


def _check(
    paths: tuple[str, ...], targets: tuple[Target, ...], output: str | None, *, look_inside: bool
) -> None:
    for several, what, mark in (
        (len(paths) > 1, "graphs", "{graph}"),
        (len(targets) > 1, "targets", "{target}"),
    ):
        if output is not None and several and mark not in output:
            raise click.UsageError(f"several {what} cannot go to one file; put {mark} in its name")
    if output is not None and len(set(map(_stem, paths))) < len(paths):
        raise click.UsageError("{graph} in -o is the same for several files")
    if look_inside and len(paths) > 1:
        raise click.UsageError("--dump and --kernels are for one graph")


@dataclass(kw_only=True)
class _Row:
    """What came out for one graph and target."""

    path: str
    target: Target
    graph: FrozenGraph | None = None
    cache: str = ""
    compiled: Compiled | None = None
    file: str | None = None
    dump: str | None = None
    kernels: list[Kernel] | None = None
    error: HipdnnIreeError | None = None

    def what(self, *, several: bool) -> str:
        """Return graph and target in words."""
        return f"{shown(self.path)} for {self.target}" if several else str(self.target)

    def write(self, output: str | None) -> None:
        """Write the module to where ``-o`` says."""
        from .files import write

        if output is None or self.compiled is None:
            return
        self.file = output.replace("{target}", _file_name(self.target))
        self.file = self.file.replace("{graph}", _stem(self.path))
        try:
            write(self.file, self.compiled.vmfb)
        except HipdnnIreeError as error:
            self.error = error

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        if self.error is not None:
            code = exit_code(self.error)
            return {
                "target": str(self.target),
                "error": {**self.error.as_dict(), "exit_code": code},
            }
        assert self.compiled is not None
        return {
            "target": str(self.target),
            "cache": self.cache,
            "seconds": sum(self.compiled.seconds.values()),
            "stages": self.compiled.seconds,
            "vmfb_bytes": len(self.compiled.vmfb),
            "sha256": self.compiled.sha256,
            "key": self.compiled.key.digest,
            "workspace_bytes": self.compiled.signature.workspace_bytes,
            **self.compiled.statistics,
            "file": self.file,
            "dump": self.dump,
            "kernels": None if self.kernels is None else [k.as_dict() for k in self.kernels],
        }


def _as_dict(
    rows: list[_Row], summary: dict[str, Any], failures: list[HipdnnIreeError]
) -> dict[str, Any]:
    by_path: dict[str, list[_Row]] = {}
    for row in rows:
        by_path.setdefault(row.path, []).append(row)
    graphs: list[dict[str, Any]] = []
    for path, mine in by_path.items():
        frozen = mine[0].graph
        about = None if frozen is None else {"name": frozen.name, "digest": frozen.digest}
        graphs.append({"path": path, "graph": about, "targets": [row.as_dict() for row in mine]})
    found: dict[str, Any] = {"graphs": graphs, "summary": summary}
    if len(graphs) == 1:
        found = {"graph": graphs[0]["graph"], "targets": graphs[0]["targets"], **found}
    if failures:
        found["error"] = {**failures[0].as_dict(), "exit_code": exit_code(failures[0])}
    return found


def _precompile(
    paths: tuple[str, ...],
    targets: tuple[Target, ...],
    knobs: dict[str, str],
    output: str | None,
) -> list[_Row]:
    """Compile all pairs, several at once, and tell on stderr how far it is."""
    from ..precompile import Precompiled, precompile
    from .files import read_graph

    rows = [_Row(path=path, target=target) for path in paths for target in targets]
    graphs, mine = [], []  # graphs that could be read, and the rows of their pairs
    for k, path in enumerate(paths):
        own = rows[k * len(targets) : (k + 1) * len(targets)]
        try:
            graphs.append(read_graph(path).freeze())
            mine += own
        except HipdnnIreeError as error:
            if len(paths) == 1:
                raise
            for row in own:
                row.error = error
    done = len(rows) - len(mine)

    def progress(made: Precompiled) -> None:
        nonlocal done
        done += 1
        row = mine[made.index]
        row.graph, row.cache, row.compiled = made.graph, made.cache, made.compiled
        row.error = made.error
        row.write(output)
        if many:
            state = "failed" if row.error is not None else _STATES.get(row.cache, "compiled")
            talk(f"[{done}/{len(rows)}] {row.what(several=True)}: {state}, {made.seconds:.2f} s")

    many = len(paths) > 1
    what = f"{len(mine)} modules" if many else f"for {', '.join(map(str, targets))}"
    with working(f"compiling {what}"):
        precompile(graphs, targets, knobs=knobs, progress=progress)
    return rows


_STATES = {"hit": "in the cache", "same": "the same as an earlier one"}


def _look_inside(
    path: str,
    targets: tuple[Target, ...],
    knobs: dict[str, str],
    dump: str | None,
    output: str | None,
) -> list[_Row]:
    """Compile one graph anew for each target, with every stage in a folder."""
    from .files import read_graph

    frozen = read_graph(path).freeze()
    rows = []
    with ExitStack() as stack:
        if dump is None:
            made = tempfile.TemporaryDirectory(prefix="hipdnn-iree-")
            folder = Path(stack.enter_context(made))
        else:
            folder = Path(dump)
        for target in targets:
            place = folder / _file_name(target) if len(targets) > 1 else folder
            row = _Row(path=path, graph=frozen, target=target)
            try:
                _dump(row, knobs, place)
                row.write(output)
            except HipdnnIreeError as error:
                row.error = error
            row.dump = str(place) if dump is not None else None
            rows.append(row)
    return rows


def _dump(row: _Row, knobs: dict[str, str], folder: Path) -> None:
    from ...jit.isa import read_kernels
    from ...jit.pipeline import dump
    from ..engines.iree import under
    from ..select import choose
    from .files import file_errors

    assert row.graph is not None
    chosen = choose(row.graph, row.target, engine_name="iree", knobs=knobs)
    with working(f"compiling for {row.target}"), under(chosen.choice):
        with file_errors(folder, "write to"):
            row.compiled = dump(row.graph, row.target, folder)
        row.cache = row.compiled.cache
        row.kernels = read_kernels(folder) if row.target.is_gfx9 else None


def _stem(path: str) -> str:
    return Path(path).stem if path != "-" else "stdin"


def _file_name(target: Target) -> str:
    return str(target).replace(":", "-")


def _print(rows: list[_Row], summary: dict[str, Any], *, several: bool) -> None:
    done = [(row.path, row.as_dict()) for row in rows if row.error is None]
    if done:
        table(
            [
                *(["graph"] if several else []),
                *("target", "cache", "seconds", "module bytes", "dispatches", "fills", "copies"),
                "transient bytes",
            ],
            [
                [
                    *([path] if several else []),
                    row["target"],
                    row["cache"],
                    f"{row['seconds']:.3f}",
                    *(row[k] for k in ("vmfb_bytes", "dispatches", "fills", "copies")),
                    row["transient_bytes"],
                ]
                for path, row in done
            ],
        )
    for row in rows:
        if row.kernels:
            say()
            _print_kernels(row)
    for _, made in done:
        for what in ("file", "dump"):
            if made[what] is not None:
                talk(f"wrote {made[what]}")
    if several:
        talk(
            f"{summary['compiled']} compiled, {summary['hits']} in the cache, {summary['failed']} "
            f"failed, in {summary['seconds']:.2f} s with {summary['jobs']} at once"
        )


def _print_kernels(row: _Row) -> None:
    table(
        [
            *(f"kernel for {row.target}", "VGPRs", "AGPRs", "SGPRs", "LDS bytes"),
            *("scratch bytes", "spills", "MFMA"),
        ],
        [
            [
                k.name,
                k.vgprs,
                k.agprs,
                k.sgprs,
                k.lds_bytes,
                k.scratch_bytes,
                k.vgpr_spills + k.sgpr_spills,
                ", ".join(f"{n} {name}" for name, n in sorted(k.mfma.items())) or "none",
            ]
            for k in row.kernels or ()
        ],
    )
