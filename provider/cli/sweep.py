# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree sweep``: many problems, right or wrong, fast or slow, a row for each."""

from __future__ import annotations

import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...graph_api.errors import SettingError
from ...jit.settings import settings
from .exits import CHECK_FAILED
from .options import State, case_option, knob_options
from .output import count, emit, say, shown, table, talk
from .sweep_export import Sweep

if TYPE_CHECKING:
    from ..sweep.case_task import CaseTask, SweepOptions
    from ..sweep.checking import Data
    from ..sweep.row import Row

JSON: dict[str, str] = {
    "run": "the file",
    "rows": "rows that it has at the end, of each case, type, engine and target one",
    "new": "rows that were added",
    "counts": "of all rows, by status: `ok`, `wrong`, `declined`, `invalid`, `compile-error`, "
    "`crash`, `timeout`, `out-of-memory`",
    "failed": "`key`, `status` and `detail` of the rows that are `wrong` or could not be finished",
    "seconds": "wall time",
    "cases": "with `--list`, instead of all these: `name`, `dtype`, `tags`, `target`, `source`",
}

_SHARE = 0.8  # of the machine's memory, for all processes together


@click.command(cls=Sweep)
@click.argument("suites", metavar="SUITE...", nargs=-1, required=True)
@click.option(
    "--engines",
    metavar="NAME,...",
    default="iree",
    show_default=True,
    help="Engines by alias, and the other names that `bench` knows.",
)
@click.option("--targets", metavar="NAME,...", default="cpu", show_default=True, help="Machines.")
@case_option
@click.option(
    "--check/--no-check",
    default=True,
    show_default=True,
    help="Whether results are held against the float64 reference.",
)
@click.option(
    "--data",
    type=click.Choice(["normal", "whole", "special", "denormal"]),
    default="normal",
    show_default=True,
    help="Inputs: whole numbers have exact sums; `special` has NaN and infinities in places.",
)
@click.option("--perf/--no-perf", default=False, help="Whether what is right is timed as well.")
@click.option(
    "--strategies",
    is_flag=True,
    help="Also build each case with every strategy that fits it; `sweep regret` compares times.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.0),
    default=0.2,
    show_default=True,
    help="With --perf: time for each engine in each case; five rounds are made at least.",
)
@click.option(
    "--emulate",
    "emulation",  # `Command` takes the other name away
    is_flag=True,
    help="Execute small problems for gfx9 targets by emulation: right or wrong, no times.",
)
@click.option(
    "--devices", metavar="LIST", default="0", show_default=True, help="GPUs, such as 0-3,6."
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    help="Processes that build and check at one time; by default one for each CPU.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0.1),
    default=300.0,
    show_default=True,
    help="Seconds for one engine in one case, after which its process is ended.",
)
@click.option(
    "--memory",
    metavar="BYTES",
    help="Memory that a case may take, such as 8GiB, 0 for any; by default its share of four "
    "fifths of the machine's.",
)
@click.option("--resume", is_flag=True, help="Go on with a run that is there.")
@click.option("--list", "only_list", is_flag=True, help="Print what there is to do, and end.")
@click.option(
    "-o", "--output", metavar="RUN", default="sweep.jsonl", show_default=True, help="The run."
)
@knob_options("--threads", "--cache", "--cache-dir", "--opt-level", "--extra-flags")
@click.pass_obj
def command(
    state: State,
    suites: tuple[str, ...],
    engines: str,
    targets: str,
    pattern: re.Pattern[str] | None,
    check: bool,
    data: Data,
    perf: bool,
    strategies: bool,
    seconds: float,
    emulation: bool,
    devices: str,
    jobs: int | None,
    timeout_s: float,
    memory: str | None,
    resume: bool,
    only_list: bool,
    output: str,
) -> None:
    """Build, check and time every case of each SUITE, and append a row of each to RUN.

    A SUITE is a file of problems, the name of one that comes with this project, a folder, a graph
    file, or a line of MIOpenDriver.
    A case runs in a process of its own: one that crashes, hangs or takes too much memory is a
    row, and the next one runs.  What is stopped, in whatever way, goes on with --resume.  The
    exit code is 1 when a row is wrong or could not be finished; declining is no failure.
    """
    from ..sweep.case_task import SweepOptions
    from ..sweep.process_pool import Limits
    from ..sweep.regret import ENGINE, with_strategies
    from ..sweep.run_file import RunFile
    from ..sweep.runner import header, sweep
    from .files import file_errors
    from .progress import Progress

    begin = time.perf_counter()
    options = SweepOptions(
        check=check,
        data=data,
        perf=perf,
        seconds=seconds,
        emulate=emulation,
        devices=_numbers(devices),
        settings=dict(state.knobs),
    )
    names = _engines(engines)
    if strategies and ENGINE not in names:
        raise SettingError(f"--strategies is for engine {ENGINE}; --engines is {engines!r}")
    tasks = list(_tasks(suites, names, _targets(targets), pattern, options))
    if strategies and not only_list:
        tasks = [with_strategies(task) for task in tasks]
    if not tasks:
        why = f"none is for --targets {targets}"
        if pattern is not None:
            why = f"--case {pattern.pattern!r} matches none"
        raise SettingError(f"of the cases of {', '.join(suites)} {why}; --list shows what there is")
    if only_list:
        _list(tasks, state)
        return
    jobs = jobs or len(os.sched_getaffinity(0))
    limits = Limits(timeout_s=timeout_s, memory=_memory(memory, jobs))
    # The default memory follows the number of jobs, which says nothing about a row.
    conditions = {**options.as_dict(), "timeout_s": timeout_s, "memory": memory}
    path = Path(output)
    with file_errors(path, "write"):
        run = RunFile(path, header(sys.argv[1:], conditions), resume=resume)
    with run:
        for line in run.said:
            talk(line)
        total = sum(len(task.engines) for task in tasks)
        try:
            with Progress("sweep", total) as progress:
                found = sweep(
                    tasks,
                    run,
                    jobs=jobs,
                    limits=limits,
                    told=lambda row: progress.step(_failure(row)),
                )
        except KeyboardInterrupt:
            talk(f"{path} has what is known; --resume goes on")
            raise
    failed = _conclude(path, found.total(), time.perf_counter() - begin, state)
    if failed:
        sys.exit(CHECK_FAILED)


def _tasks(
    suites: tuple[str, ...],
    engines: tuple[str, ...],
    targets: tuple[str, ...],
    pattern: re.Pattern[str] | None,
    options: SweepOptions,
) -> Iterator[CaseTask]:
    """Yield a task for each case, type and target."""
    from ..sweep.case_task import CaseTask
    from ..sweep.sources import read_all

    suite = read_all(suites)
    given = "runtime_threads" in options.settings
    for target in targets:
        for case in suite.by_type(target):
            if pattern is None or case.matches(pattern):
                yield CaseTask(
                    case=case,
                    engines=engines,
                    target=target,
                    threads=settings().runtime_threads if given else suite.threads,
                    options=options,
                )


def _words(text: str, option: str) -> tuple[str, ...]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words or len(set(words)) < len(words):
        raise SettingError(f"{option} is {text!r}; wanted names, each once")
    return tuple(words)


def _engines(text: str) -> tuple[str, ...]:
    from ..sweep.contestants import contestant

    return tuple(contestant(name, settings()).name for name in _words(text, "--engines"))


def _targets(text: str) -> tuple[str, ...]:
    from ...jit.target import Target

    return tuple(dict.fromkeys(str(Target.parse(name)) for name in _words(text, "--targets")))


def _numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of ``0-3,6``."""
    found: list[int] = []
    for word in _words(text, "--devices"):
        match = re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", word)
        if match is None:
            raise SettingError(f"--devices is {text!r}; wanted numbers and ranges, such as 0-3,6")
        found += range(int(match[1]), int(match[2] or match[1]) + 1)
    if not found:
        raise SettingError(f"--devices is {text!r}, which is an empty range")
    return tuple(dict.fromkeys(found))


def _memory(text: str | None, jobs: int) -> int:
    if text is None:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return int(_SHARE * machine / jobs) >> 20 << 20
    from ...jit.settings_kinds import nbytes_or_none

    try:
        return nbytes_or_none(text)
    except ValueError:
        raise SettingError(f"--memory is {text!r}; wanted bytes, such as 8GiB, or 0") from None


def _list(tasks: list[CaseTask], state: State) -> None:
    rows = [(t.case.name, t.dtype, ", ".join(t.case.tags), t.target, t.case.source) for t in tasks]
    names = ("name", "dtype", "tags", "target", "source")
    if state.json:
        emit({"cases": [dict(zip(names, row, strict=True)) for row in rows]})
        return
    table(names, rows)
    engines = len(tasks[0].engines) if tasks else 0
    say(f"{count(len(rows), 'case', 'cases')}, {count(engines, 'engine', 'engines')}")


def _failure(row: Row | None) -> str:
    """Return the line of a row that failed, else nothing."""
    from ..sweep.row import FAILED

    if row is None or row.status not in FAILED:
        return ""
    return f"{row.status}: {row.key}: {row.detail}"


def _conclude(path: Path, new: int, seconds: float, state: State) -> bool:
    """Print what the run has come to; return whether something failed."""
    from ..sweep.row import FAILED, STATUSES, Row, RunReader

    found: dict[str, tuple[str, str, str]] = {}
    for entry in RunReader(path):  # not kept as rows: a run may be long
        if isinstance(entry, Row):
            found[entry.key] = (entry.op or "-", entry.status, entry.detail)
    counts = Counter(status for _, status, _ in found.values())
    failed = [
        {"key": key, "status": status, "detail": detail}
        for key, (_, status, detail) in found.items()
        if status in FAILED
    ]
    if state.json:
        emit(
            {
                "run": str(path),
                "rows": len(found),
                "new": new,
                "counts": {status: counts[status] for status in STATUSES},
                "failed": failed,
                "seconds": round(seconds, 2),
            }
        )
        return bool(failed)
    shown_statuses = [status for status in STATUSES if counts[status]]
    by_op = Counter((op, status) for op, status, _ in found.values())
    ops = sorted({op for op, _ in by_op})
    table(["op", *shown_statuses], [[op, *(by_op[op, s] for s in shown_statuses)] for op in ops])
    say()
    for row in failed:
        say(shown(f"{row['status']}: {row['key']}: {row['detail']}"))
    say(f"{path}: {count(len(found), 'row', 'rows')}, {new:,} new, {seconds:.1f} s")
    return bool(failed)
