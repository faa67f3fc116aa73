# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree fuzz``: random graphs, built in one or several ways, and a row of each in a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import click

from ...graph_api.errors import SettingError
from ...jit.settings import describe, scope
from . import sweeping
from .options import Command, State, knob_options, target_option
from .output import talk
from .sweeping import conclude, do, limits_of, process_options

if TYPE_CHECKING:
    from ...graph_api.frozen import FrozenGraph
    from ...jit.target import Target
    from ..sweep.case_task import CaseTask, SweepOptions
    from ..sweep.fuzz.cases import Draw
    from ..sweep.process_pool import Limits

JSON: dict[str, str] = {
    **sweeping.JSON,
    "failed": f"{sweeping.JSON['failed']}; `reduced`, a file, with `--reduce`",
}

# A graph that nobody will see again is not worth a place in the cache, nor minutes to compile.
_DEFAULTS = {"cache_mode": "off", "compiler_timeout_s": "60"}


@click.command(cls=Command)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="First one.")
@click.option(
    "--count",
    "graphs",
    type=click.IntRange(min=1, max=100_000),
    default=100,
    show_default=True,
    help="Graphs, with the seeds that follow.",
)
@click.option(
    "--style",
    type=click.Choice(["any", "conv", "product", "rows", "moves", "integers"]),
    help="What most nodes are; by default one of these for each graph.",
)
@click.option(
    "--nodes", type=click.IntRange(min=1, max=100), help="About how many; by default 2 to 12."
)
@click.option("--gaps", is_flag=True, help="Let outputs be parts of larger buffers.")
@target_option(help="Machine.")
@click.option(
    "--variants",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Other ways to build each graph: knobs, the split engine, PyTorch, dynamic dims.",
)
@click.option(
    "--emulate",
    "emulation",  # `Command` takes the other name away
    is_flag=True,
    help="Execute code for a gfx9 target by emulation: right or wrong, no times.",
)
@process_options
@click.option(
    "--reduce", "reduce_to", metavar="DIR", help="Write the smallest part of each graph that fails."
)
@click.option(
    "-o", "--output", metavar="RUN", default="fuzz.jsonl", show_default=True, help="The run."
)
@knob_options("--threads", "--cache", "--cache-dir", "--opt-level", "--extra-flags")
@click.pass_obj
def command(
    state: State,
    seed: int,
    graphs: int,
    style: str | None,
    nodes: int | None,
    gaps: bool,
    target: Target,
    variants: int,
    emulation: bool,
    jobs: int | None,
    timeout_s: float,
    memory: str | None,
    resume: bool,
    reduce_to: str | None,
    output: str,
) -> None:
    """Draw valid graphs at random, build and check each, and append a row of each to RUN.

    Equal seeds and options give equal graphs.  Each graph is also written and read in every
    form, and must stay the same.  `repro` and `report` take the run as that of any sweep, and
    `sweep "fuzz --seed 17 --count 5"` the same graphs.  The code is not cached unless --cache
    says so.  The exit code is 1 when a row is wrong or could not be finished; declining is no
    failure.
    """
    from ..sweep.case_task import SweepOptions
    from ..sweep.fuzz.cases import Draw

    if emulation and not target.is_gfx9:
        raise SettingError(f"--emulate: an AMD GPU is emulated, and --target is {target}")
    draw = Draw(seed=seed, count=graphs, style=style or "", nodes=nodes or 0, gaps=gaps)
    options = SweepOptions(emulate=emulation, forms=True, settings=_settings(state.knobs))
    tasks = list(_tasks(draw, target, variants, options))
    path = Path(output)
    done = do(
        tasks,
        path,
        jobs=jobs,
        timeout_s=timeout_s,
        memory=memory,
        resume=resume,
        what="fuzz",
    )
    small: dict[str, dict[str, str]] = {}
    if reduce_to is not None:
        small = _reduced(tasks, path, Path(reduce_to), limits_of(timeout_s, memory, 1))
    conclude(done, state, small)


def _settings(knobs: Mapping[str, str]) -> dict[str, str]:
    """Return the options given, and this command's own values of what nobody has set."""
    untouched = {row["field"] for row in describe() if row["origin"] == "default"}
    return {**{k: v for k, v in _DEFAULTS.items() if k in untouched}, **knobs}


def _tasks(draw: Draw, target: Target, variants: int, options: SweepOptions) -> Iterator[CaseTask]:
    """Yield a task for each graph, with the engines that build it, and for its other forms."""
    from ..sweep.case_task import CaseTask
    from ..sweep.fuzz.cases import drawn_cases
    from ..sweep.fuzz.variants import other_ways

    with scope(**options.settings) as now:
        for seed in range(draw.seed, draw.seed + draw.count):
            one = replace(draw, seed=seed, count=1)
            ways = {one: ["iree"]}
            if variants:
                rng = Random(f"variants {one}")
                for form, name in other_ways(one, target, now, rng, variants):
                    ways.setdefault(form, []).append(name)
            for form, engines in ways.items():
                (case,) = drawn_cases(form)
                yield CaseTask(
                    case=case,
                    engines=tuple(engines),
                    target=str(target),
                    threads=now.runtime_threads if "runtime_threads" in options.settings else 0,
                    options=options,
                )


def _reduced(
    tasks: Sequence[CaseTask], run: Path, folder: Path, limits: Limits
) -> dict[str, dict[str, str]]:
    """Write the smallest part of each graph that fails in the same way; return files by key."""
    from ...graph_api.formats.json.json_form import dumps
    from ..sweep.row import FAILED, read_run
    from .files import file_errors, write

    by_case, found = {task.case.name: task for task in tasks}, dict[str, dict[str, str]]()
    with file_errors(folder, "write to"):
        folder.mkdir(parents=True, exist_ok=True)
    for row in read_run(run).rows:
        task = by_case.get(row.case)
        if task is None or row.status not in FAILED:
            continue
        small = _small(task, row.engine, limits)
        if small is None:
            talk(f"{row.key} does not fail again")
            continue
        path = folder / f"{row.status}-{row.target}-{small.digest[:12]}.json"
        write(path, f"{dumps(small)}\n".encode())
        talk(f"{row.key}: {path}")
        found[row.key] = {"reduced": str(path)}
    return found


def _small(task: CaseTask, engine: str, limits: Limits) -> FrozenGraph | None:
    """Return the smallest part of a task's graph that fails as it does, if it fails."""
    from ..sweep.failure import Judge
    from ..sweep.reduce import reduced

    whole = task.case.freeze()
    with Judge(engine, task.target, task.options, limits) as judge:
        first = judge(whole)
        if not first.broken:
            return None
        return reduced(whole, lambda part: judge(part).like(first))
