# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `sweep` and `fuzz` have in common: doing tasks into a run, and telling what came of it."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from ...graph_api.errors import SettingError
from ...jit.options import CacheOptions
from ...jit.settings import settings
from .exits import BAD_INPUT, CHECK_FAILED
from .options import State
from .output import complain, count, emit, say, shown, table, talk

if TYPE_CHECKING:
    from ..sweep.case_task import CaseTask
    from ..sweep.process_pool import Limits
    from ..sweep.row import Row

__all__ = ["JSON", "Done", "Invalid", "conclude", "do", "limits_of", "process_options"]

JSON: dict[str, str] = {
    "run": "the file",
    "rows": "rows that it has at the end, of each case, type, engine and target one",
    "new": "rows that were added",
    "checked": "rows of which results were held against the reference",
    "counts": "of all rows, by status: `ok`, `wrong`, `declined`, `invalid`, `compile-error`, "
    "`crash`, `timeout`, `out-of-memory`",
    "failed": "`key`, `status` and `detail` of the rows that are `wrong` or could not be finished",
    "invalid": "what is wrong with the problems themselves, each once: `source` (file and line), "
    "`rules`, `detail`, and `rows` of which that is so",
    "seconds": "wall time",
}

_MOST_TOLD = 10  # of what is invalid, on stderr
_SHARE = 0.8  # of the machine's memory, for all processes together

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True, slots=True)
class Done:
    """What was done: the run, rows that were added, seconds that it took."""

    path: Path
    new: int
    seconds: float


class _Told(NamedTuple):
    """What is told of a row at the end; rows are not kept whole, as a run may be long."""

    op: str
    status: str
    detail: str
    checked: bool
    suite: str
    source: str
    case: str
    rules: list[str]
    disturbed: bool | None


@dataclass(slots=True)
class Invalid:
    """The invalid problems of a run, and which suites have others.

    Attributes
    ----------
    found : dict
        What is wrong, each once, as of the command's JSON; by source and text.
    suites : dict of str to bool
        Suite to whether all of its problems are invalid.
    """

    found: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    suites: dict[str, bool] = field(default_factory=dict)

    def add(self, suite: str, source: str, case: str, rules: Sequence[str], detail: str) -> None:
        """Add a problem; one that is valid has no detail."""
        from ..sweep.sources import suite_of

        name = suite_of(suite)
        self.suites[name] = self.suites.get(name, True) and bool(detail)
        if detail:
            # The problems of an entry with axes have their names, and nothing else, of their own.
            alike = detail.replace(case.rpartition(" ")[0] or case, "")
            about = {"source": source, "rules": list(rules), "detail": detail, "rows": 0}
            self.found.setdefault((source, alike), about)["rows"] += 1

    def tell(self) -> list[str]:
        """Say what is invalid, and return the suites of which everything is."""
        found = list(self.found.values())
        for one in found[:_MOST_TOLD]:
            times = f" ({count(one['rows'], 'row', 'rows')})" if one["rows"] > 1 else ""
            complain(f"invalid: {one['source']}: {one['detail']}{times}")
        if left := sum(one["rows"] for one in found[_MOST_TOLD:]):
            complain(f"... and {count(left, 'more invalid row', 'more invalid rows')}")
        whole = [name for name, invalid in self.suites.items() if invalid]
        if whole:
            complain(f"error: no case of {', '.join(whole)} can be built")
        return whole


def process_options(function: F) -> F:
    """Add the options of what processes may take."""
    for option in reversed(
        (
            click.option(
                "--jobs",
                type=click.IntRange(min=1),
                help="Processes that build and check at one time; by default one for each CPU.",
            ),
            click.option(
                "--timeout",
                "timeout_s",
                type=click.FloatRange(min=0.1),
                default=300.0,
                show_default=True,
                help="Seconds for one engine in one case, after which its process is ended.",
            ),
            click.option(
                "--memory",
                metavar="BYTES",
                help="Memory that a case may take, such as 8GiB, 0 for any; by default its share "
                "of four fifths of the machine's.",
            ),
            click.option("--resume", is_flag=True, help="Go on with a run that is there."),
        )
    ):
        function = option(function)
    return function


def limits_of(timeout_s: float, memory: str | None, jobs: int) -> Limits:
    """Return what a part of a task may take."""
    from ..sweep.process_pool import Limits

    return Limits(timeout_s=timeout_s, memory=_memory(memory, jobs))


def do(
    tasks: Sequence[CaseTask],
    path: Path,
    *,
    jobs: int | None,
    timeout_s: float,
    memory: str | None,
    resume: bool,
    same_ir: bool = False,
    scheduler: str | None = None,
    what: str = "sweep",
) -> Done:
    """Do tasks, one at least, and append their rows to a run.

    Parameters
    ----------
    tasks : sequence of CaseTask
        All with the same options.
    path : Path
        The run.
    jobs, timeout_s, memory, resume, same_ir, scheduler
        The options of the command line.
    what : str
        Name of it all, for the progress.
    """
    from ..sweep.run_file import RunFile
    from ..sweep.runner import header, sweep
    from .files import file_errors
    from .progress import Progress

    begin = time.perf_counter()
    jobs = jobs or len(os.sched_getaffinity(0))
    # The default memory follows the number of jobs, which says nothing about a row.
    conditions = {**tasks[0].options.as_dict(), "timeout_s": timeout_s, "memory": memory}
    limits = limits_of(timeout_s, memory, jobs)
    with ExitStack() as stack:
        cluster = None
        if scheduler is not None:
            from ..sweep.cluster import ClusterPool

            cache = CacheOptions.of(settings())
            cluster = ClusterPool(scheduler, limits, cache, share_memory=memory is None)
            stack.enter_context(cluster)
        with file_errors(path, "write"):
            conditions_now = header(sys.argv[1:], conditions, cluster)
            run = RunFile(path, conditions_now, resume=resume, same_ir=same_ir)
        stack.enter_context(run)
        for line in run.said:
            talk(line)
        try:
            with Progress(what, sum(len(task.engines) for task in tasks)) as progress:
                found = sweep(
                    tasks,
                    run,
                    jobs=jobs,
                    limits=limits,
                    cluster=cluster,
                    told=lambda row: progress.step(_failure(row)),
                )
        except KeyboardInterrupt:
            talk(f"{path} has what is known; --resume goes on")
            raise
    return Done(path=path, new=found.total(), seconds=time.perf_counter() - begin)


def conclude(done: Done, state: State, more: Mapping[str, Mapping[str, str]] | None = None) -> None:
    """Print what a run has come to, and end with 1 if a row of it failed, else with 2 if all
    problems of a suite are invalid.

    Parameters
    ----------
    done : Done
    state : State
    more : mapping of str to mapping, optional
        What else is known of rows that failed, by key.
    """
    from ..sweep.disturbed import disturbed, in_words
    from ..sweep.row import FAILED, STATUSES, Header, Row, RunReader

    found: dict[str, _Told] = {}
    load: list[float] = []
    for entry in RunReader(done.path):
        if isinstance(entry, Row):
            found[entry.key] = _Told(
                op=entry.op or "-",
                status=entry.status,
                detail=entry.detail,
                checked=bool(entry.check),
                suite=entry.suite,
                source=entry.source,
                case=entry.case,
                rules=entry.rules,
                disturbed=disturbed(entry.times) if entry.times is not None else None,
            )
        elif isinstance(entry, Header) and "load" in entry.machine:
            load.append(entry.machine["load"])
    invalid = Invalid()
    for one in found.values():
        broken = one.detail if one.status == "invalid" else ""
        invalid.add(one.suite, one.source, one.case, one.rules, broken)
    counts = Counter(one.status for one in found.values())
    checked = sum(one.checked for one in found.values())
    failed = [
        {"key": key, "status": one.status, "detail": one.detail, **(more or {}).get(key, {})}
        for key, one in found.items()
        if one.status in FAILED
    ]
    if state.json:
        emit(
            {
                "run": str(done.path),
                "rows": len(found),
                "new": done.new,
                "checked": checked,
                "counts": {status: counts[status] for status in STATUSES},
                "failed": failed,
                "invalid": list(invalid.found.values()),
                "seconds": round(done.seconds, 2),
            }
        )
    else:
        shown_statuses = [status for status in STATUSES if counts[status]]
        by_op = Counter((one.op, one.status) for one in found.values())
        ops = sorted({op for op, _ in by_op})
        table(
            ["op", *shown_statuses], [[op, *(by_op[op, s] for s in shown_statuses)] for op in ops]
        )
        say()
        for row in failed:
            say(shown(f"{row['status']}: {row['key']}: {row['detail']}"))
        rows = count(len(found), "row", "rows")
        off = [one.disturbed for one in found.values() if one.disturbed is not None]
        if said := in_words(sum(off), len(off), load):
            say(said)
        say(f"{done.path}: {rows}, {done.new:,} new, {checked:,} checked, {done.seconds:.1f} s")
    whole = invalid.tell()
    if failed:
        sys.exit(CHECK_FAILED)
    if whole:
        sys.exit(BAD_INPUT)


def _memory(text: str | None, jobs: int) -> int:
    if text is None:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return int(_SHARE * machine / jobs) >> 20 << 20
    from ...jit.settings_kinds import nbytes_or_none

    try:
        return nbytes_or_none(text)
    except ValueError:
        raise SettingError(f"--memory is {text!r}; wanted bytes, such as 8GiB, or 0") from None


def _failure(row: Row | None) -> str:
    """Return the line of a row that failed, else nothing."""
    from ..sweep.row import FAILED

    if row is None or row.status not in FAILED:
        return ""
    return f"{row.status}: {row.key}: {row.detail}"
