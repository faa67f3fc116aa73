# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree tune``: measure every engine and every way of building, and remember the times."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...graph_api.errors import HipdnnIreeError
from ...jit.settings import settings
from .exits import CHECK_FAILED, exit_code
from .options import (
    COMPILING,
    RUNNING,
    Command,
    State,
    emulate_option,
    engine_knob_option,
    html_option,
    knob_options,
    target_option,
)
from .output import bold, complain, emit, number, say, shown, table, talk

if TYPE_CHECKING:
    from ...jit.target import Target
    from ..selection.autotune import Row, TuneResult

JSON: dict[str, str] = {
    "graphs": "of each one `file`, and either `error` or `graph` (`name`, `digest`), `target`, "
    "`winner` (a row, or null), `rows`, `seconds` and `stored`; of each row `engine`, "
    "`engine_id`, `knobs`, `status` (`ok`, `same` code as an earlier row, `wrong`, `failed`, "
    "`declined`), `reason`, `median_us`, `low_us`, `high_us` (quartiles), `noise` (half their "
    "distance over the median), `samples`, `max_rel_error`, `build_s`; and `emulated`: whether the "
    "GPU is, so that there are neither times nor a winner",
    "winners": "file that the times are remembered in",
    "imported": "entries read with `--import`, or null",
    "exported": "entries or rules written with `--export`, or null",
    "error": "the first failure; not there without one",
}


@click.command(cls=Command)
@click.argument("graphs", metavar="[GRAPH]...", nargs=-1)
@target_option(help="Machine to measure on; it has to be here.")
@emulate_option
@click.option(
    "--engines",
    metavar="NAMES",
    help="Engines to measure, separated by commas; by default all but the reference.",
)
@engine_knob_option
@click.option(
    "--budget",
    type=click.FloatRange(min=0.01, max=3600),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Of measuring for each graph; compiling and checking come on top.",
)
@click.option("--store/--no-store", default=True, help="Whether to remember the times.")
@click.option("--export", "out", metavar="FILE", help="Write what is remembered, at the end.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["winners", "hipdnn"]),
    default="winners",
    show_default=True,
    help="Of --export: for --import elsewhere, or rules for hipDNN's HIPDNN_HEUR_CONFIG_PATH.",
)
@click.option("--import", "source", metavar="FILE", help="Read an exported file first.")
@html_option
@knob_options(*COMPILING, *RUNNING)
@click.pass_obj
def command(
    state: State,
    graphs: tuple[str, ...],
    target: Target,
    engines: str | None,
    chosen_knobs: dict[str, str],
    budget: float,
    store: bool,
    out: str | None,
    form: str,
    source: str | None,
    page: str | None,
) -> None:
    """Measure each GRAPH on every engine, built in every way, and remember the times.

    A candidate counts only when its result is right.  On an emulated GPU that is all that is
    found: nothing is measured, and the exit code of a wrong result is 1.  A graph that fails does
    not stop the others; the exit code is that of the first failure, and 1 when no candidate was
    right.
    """
    if not (graphs or out or source):
        raise click.UsageError("nothing to do: name a graph, --export or --import")
    from ..selection.exchange import export, import_file
    from .files import file_errors

    winners_file = settings().engine_winners
    names = engines.replace(",", " ").split() if engines is not None else None
    imported = None
    if source is not None:
        with file_errors(source):
            imported = import_file(Path(source), winners_file)
    rows: list[dict[str, Any]] = []
    failures: list[tuple[str, Exception]] = []
    for path in graphs:
        try:
            found = _tune(path, target, names, chosen_knobs, budget, store=store)
        except (HipdnnIreeError, OSError) as error:
            rows.append({"file": path, "error": _error(error)})
            failures.append((path, error))
            continue
        rows.append({"file": path, **found.as_dict()})
        if not state.json:
            _print(path, found)
    exported = None
    if out is not None:
        try:
            with file_errors(out, "write"):
                exported = export(Path(out), winners_file, form=form)
        except HipdnnIreeError as error:  # what was measured is told all the same
            failures.append((out, error))
    about = {
        "graphs": rows,
        "winners": str(winners_file),
        "imported": imported,
        "exported": exported,
        **({"error": _error(failures[0][1])} if failures else {}),
    }
    if page is not None and rows:
        from ..pages.tune_page import tune_page
        from .files import write_page

        write_page(page, tune_page(about))
    if state.json:
        emit(about)
    for path, failure in failures:
        complain(f"error: {path}: {failure}")
    if imported is not None:
        talk(f"read {imported} entries from {source}")
    if exported is not None:
        talk(f"wrote {exported} {'rules' if form == 'hipdnn' else 'entries'} to {out}")
    if failures:
        raise click.exceptions.Exit(_code(failures[0][1]))
    if any(row["winner"] is None and not _right(row) for row in rows):
        raise click.exceptions.Exit(CHECK_FAILED)


def _right(row: dict[str, Any]) -> bool:
    """Whether emulation, which has no winners, found a candidate right and none wrong."""
    statuses = {one["status"] for one in row["rows"]}
    return bool(row["emulated"]) and "ok" in statuses and "wrong" not in statuses


def _error(error: Exception) -> dict[str, Any]:
    about = error.as_dict() if isinstance(error, HipdnnIreeError) else {"message": str(error)}
    return {**about, "exit_code": _code(error)}


def _code(error: Exception) -> int:
    from ...graph_api.errors import FormatError

    return exit_code(FormatError(str(error)) if isinstance(error, OSError) else error)


def _tune(
    path: str,
    target: Target,
    names: list[str] | None,
    knobs: dict[str, str],
    budget: float,
    *,
    store: bool,
) -> TuneResult:
    from ..selection.autotune import tune
    from .files import read_graph
    from .progress import Progress

    frozen = read_graph(path).freeze()
    with Progress(f"tuning {path}", 0) as progress:
        return tune(
            frozen,
            target,
            settings(),
            engines=names,
            knobs=knobs,
            budget_s=budget,
            store=store,
            progress=progress.at,
        )


def _quartiles(row: Row) -> str | None:
    """Return the quartiles; of a single sample there are none."""
    if row.times is None or row.times.samples < 2:
        return None
    return f"{number(row.times.low, 4)} to {number(row.times.high, 4)}"


def _print(path: str, found: TuneResult) -> None:
    say(bold(f"{shown(path)} on {found.target}" + ", emulated" * found.emulated))
    ordered = sorted(
        found.rows, key=lambda row: (row.times is None, row.times.median if row.times else 0.0)
    )
    table(
        ["engine", "knobs", "median µs", "quartiles", "samples", "max rel error", "result"],
        [
            [
                row.engine,
                ", ".join(f"{name}={value}" for name, value in row.knobs.items()) or "defaults",
                number(row.times.median, 4) if row.times else None,
                _quartiles(row),
                row.times.samples if row.times else None,
                None if row.max_rel_error is None else number(row.max_rel_error),
                "winner" if row is found.winner else row.status,
            ]
            for row in ordered
        ],
    )
    for row in ordered:
        if row.status in ("wrong", "failed", "declined"):
            say(f"  {row.engine} {row.status}: {shown(row.reason)}")
    say(f"  {found.seconds:.1f} s; {'remembered' if found.stored else 'not remembered'}")
    say()
