# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree bench``: engines side by side on a file of cases."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from ...graph_api.arguments import suggestion
from ...graph_api.errors import SettingError
from ...jit.runtime.hip import emulated
from ...jit.settings import settings
from ...jit.trace import traced
from .device_here import must_have_device
from .exits import CHECK_FAILED
from .options import (
    Command,
    State,
    case_option,
    html_option,
    knob_options,
    target_option,
    trace_option,
)
from .output import emit, say, shown, table, versioned
from .sweeping import limits_of

if TYPE_CHECKING:
    from ...jit.target import Target
    from ..sweep.case_task import CaseTask
    from ..sweep.suite import Suite

JSON: dict[str, str] = {
    "title, target": "of the suite; canonical spelling of the target",
    "machine": "`cpu`, `processors`, `vector`, `memory_bytes`, `system`, `load`",
    "versions": "of `hipdnn-iree`, Python, compiler, runtime, torch-mlir, NumPy and PyTorch, and "
    "`lowering`, a digest of the sources that decide on the IR",
    "threads, seconds, realtime": "threads of each engine (0: its own choice), time for each in a "
    "case, and whether in real-time priority",
    "engines, baseline": "names, the first is judged; the one it is held against",
    "cases": "`name`, `op`, `dtype`, `tags`, `digest`, `engines` (by name: `engine`, `knobs`, "
    "`median_us`, `best_us`, `spread` (half of the range of the middle half, relative to the "
    "median), `calls`, `rounds_us` (the fastest call of each round), `ok`, `max_rel_error`, "
    "`dispatches`, `transient_bytes`, `work` as in rows of a sweep; or `declined`, with `detail`; "
    "or `error`), `ratio` (median over the rounds of the first engine's `rounds_us` by the "
    "baseline's in the same round) and `ratio_best` (of the fastest calls)",
    "geomean, geomean_best": "geometric means of the ratios",
    "geomean_fused, geomean_fused_best": "the same over the cases with the tag `fused`",
    "worst": "`ratio` and `name` of the worst case",
    "ok": "whether all results were right and nothing failed",
}

_TIMEOUT_S = 300.0  # to build and check one engine in one case


@click.command(cls=Command)
@click.argument("suite", metavar="SUITE")
@click.option(
    "--engines",
    metavar="NAME,...",
    default="iree,torch",
    show_default=True,
    help="Who takes part, the one to judge first: engines by alias, `torch` (as a program of "
    "PyTorch's own functions and memory), `torch-engine` (as the engine that it is here), "
    "`iree-plain` (the plain ops and IREE's default flags), `auto` or `policy:NAME` (what is "
    "chosen).",
)
@click.option("--baseline", metavar="NAME", help="Whom the first is held against.")
@case_option
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.0),
    default=1.0,
    show_default=True,
    help="Time for each engine in each case; five rounds are made at least.",
)
@click.option(
    "--realtime",
    is_flag=True,
    help="Time in real-time priority, before all other programs; for root on a busy machine.",
)
@target_option(help="Machine to measure on.")
@html_option
@trace_option()
@knob_options("--threads", "--device", "--cache-dir")
@click.option("-o", "--output", metavar="FILE", help="Write the JSON object to a file as well.")
@click.pass_obj
def command(
    state: State,
    suite: str,
    engines: str,
    baseline: str | None,
    pattern: re.Pattern[str] | None,
    seconds: float,
    realtime: bool,
    target: Target,
    page: str | None,
    output: str | None,
) -> None:
    """Measure engines side by side on the cases of SUITE, as `sweep` takes them.

    Cases are built in processes, as in a sweep, and every engine's results are held against the
    float64 reference.  Then the engines of a case whose results are right are timed in turn
    within each round, so that a busy machine slows all of them alike.  The exit code is 1 when a
    result is wrong or a build fails; declining is no failure.
    """
    from ..sweep.contestants import contestant
    from ..sweep.machine import machine, versions
    from ..sweep.runner import sweep
    from ..sweep.side_by_side import Rows, baseline_of, side_by_side, totals
    from ..sweep.sources import read_all
    from ..timing import undisturbed
    from .progress import Progress

    found = read_all([suite], check=True)
    names = [name.strip() for name in engines.split(",") if name.strip()]
    if not names or len(set(names)) < len(names):
        raise SettingError(f"--engines is {engines!r}; wanted names, each once")
    if baseline is not None and baseline not in names[1:]:
        near = suggestion(baseline, names[1:])
        raise SettingError(
            f"--baseline is {baseline!r}{near}; wanted one of {', '.join(names[1:])}"
        )
    names = [contestant(name, settings()).name for name in names]
    must_have_device(target, emulates=False)
    if not target.is_cpu and emulated():
        raise SettingError(f"--target is {target}, which is emulated here: emulation has no times")
    if realtime:
        with undisturbed():  # whether this user may
            pass
    tasks = _tasks(_chosen(found, pattern), names, target, seconds, realtime, state)
    against = baseline or baseline_of(names)
    with Progress("bench", len(tasks)) as progress:
        log = Rows(tasks, lambda rows: progress.step(line=_line(side_by_side(rows, against))))
        if tasks:
            jobs = len(os.sched_getaffinity(0))
            sweep(tasks, log, jobs=jobs, limits=limits_of(_TIMEOUT_S, None, jobs))
    cases = [side_by_side(rows, against) for rows in log]
    data = {
        "title": found.title,
        "target": str(target),
        "machine": machine(),
        "versions": versions(),
        "threads": tasks[0].threads if tasks else found.threads,
        "seconds": seconds,
        "realtime": realtime,
        "engines": names,
        "baseline": against,
        "cases": cases,
        **totals(cases),
    }
    if output is not None:
        _write(output, data)
    if page is not None:
        from ..pages.bench_page import bench_page
        from .files import write_page

        write_page(page, bench_page(data))
    if state.json:
        emit(data)
    else:
        _show(data)
    if not data["ok"]:
        sys.exit(CHECK_FAILED)


def _chosen(suite: Suite, pattern: re.Pattern[str] | None) -> Suite:
    if pattern is None:
        return suite
    kept = tuple(case for case in suite.cases if case.matches(pattern))
    if not kept:
        known = ", ".join(case.name for case in suite.cases)
        raise SettingError(f"--case {pattern.pattern!r} matches none of {known}")
    return replace(suite, cases=kept)


def _tasks(
    suite: Suite,
    engines: Sequence[str],
    target: Target,
    seconds: float,
    realtime: bool,
    state: State,
) -> list[CaseTask]:
    from ..sweep.case_task import CaseTask, SweepOptions

    now = settings()
    options = SweepOptions(
        perf=True,
        seconds=seconds,
        realtime=realtime,
        trace=bool(traced()),
        devices=(now.runtime_device,),
        settings=dict(state.knobs),
    )
    given = "runtime_threads" in state.knobs
    return [
        CaseTask(
            case=case,
            engines=tuple(engines),
            target=str(target),
            threads=now.runtime_threads if given else suite.threads,
            options=options,
        )
        for case in suite.by_type(str(target))
    ]


def _line(case: dict[str, Any]) -> str:
    parts = [f"{name} {_time(row)}" for name, row in case["engines"].items()]
    if case["ratio"] is not None:
        parts.append(f"ratio {case['ratio']:.2f} (best {case['ratio_best']:.2f})")
    return f"{case['name']}: {', '.join(parts)}"


def _time(row: dict[str, Any]) -> str:
    if "median_us" not in row:
        if "declined" in row:
            return "declined " + ", ".join(sorted({d["rule"] for d in row["declined"]}))
        if "error" in row:
            return "failed: " + shown(row["error"].partition("\n")[0])
        return f"WRONG (error {row.get('max_rel_error')})"
    return f"{row['median_us'] / 1000:.3f} ms ±{100 * row['spread']:.0f}%"


def _show(data: dict[str, Any]) -> None:
    names = data["engines"]
    times = [f"{name} ms" for name in names]
    rows = []
    for case in data["cases"]:
        cells: list[object] = [case["name"]]
        for name in names:
            row = case["engines"][name]
            cells.append(round(row["median_us"] / 1000, 4) if "median_us" in row else _time(row))
        first = case["engines"][names[0]]
        cells += [case["ratio"], case["ratio_best"], first.get("dispatches")]
        cells.append(first.get("max_rel_error"))
        rows.append(cells)
    table(["case", *times, "ratio", "best", "dispatches", "max rel error"], rows)
    say()
    for title, key in (("all", "geomean"), ("fused", "geomean_fused")):
        if data[key] is not None:
            say(
                f"{names[0]} / {data['baseline']}, geometric mean of {title}: {data[key]:.3f} "
                f"(of the fastest calls {data[f'{key}_best']:.3f})"
            )
    if data["worst"] is not None:
        say(f"worst: {data['worst']['name']} {data['worst']['ratio']:.2f}")


def _write(path: str, data: dict[str, Any]) -> None:
    from ..sweep.json_text import json_lines
    from .files import write

    write(path, f"{json_lines(versioned(data), 2)}\n".encode())
