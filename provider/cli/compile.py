"""``hipdnn-iree compile``: compile a graph for any target, without its hardware."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...graph_api.errors import HipdnnIreeError
from .exits import exit_code
from .options import (
    COMPILING,
    Command,
    State,
    engine_knob_option,
    graph_argument,
    knob_options,
    output_option,
    target_option,
)
from .output import emit, say, table, talk, working

if TYPE_CHECKING:
    from ...graph_api.frozen import FrozenGraph
    from ...jit.isa import Kernel
    from ...jit.pipeline import Compiled
    from ...jit.target import Target

JSON: dict[str, str] = {
    "graph": "`name` and `digest`",
    "targets": "of each one `target`, and either `error` or `cache`, `seconds`, `stages`, "
    "`vmfb_bytes`, `sha256`, `key`, `workspace_bytes`, `dispatches`, `fills`, `copies`, "
    "`transient_bytes`, `file`, `dump` and `kernels` (null unless asked for): of each kernel "
    "`name`, `vgprs`, `agprs`, `sgprs`, `vgpr_spills`, `sgpr_spills`, `lds_bytes`, "
    "`scratch_bytes`, `mfma`, `mfma_count`",
    "error": "the first failure; not there without one",
}


@click.command(cls=Command)
@graph_argument
@target_option(default=None, multiple=True, help="Target to compile for; may be repeated.")
@output_option("Where to write the module; {target} in it stands for the target.")
@click.option(
    "--dump",
    metavar="DIR",
    help="Compile anew and write every stage there: graph, Torch MLIR, module, IR and assembly "
    "of each dispatch (with several targets, in a folder for each).",
)
@engine_knob_option
@click.option("--kernels", is_flag=True, help="Compile anew and list the gfx9 kernels.")
@knob_options(*COMPILING)
@click.pass_obj
def command(
    state: State,
    graph: str,
    targets: tuple[Target, ...],
    output: str | None,
    dump: str | None,
    chosen_knobs: dict[str, str],
    kernels: bool,
) -> None:
    """Compile GRAPH for one or more targets; no hardware is needed.

    A target that fails does not stop the others; the exit code is that of the first failure.
    """
    from .files import read_graph

    targets = tuple(dict.fromkeys(targets))
    if output is not None and len(targets) > 1 and "{target}" not in output:
        raise click.UsageError("several targets cannot go to one file; put {target} in its name")
    frozen = read_graph(graph).freeze()
    rows = []
    with ExitStack() as stack:
        folder = Path(dump) if dump is not None else None
        if folder is None and kernels:
            made = tempfile.TemporaryDirectory(prefix="hipdnn-iree-")
            folder = Path(stack.enter_context(made))
        for target in targets:
            place = folder / _file_name(target) if folder and len(targets) > 1 else folder
            row = _attempt(frozen, target, chosen_knobs, place, output)
            row.dump = str(place) if dump is not None else None
            rows.append(row)
    failures = [row.error for row in rows if row.error is not None]
    if state.json:
        about: dict[str, Any] = {"graph": {"name": frozen.name, "digest": frozen.digest}}
        about["targets"] = [row.as_dict() for row in rows]
        if failures:
            about["error"] = {**failures[0].as_dict(), "exit_code": exit_code(failures[0])}
        emit(about)
    else:
        _print(rows)
    for row in rows:
        if row.error is not None:
            talk(f"error [{row.error.code}]: {row.target}: {row.error}")
    if failures:
        raise click.exceptions.Exit(exit_code(failures[0]))


@dataclass(kw_only=True)
class _Row:
    """What came out for one target."""

    target: Target
    compiled: Compiled | None = None
    file: str | None = None
    dump: str | None = None
    kernels: list[Kernel] | None = None
    error: HipdnnIreeError | None = None

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
            "cache": self.compiled.cache,
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


def _attempt(
    frozen: FrozenGraph,
    target: Target,
    knobs: dict[str, str],
    folder: Path | None,
    output: str | None,
) -> _Row:
    from ...jit.isa import read_kernels
    from ...jit.pipeline import compile_graph, dump
    from ..engines.iree import under
    from ..select import choose
    from .files import file_errors, write

    row = _Row(target=target)
    try:
        chosen = choose(frozen, target, engine_name="iree", knobs=knobs)
        with working(f"compiling for {target}"), under(chosen.choice):
            if folder is None:
                row.compiled = compile_graph(frozen, target)
            else:
                with file_errors(folder, "write to"):
                    row.compiled = dump(frozen, target, folder)
                row.kernels = read_kernels(folder) if target.is_gfx9 else None
        if output is not None:
            row.file = output.replace("{target}", _file_name(target))
            write(row.file, row.compiled.vmfb)
    except HipdnnIreeError as error:
        row.error = error
    return row


def _file_name(target: Target) -> str:
    return str(target).replace(":", "-")


def _print(rows: list[_Row]) -> None:
    done = [row.as_dict() for row in rows if row.error is None]
    if done:
        table(
            [
                *("target", "cache", "seconds", "module bytes", "dispatches", "fills", "copies"),
                "transient bytes",
            ],
            [
                [
                    row["target"],
                    row["cache"],
                    f"{row['seconds']:.3f}",
                    *(row[k] for k in ("vmfb_bytes", "dispatches", "fills", "copies")),
                    row["transient_bytes"],
                ]
                for row in done
            ],
        )
    for row in rows:
        if row.kernels:
            say()
            _print_kernels(row)
    for made in done:
        for what in ("file", "dump"):
            if made[what] is not None:
                talk(f"wrote {made[what]}")


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
