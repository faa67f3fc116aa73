# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree compile``: compile graphs for any target, without its hardware."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...graph_api.buckets import in_words
from ...graph_api.errors import HipdnnIreeError
from ...graph_api.frozen import FrozenGraph
from ...jit import scratch
from ...jit.mlir_source import FORMS, MlirSource
from ...jit.options import WorkerOptions
from ...jit.settings import scope, settings
from .device_here import must_fit
from .exits import CHECK_FAILED, exit_code
from .options import (
    COMPILING,
    Command,
    State,
    buckets_option,
    engine_knob_option,
    knob_options,
    must_need_no_graph,
    output_option,
    target_option,
    trace_option,
)
from .output import complain, emit, say, shown, table, talk, working

if TYPE_CHECKING:
    from ...jit.inspect.isa import Kernel
    from ...jit.pipeline import Compiled
    from ...jit.settings import Settings
    from ...jit.stages import Source
    from ...jit.target import Target
    from ..precompile import Precompiled
    from ..verify import OutputReport, Report

JSON: dict[str, str] = {
    "graph": "`name` and `digest`; only with one GRAPH",
    "targets": "of each one `target`, `bucket` (sizes of dynamic dims that the code is made for, "
    "with `--buckets`; else null), and either `error` or `cache`, `seconds`, `stages`, "
    "`vmfb_bytes`, `sha256`, `key`, `workspace_bytes`, `dispatches`, `fills`, `copies`, "
    "`transient_bytes`, `attempt` (by what it compiled where it did not as planned, or null), "
    "`failed` (of each attempt before it `attempt`, `stage`, `cause`, `said`, `reproducer`), "
    "`emulated`: whether the code was executed by emulation, with `--check`, and of that "
    "`verified`, `max_abs_error` and `max_rel_error` (null without); "
    "`file`, `dump` and `kernels` (null unless asked for): of each kernel "
    "`name`, `vgprs`, `agprs`, `sgprs`, `vgpr_spills`, `sgpr_spills`, `lds_bytes`, "
    "`scratch_bytes`, `mfma`, `mfma_count`; only with one GRAPH",
    "graphs": "of each GRAPH, in the order given, its `path`, `graph` (as above, null when the "
    "file is no sound graph) and `targets` (as above)",
    "summary": "`pairs` of graph and target (with `--buckets`, of each bucket), of them "
    "`compiled`, `hits` (`cache` is `hit`, or `same` for the code of an earlier pair), "
    "`failed` and `wrong` (by `--check`); `jobs`, and `seconds` of wall time",
    "error": "the first failure; not there without one",
}


@click.command(cls=Command)
@click.argument("graphs", metavar="GRAPHS...", nargs=-1, required=True)
@target_option(
    default=None, multiple=True, help="Target to compile for; may be repeated, or joined by commas."
)
@output_option(
    "Where to write the module; {target} in it stands for the target, {graph} for the name of the "
    "graph's file, {bucket} for the sizes of the bucket (n8)."
)
@click.option(
    "--dump",
    metavar="DIR",
    help="Compile anew and write every stage there: graph, Torch MLIR, module, IR and assembly "
    "of each dispatch (with several targets or buckets, in a folder for each).",
)
@engine_knob_option
@buckets_option("Compile for sizes that those of dynamic dims are rounded up to")
@click.option("--kernels", is_flag=True, help="Compile anew and list the gfx9 kernels.")
@click.option(
    "--check",
    is_flag=True,
    help="Execute the code for gfx9 on an emulated GPU, on random data, and compare it with the "
    "float64 reference; exit code 1 when a result is off.",
)
@click.option(
    "--from",
    "form",
    type=click.Choice(("graph", *FORMS)),
    help="What GRAPHS are: graph, or an MLIR module in the Torch dialect (torch) or of linalg on "
    "tensors (linalg). By default that is read from each file.",
)
@trace_option()
@knob_options("--jobs", *COMPILING)
@click.pass_obj
def command(
    state: State,
    graphs: tuple[str, ...],
    targets: tuple[Target, ...],
    output: str | None,
    dump: str | None,
    chosen_knobs: dict[str, str],
    buckets: Any,
    kernels: bool,
    check: bool,
    form: str | None,
) -> None:
    """Compile GRAPHS for one or more targets into the cache; no hardware is needed.

    GRAPHS are graph files, artifacts, or MLIR modules: Torch dialect (`show --format torch` writes
    such a file) or linalg on tensors, with one function of tensors of fixed sizes.

    A pair of graph and target that fails does not stop the others; the exit code is that of the
    first failure.
    """
    targets, paths = tuple(dict.fromkeys(targets)), tuple(dict.fromkeys(graphs))
    _check(paths, targets, output, look_inside=dump is not None or kernels, emulate=check)
    begin = time.perf_counter()
    with scope(cache_require_precompiled=False) as now:  # what is precompiled is made here
        rows = _rows(paths, targets, buckets, output, form or "")
        for row in rows:
            if isinstance(row.graph, MlirSource):
                must_need_no_graph(row.path, knob=chosen_knobs, buckets=buckets, check=check)
        if dump is not None or kernels:
            _look_inside(rows, chosen_knobs, dump, output)
        else:
            _precompile(rows, chosen_knobs, output)
        if check:
            _emulate(rows)
        jobs = _workers(now)
    failures = [row.error for row in rows if row.error is not None]
    wrong = [row for row in rows if row.report is not None and not row.report.ok]
    summary = {
        "pairs": len(rows),
        "compiled": sum(row.cache in ("miss", "off", "verified") for row in rows),
        "hits": sum(row.cache in ("hit", "same") for row in rows),
        "failed": len(failures),
        "wrong": len(wrong),
        "jobs": jobs,
        "seconds": time.perf_counter() - begin,
    }
    if state.json:
        emit(_as_dict(rows, summary, failures))
    else:
        _print(rows, summary, several=len(paths) > 1)
    for row in rows:
        if row.error is not None:
            complain(f"error [{row.error.code}]: {row.what(several=len(paths) > 1)}: {row.error}")
    for row in wrong:
        for off in row.wrong_outputs():
            complain(f"check failed: {row.what(several=len(paths) > 1)}: {off}")
    if failures or wrong:
        raise click.exceptions.Exit(exit_code(failures[0]) if failures else CHECK_FAILED)


def _workers(now: Settings) -> int:
    return WorkerOptions.of(now).workers


def _check(
    paths: tuple[str, ...],
    targets: tuple[Target, ...],
    output: str | None,
    *,
    look_inside: bool,
    emulate: bool,
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
    if emulate and (others := [str(target) for target in targets if not target.is_gfx9]):
        raise click.UsageError(
            f"--check: AMD GPUs are emulated, and --target is {', '.join(others)}; "
            "hipdnn-iree run --verify checks what runs here"
        )


@dataclass(kw_only=True)
class _Row:
    """What came out for one graph and target, or for one bucket of it.

    ``graph`` is the graph of the file, ``pair`` what is compiled of it.
    """

    path: str
    target: Target
    graph: Source | None = None
    pair: Precompiled | None = None
    bucket: dict[str, int] | None = None
    cache: str = ""
    compiled: Compiled | None = None
    file: str | None = None
    dump: str | None = None
    kernels: list[Kernel] | None = None
    report: Report | None = None
    error: HipdnnIreeError | None = None

    def what(self, *, several: bool) -> str:
        """Return graph, target and bucket in words."""
        where = f"{self.target} at {in_words(self.bucket)}" if self.bucket else str(self.target)
        return f"{shown(self.path)} for {where}" if several else where

    def wrong_outputs(self) -> list[OutputReport]:
        """Return the outputs that ``--check`` found wrong."""
        return [output for output in self.report.outputs if not output.ok] if self.report else []

    def place(self, pattern: str) -> str:
        """Return a name of a file or folder with graph, target and bucket put in."""
        sizes = "-".join(f"{name}{size}" for name, size in (self.bucket or {}).items())
        pattern = pattern.replace("{target}", _file_name(self.target))
        return pattern.replace("{bucket}", sizes or "all").replace("{graph}", _stem(self.path))

    def write(self, output: str | None) -> None:
        """Write the module to where ``-o`` says."""
        from .files import write

        if output is None or self.compiled is None:
            return
        self.file = self.place(output)
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
                "bucket": self.bucket,
                "error": {**self.error.as_dict(), "exit_code": code},
            }
        assert self.compiled is not None
        from ...jit.pipeline import attempts_as_dict

        return {
            "target": str(self.target),
            "bucket": self.bucket,
            "cache": self.cache,
            "seconds": sum(self.compiled.seconds.values()),
            "stages": self.compiled.seconds,
            "vmfb_bytes": len(self.compiled.vmfb),
            "sha256": self.compiled.sha256,
            "key": self.compiled.key.digest,
            "workspace_bytes": self.compiled.signature.workspace_bytes,
            **self.compiled.statistics,
            **attempts_as_dict(self.compiled.attempt, self.compiled.failed),
            "emulated": self.report is not None,
            "verified": self.report.ok if self.report else None,
            "max_abs_error": self.report.max_abs_error if self.report else None,
            "max_rel_error": self.report.max_rel_error if self.report else None,
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


def _rows(
    paths: tuple[str, ...],
    targets: tuple[Target, ...],
    buckets: Any,
    output: str | None,
    form: str,
) -> list[_Row]:
    """Return a row for each that is to be compiled, or that cannot be."""
    from ..precompile import dims_of, pairs
    from .files import read_source

    sources: dict[str, Source | HipdnnIreeError] = {}
    for path in paths:
        try:
            found, _ = read_source(path, form)
            sources[path] = found if isinstance(found, MlirSource) else found.freeze()
        except HipdnnIreeError as error:
            if len(paths) == 1:
                raise
            sources[path] = error
    sound = [source for source in sources.values() if not isinstance(source, HipdnnIreeError)]
    dims = dims_of(sound)
    rows = []
    for path, source in sources.items():
        if isinstance(source, HipdnnIreeError):
            rows += [_Row(path=path, target=target, error=source) for target in targets]
            continue
        mine = [
            _Row(
                path=path,
                target=pair.target,
                graph=source,
                pair=pair,
                bucket=pair.bucket,
                error=pair.error,
            )
            for pair in pairs([source], targets, buckets, dims)
        ]
        fixed = isinstance(source, FrozenGraph) and not source.symbols
        if buckets is not None and fixed and not any(row.error for row in mine):
            talk(f"note: {shown(path)} has no dynamic dims; --buckets changes nothing for it")
        rows += mine
    if output is not None and len({row.place(output) for row in rows}) < len(rows):
        raise click.UsageError("several buckets cannot go to one file; put {bucket} in its name")
    return rows


def _precompile(rows: list[_Row], knobs: dict[str, str], output: str | None) -> None:
    """Compile all rows, several at once, and tell on stderr how far it is."""
    from ..precompile import compile_all
    from .progress import Progress

    mine = [row for row in rows if row.pair is not None and row.error is None]
    many = len({row.path for row in rows}) > 1 or any(row.bucket for row in rows)
    several = Progress("compiling", len(mine)) if many or len(mine) > 1 else None

    def progress(made: Precompiled) -> None:
        row = mine[made.index]
        row.cache, row.compiled, row.error = made.cache, made.compiled, made.error
        row.write(output)
        if several is not None:
            state = "failed" if row.error is not None else _STATES.get(row.cache, "compiled")
            line = f"{row.what(several=True)}: {state}, {made.seconds:.2f} s"
            several.step(line=line if many else "")

    todo = [replace(row.pair, index=i) for i, row in enumerate(mine) if row.pair is not None]
    with several or working(f"compiling for {', '.join(str(row.target) for row in mine)}"):
        compile_all(todo, knobs=knobs, progress=progress)


_STATES = {"hit": "in the cache", "same": "the same as an earlier one"}


def _look_inside(
    rows: list[_Row], knobs: dict[str, str], dump: str | None, output: str | None
) -> None:
    """Compile the rows anew, with every stage in a folder."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(scratch.folder()) if dump is None else dump)
        several = len({row.target for row in rows}) > 1
        for row in rows:
            place = folder / row.place("{target}") if several else folder
            place = place / row.place("{bucket}") if row.bucket else place
            if row.error is None:
                try:
                    _dump(row, knobs, place)
                    row.write(output)
                except HipdnnIreeError as error:
                    row.error = error
            row.dump = str(place) if dump is not None else None


def _dump(row: _Row, knobs: dict[str, str], folder: Path) -> None:
    from ...jit.inspect.isa import read_kernels
    from ...jit.options import BuildOptions
    from ...jit.pipeline import dump
    from ..engines.iree.iree_engine import settings_with
    from ..selection.select import choose
    from .files import file_errors

    assert row.pair is not None
    graph = row.pair.graph
    assert graph is not None
    now = settings()
    if isinstance(graph, FrozenGraph):
        choice = choose(graph, row.target, now, engine_name="iree", knobs=knobs).choice
        now = settings_with(now, choice)
    options = BuildOptions.of(now)
    with working(f"compiling for {row.target}"):
        with file_errors(folder, "write to"):
            row.compiled = dump(graph, row.target, folder, options)
        row.cache = row.compiled.cache
        row.kernels = read_kernels(folder) if row.target.is_gfx9 else None


def _emulate(rows: list[_Row]) -> None:
    """Check what was compiled by emulation."""
    from ..emulated_check import check_code

    for row in rows:
        if row.error is None and row.pair is not None and isinstance(row.pair.graph, FrozenGraph):
            assert row.compiled is not None
            try:
                must_fit(row.pair.graph)
                with working(f"emulating {row.target}"):
                    row.report = check_code(row.pair.graph, row.target, row.compiled, settings())
            except HipdnnIreeError as error:
                row.error = error


def _stem(path: str) -> str:
    return Path(path).stem if path != "-" else "stdin"


def _file_name(target: Target) -> str:
    return str(target).replace(":", "-")


def _print(rows: list[_Row], summary: dict[str, Any], *, several: bool) -> None:
    done = [(row.path, row.as_dict()) for row in rows if row.error is None]
    buckets = any(row.bucket for row in rows)
    checked = any(row.report for row in rows)
    if done:
        table(
            [
                *(["graph"] if several else []),
                "target",
                *(["bucket"] if buckets else []),
                *("cache", "seconds", "module bytes", "dispatches", "fills", "copies"),
                "transient bytes",
                *(["emulated"] if checked else []),
            ],
            [
                [
                    *([path] if several else []),
                    row["target"],
                    *([in_words(row["bucket"] or {}) or "-"] if buckets else []),
                    row["cache"],
                    f"{row['seconds']:.3f}",
                    *(row[k] for k in ("vmfb_bytes", "dispatches", "fills", "copies")),
                    row["transient_bytes"],
                    *(["right" if row["verified"] else "WRONG"] if checked else []),
                ]
                for path, row in done
            ],
        )
    for row in rows:
        if row.kernels:
            say()
            _print_kernels(row)
    for _, made in done:
        if made["attempt"]:
            talk(f"{made['target']}: does not compile as planned; served with: {made['attempt']}")
        for what in ("file", "dump"):
            if made[what] is not None:
                talk(f"wrote {made[what]}")
    if several or buckets:
        talk(
            f"{summary['compiled']} compiled, {summary['hits']} in the cache, {summary['failed']} "
            f"failed, in {summary['seconds']:.2f} s with {summary['jobs']} at once"
        )


def _print_kernels(row: _Row) -> None:
    table(
        [
            *(f"kernel for {row.what(several=False)}", "VGPRs", "AGPRs", "SGPRs", "LDS bytes"),
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
