# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A sweep: every case in processes of their own, and a row in the run as soon as it is known.

Building and checking go on in several processes at once.  With times, cases are taken in batches:
what is right of a batch is timed afterwards, one case at a time and with nothing beside it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain, islice
from typing import Any, Protocol

import msgspec

from .case_task import CaseTask
from .process_pool import Ended, Limits, ProcessPool, Result
from .row import Header, Row, TimeFacts, row_key

__all__ = ["Log", "header", "sweep"]

_WORKER = f"{__package__}.case_worker"
_BATCH = 8  # cases for each process, when they are timed
_LINE = re.compile(r":\d+$")
# Rounds, pauses, warm-up and cold calls together take a few times what is asked for.
_TIMING = 10.0


class Log(Protocol):
    """Where rows go, such as `run_file.RunFile`."""

    @property
    def known(self) -> Mapping[str, str]:
        """Keys of rows that need not be made again, with the digests of their graphs."""

    def append(self, *rows: Row) -> None:
        """Take rows that belong together."""


@dataclass(slots=True)
class _Right:
    """A task with the rows that are ready but for their times, by engine."""

    task: CaseTask
    rows: dict[str, Row] = field(default_factory=dict)

    @property
    def on_gpu(self) -> bool:
        """Whether it needs a GPU to itself, and not the whole machine."""
        return any(row.device != "cpu" for row in self.rows.values())

    def to_time(self) -> CaseTask:
        """Return the task of timing all of them in turns."""
        return replace(self.task, engines=tuple(self.rows), timed=True)


def header(argv: list[str], options: Mapping[str, Any]) -> Header:
    """Return the header of a sweep that begins now on this machine."""
    from .machine import machine, versions

    return Header(
        created=_now(),
        argv=argv,
        machine=machine(),
        versions=versions(),
        options=dict(options),
    )


def sweep(
    tasks: Iterable[CaseTask],
    run: Log,
    *,
    jobs: int,
    limits: Limits,
    told: Callable[[Row | None], None] = lambda row: None,
) -> Counter[str]:
    """Do all tasks and return how many new rows have each status.

    Parameters
    ----------
    tasks : iterable of CaseTask
        Rows that the run has of the same graphs already are not made again.
    run : Log
        Rows are appended to it.
    jobs : int
        Processes that build and check at one time.
    limits : Limits
        Of each engine in each case.
    told : callable
        Called with each row when it is written, and with None for one that was there already.
    """
    counts: Counter[str] = Counter()
    with ProcessPool(_WORKER, jobs, limits) as pool:
        for rows in _rows((_with_known(task, run) for task in tasks), pool, jobs):
            run.append(*rows)
            counts.update(row.status for row in rows)
            for row in rows:
                told(row)
            if not rows:
                told(None)
    return counts


def _with_known(task: CaseTask, run: Log) -> CaseTask:
    keys = {name: _key(task, name) for name in task.engines}
    return replace(task, known={n: run.known[key] for n, key in keys.items() if key in run.known})


def _rows(tasks: Iterator[CaseTask], pool: ProcessPool, jobs: int) -> Iterator[list[Row]]:
    """Yield rows that are written together; nothing for one that is known."""
    for first in tasks:
        # Without times one batch is all.
        rest = islice(tasks, _BATCH * jobs - 1) if first.options.perf else tasks
        waiting: dict[int, _Right] = {}
        for result in pool.results(chain([first], rest)):
            row = _checked_row(result)
            if row is None:
                yield []
            elif result.task.options.perf and row.status == "ok" and _runs(row):
                found = waiting.setdefault(id(result.task), _Right(result.task))
                found.rows[row.engine] = row
            else:
                yield [row]
        yield from _timed_rows(list(waiting.values()), pool)


def _runs(row: Row) -> bool:
    return row.device not in ("none", "emulated")


def _timed_rows(todo: list[_Right], pool: ProcessPool) -> Iterator[list[Row]]:
    """Yield the rows of each task together, with their times."""
    for on_gpu in (False, True):
        mine = [one for one in todo if one.on_gpu == on_gpu]
        while mine:
            tasks = [one.to_time() for one in mine]
            of = {id(task): one for task, one in zip(tasks, mine, strict=True)}
            mine = []
            at_once = len(tasks[0].options.devices) if on_gpu else 1
            limits = _timing_limits(tasks, pool.limits)
            for result in pool.results(tasks, at_once=at_once, limits=limits):
                rows = of[id(result.task)].rows
                if not isinstance(result.answer, Ended):
                    times = result.answer["times"]
                    yield [_with_times(row, times[name]) for name, row in rows.items()]
                elif len(rows) == 1:
                    yield [_ended(row, result.answer) for row in rows.values()]
                else:  # which of them it was shows when each is alone
                    mine += [_Right(result.task, {name: row}) for name, row in rows.items()]


def _timing_limits(tasks: list[CaseTask], limits: Limits) -> Limits:
    count = max(len(task.engines) for task in tasks)
    seconds = limits.timeout_s + _TIMING * tasks[0].options.seconds
    return replace(limits, timeout_s=count * seconds)


def _checked_row(result: Result[CaseTask]) -> Row | None:
    """Return the row of one engine, without times; None if the run has it already."""
    task, answer = result.task, result.answer
    name = task.engines[result.part]
    if isinstance(answer, Ended):
        facts = {**answer.facts, "status": answer.reason, "detail": answer.detail}
        facts["log"] = answer.log
    else:
        facts = answer
    digest = facts.get("digest", "")
    if task.known.get(name) == digest:
        return None
    case = task.case
    about: dict[str, Any] = {
        "key": _key(task, name),
        "case": case.name,
        "suite": _LINE.sub("", case.source),
        "source": case.source,
        "op": case.op,
        "tags": list(case.tags),
        "dtype": task.dtype,
        "digest": digest,
        "engine": name,
        "knobs": {},
        "target": task.target,
        "device": "none",
        "emulated": False,
        "rules": [],
        "detail": "",
        "seconds": round(result.seconds, 3),
        "at": _now(),
    }
    return msgspec.convert({**about, **facts}, Row)


def _with_times(row: Row, times: Mapping[str, Any]) -> Row:
    found = msgspec.convert(times, TimeFacts)
    work = row.work
    if work is not None:
        seconds = found.median_us / 1e6
        work = msgspec.structs.replace(
            work,
            tflops=float(f"{work.flops / seconds / 1e12:.4g}"),
            gbytes_per_s=float(f"{work.bytes / seconds / 1e9:.4g}"),
        )
    return msgspec.structs.replace(row, times=found, work=work, at=_now())


def _ended(row: Row, end: Ended) -> Row:
    return msgspec.structs.replace(
        row, status=end.reason, detail=end.detail, log=end.log, at=_now()
    )


def _key(task: CaseTask, engine: str) -> str:
    return row_key(task.case.name, task.dtype, engine, task.target)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
