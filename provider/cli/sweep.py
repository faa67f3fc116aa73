# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree sweep``: many problems, right or wrong, fast or slow, a row for each."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from ...graph_api.errors import SettingError
from ...jit.settings import settings
from . import sweeping
from .exits import BAD_INPUT
from .options import State, case_option, knob_options
from .output import count, emit, say, table
from .sweep_export import Sweep
from .sweeping import Invalid, conclude, do, process_options

if TYPE_CHECKING:
    from ..sweep.case_task import CaseTask, SweepOptions
    from ..sweep.checking import Data
    from ..sweep.suite import Suite

JSON: dict[str, str] = {
    **sweeping.JSON,
    "cases": "with `--list`, instead of all these: `name`, `dtype`, `tags`, `target`, `source`, "
    "`broken` (what is wrong with it)",
}


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
    "--few",
    is_flag=True,
    help="Of each op and data type one plain case, and one of another layout.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    help="Of the problems that suites draw at random, instead of their own; others are drawn.",
)
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
    "--instructions",
    is_flag=True,
    help="Count the instructions of gfx9 kernels, and with --emulate those that were executed.",
)
@click.option(
    "--devices", metavar="LIST", default="0", show_default=True, help="GPUs, such as 0-3,6."
)
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Of dask.distributed, such as tcp://head:8786: its workers do the work (extra cluster).",
)
@process_options
@click.option(
    "--same-ir",
    is_flag=True,
    help="With --resume: keep what is right of other versions too, as long as its IR is the same.",
)
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
    few: bool,
    seed: int | None,
    check: bool,
    data: Data,
    perf: bool,
    strategies: bool,
    seconds: float,
    emulation: bool,
    instructions: bool,
    devices: str,
    scheduler: str | None,
    jobs: int | None,
    timeout_s: float,
    memory: str | None,
    resume: bool,
    same_ir: bool,
    only_list: bool,
    output: str,
) -> None:
    """Build, check and time every case of each SUITE, and append a row of each to RUN.

    A SUITE is a file of problems, the name of one that comes with this project, a folder, a graph
    file, or a line of MIOpenDriver.
    A case runs in a process of its own: one that crashes, hangs or takes too much memory is a
    row, and the next one runs.  What is stopped, in whatever way, goes on with --resume.  The
    exit code is 1 when a row is wrong or could not be finished; declining is no failure.  Problems
    that are invalid are told on stderr; the exit code is 2 when all those of a SUITE are.
    """
    from ..sweep.case_task import SweepOptions
    from ..sweep.regret import ENGINE, with_strategies
    from ..sweep.samples import few_of
    from ..sweep.sources import read_all

    options = SweepOptions(
        check=check,
        data=data,
        perf=perf,
        seconds=seconds,
        emulate=emulation,
        instructions=instructions,
        devices=() if scheduler else _numbers(devices),
        settings=dict(state.knobs),
    )
    names = _engines(engines)
    if strategies and ENGINE not in names:
        raise SettingError(f"--strategies is for engine {ENGINE}; --engines is {engines!r}")
    if same_ir and (perf or not resume):
        raise SettingError("--same-ir is for --resume without --perf: times are of versions")
    suite = read_all(suites, seed=seed)
    if few:
        suite = replace(suite, cases=few_of(suite.cases))
    tasks = list(_tasks(suite, names, _targets(targets), pattern, options))
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
    if scheduler:
        _of_this_machine("devices", "jobs")
    done = do(
        tasks,
        Path(output),
        jobs=jobs,
        timeout_s=timeout_s,
        memory=memory,
        resume=resume,
        same_ir=same_ir,
        scheduler=scheduler,
    )
    conclude(done, state)


def _of_this_machine(*names: str) -> None:
    """Refuse options that say nothing about a cluster."""
    context = click.get_current_context()
    for name in names:
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            raise SettingError(
                f"--{name} is for this machine; with --scheduler each worker has its own: "
                "threads for processes, the resource GPU for GPUs"
            )


def _tasks(
    suite: Suite,
    engines: tuple[str, ...],
    targets: tuple[str, ...],
    pattern: re.Pattern[str] | None,
    options: SweepOptions,
) -> Iterator[CaseTask]:
    """Yield a task for each case, type and target."""
    from ..sweep.case_task import CaseTask

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


def _list(tasks: list[CaseTask], state: State) -> None:
    from ..sweep.runner import suite_file

    invalid, rows = Invalid(), []
    for task in tasks:
        case, broken = task.case, [str(found) for found in task.case.broken]
        rules = [found.rule for found in task.case.broken]
        suite = suite_file(case.source)
        invalid.add(suite, case.source, case.name, rules, broken[0] if broken else "")
        facts = (case.name, task.dtype, ", ".join(case.tags), task.target, case.source)
        rows.append((facts, broken))
    names = ("name", "dtype", "tags", "target", "source")
    if state.json:
        cases = [{**dict(zip(names, facts, strict=True)), "broken": b} for facts, b in rows]
        emit({"cases": cases})
    else:
        table(names, [facts for facts, _ in rows])
        engines = len(tasks[0].engines) if tasks else 0
        say(f"{count(len(rows), 'case', 'cases')}, {count(engines, 'engine', 'engines')}")
    if invalid.tell():
        sys.exit(BAD_INPUT)
