# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A sweep: every case in processes of their own, and a row in the run as soon as it is known.

Building and checking go on in several processes at once.  With times, cases are taken in batches:
what is right of a batch is timed afterwards, while nothing is built, since short kernels take as
long as their host needs to launch them.  Each GPU is for one case at a time, whether it is timed or
checked (`gpu_lock`), and the whole machine for one of the CPU.  The batch is timed several times
over: what slows the machine for some seconds falls on one of the times only, and shows as a
difference between them.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain, islice, product
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from ...jit.trace import tell_trace
from ..timing import Samples
from .case_task import CaseTask
from .measuring import times_of
from .process_pool import Ended, Limits, ProcessPool, Result, Timed
from .row import Header, Row, TimeFacts, WorkFacts, row_key

if TYPE_CHECKING:
    from .cluster import ClusterPool

__all__ = ["Log", "header", "suite_file", "sweep"]

_WORKER = f"{__package__}.case_worker"
_BATCH = 16  # cases for each process, when they are timed
_VISITS = 3  # times that a case is timed at
_LINE = re.compile(r":\d+$")
# Rounds, pauses, warm-up and cold calls together take a few times what is asked for.
_TIMING = 10.0


class Log(Protocol):
    """Where rows go, such as `run_file.RunFile`."""

    @property
    def known(self) -> Mapping[str, str]:
        """Keys of rows that need not be made again, with the digests of their graphs."""

    @property
    def irs(self) -> Mapping[str, str]:
        """Keys of rows that need not be made again while their IR has these digests."""

    def append(self, *rows: Row) -> None:
        """Take rows that belong together."""


@dataclass(slots=True)
class _Right:
    """A task with the rows that are ready but for their times, by engine."""

    task: CaseTask
    rows: dict[str, Row] = field(default_factory=dict)
    visits: list[Mapping[str, Any]] = field(default_factory=list)
    ended: bool = False  # a process has, with all of them together

    @property
    def on_gpu(self) -> bool:
        """Whether it needs a GPU to itself, and not the whole machine."""
        return any(row.device != "cpu" for row in self.rows.values())

    def to_time(self, visits: int) -> CaseTask:
        """Return the task of timing all of them in turns, for the next of so many times."""
        engines, visit = tuple(self.rows), len(self.visits)
        return replace(self.task, engines=engines, timed=True, visit=visit, visits=visits)


def header(
    argv: list[str], options: Mapping[str, Any], cluster: ClusterPool | None = None
) -> Header:
    """Return the header of a sweep that begins now, on this machine or those of a cluster."""
    from .machine import machine, versions

    return Header(
        created=_now(),
        argv=argv,
        machine=machine() if cluster is None else cluster.machine,
        versions=versions(),
        options=dict(options),
    )


def sweep(
    tasks: Iterable[CaseTask],
    run: Log,
    *,
    jobs: int,
    limits: Limits,
    cluster: ClusterPool | None = None,
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
    cluster : ClusterPool, optional
        Does the work instead of processes of this machine; jobs and limits are its own.
    told : callable
        Called with each row when it is written, and with None for one that was there already.
    """
    counts: Counter[str] = Counter()
    ahead = iter(tasks)
    first = next(ahead, None)
    if first is None:
        return counts
    gpus = len(first.options.devices)
    with nullcontext(cluster) if cluster else ProcessPool(_WORKER, jobs, limits, gpus=gpus) as pool:
        for rows in _rows((_with_known(task, run) for task in chain([first], ahead)), pool):
            run.append(*rows)
            counts.update(row.status for row in rows)
            for row in rows:
                told(row)
            if not rows:
                told(None)
    return counts


def _with_known(task: CaseTask, run: Log) -> CaseTask:
    keys = {name: _key(task, name) for name in task.engines}

    def of_mine(rows: Mapping[str, str]) -> dict[str, str]:
        return {name: rows[key] for name, key in keys.items() if key in rows}

    return replace(task, known=of_mine(run.known), irs=of_mine(run.irs))


def _rows(tasks: Iterator[CaseTask], pool: ProcessPool | ClusterPool) -> Iterator[list[Row]]:
    """Yield rows that are written together; nothing for one that is known."""
    for first in tasks:
        # Without times one batch is all.
        rest = islice(tasks, _BATCH * pool.jobs - 1) if first.options.perf else tasks
        waiting: dict[int, _Right] = {}
        timing = _Timing(pool.limits)
        for result in pool.results(chain([first], rest)):
            task = result.task
            _tell(result)
            row = _checked_row(result)
            if row is None:
                yield []
            elif task.options.perf and row.status == "ok" and _runs(row):
                waiting.setdefault(id(task), _Right(task)).rows[row.engine] = row
            else:
                yield [row]
        for _, on_gpu in product(range(_VISITS), (True, False)):
            for one in waiting.values():
                if one.on_gpu is on_gpu and not one.ended:
                    timing.add(one, _VISITS)
            # What runs on the CPU needs all of it.
            for result in pool.results(timed=timing.queue, alone=not on_gpu):
                _tell(result)
                yield from timing.rows(result)


def _tell(result: Result[CaseTask]) -> None:
    """Add to a trace what the process has told of it."""
    if isinstance(result.answer, dict) and (told := result.answer.pop("trace", None)) is not None:
        tell_trace(told)


def _runs(row: Row) -> bool:
    return row.device not in ("none", "emulated")


class _Timing:
    """What is to be timed, and what is being timed."""

    def __init__(self, limits: Limits) -> None:
        self.queue: Timed[CaseTask] = deque()
        self._limits = limits
        self._of: dict[int, tuple[CaseTask, _Right]] = {}

    def add(self, one: _Right, visits: int = 1) -> None:
        """Put the engines of a case into the queue, for the next of so many times."""
        task = one.to_time(visits)
        self._of[id(task)] = task, one
        self.queue.append((task, _timing_limits(task, self._limits)))

    def rows(self, result: Result[CaseTask]) -> Iterator[list[Row]]:
        """Yield the rows of a case together, with their times, when all are there."""
        task, one = self._of.pop(id(result.task))
        if not isinstance(result.answer, Ended):
            one.visits.append(result.answer)
            if len(one.visits) == task.visits:
                yield [_with_times(row, name, one.visits) for name, row in one.rows.items()]
            return
        one.ended = True
        if len(one.rows) == 1:
            yield [_ended(row, result.answer) for row in one.rows.values()]
        else:  # which of them it was shows when each is alone
            for name, row in one.rows.items():
                self.add(_Right(one.task, {name: row}))


def _timing_limits(task: CaseTask, limits: Limits) -> Limits:
    seconds = limits.timeout_s + _TIMING * task.options.seconds
    return replace(limits, timeout_s=len(task.engines) * seconds)


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
    if task.known.get(name) == digest or facts.pop("kept", False):
        return None
    case = task.case
    about: dict[str, Any] = {
        "key": _key(task, name),
        "case": case.name,
        "suite": suite_file(case.source),
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


def suite_file(source: str) -> str:
    """Return the file of a case's source, which may have a line."""
    return _LINE.sub("", source)


def _with_times(row: Row, name: str, visits: Sequence[Mapping[str, Any]]) -> Row:
    """Return a row with the times of an engine, of what each visit has answered."""
    of_mine = [answer["times"][name] for answer in visits]
    samples = [
        Samples(calls_us=found["calls_us"], rounds_us=found["rounds_us"]) for found in of_mine
    ]
    found = times_of(samples, of_mine[0]["cold_us"])
    limits = [answer["limits"] for answer in visits]
    work = row.work and with_share(row.work, found, _least_disturbed(limits))
    return msgspec.structs.replace(row, times=found, work=work, at=_now())


def _least_disturbed(limits: Sequence[Mapping[str, float] | None]) -> Mapping[str, float] | None:
    """Return the limits by which the least time is the smallest, None where some are not known."""
    known = [found for found in limits if found is not None]
    return min(known, key=lambda found: found["least_us"]) if len(known) == len(limits) else None


# A share above 1 comes of BLAS, which does not reach the peak, and of nearer caches than those of
# the copies that are measured; above this only limits that a busy machine has made too low.
_MOST_SHARE = 1.5


def with_share(work: WorkFacts, times: TimeFacts, limits: Mapping[str, float] | None) -> WorkFacts:
    """Return the work with what times make of it.

    Parameters
    ----------
    limits : mapping, optional
        ``least_us``, ``peak_tflops``, ``peak_gbytes_per_s`` of the machine; None: not known.
    """
    seconds, known = times.median_us / 1e6, limits or {}
    share = None if limits is None else limits["least_us"] / times.median_us
    why = "the machine's limits are not known" if share is None else ""
    if share is not None and share > _MOST_SHARE:
        why = (
            f"the share would be {share:.3g}, above {_MOST_SHARE}: the machine was too busy when "
            "its limits were measured"
        )
    return msgspec.structs.replace(
        work,
        tflops=_digits(work.flops / seconds / 1e12),
        gbytes_per_s=_digits(work.bytes / seconds / 1e9),
        roofline=None if why or share is None else _digits(share),
        no_roofline=why,
        peak_tflops=known.get("peak_tflops"),
        peak_gbytes_per_s=known.get("peak_gbytes_per_s"),
    )


def _digits(value: float) -> float:
    return float(f"{value:.4g}")


def _ended(row: Row, end: Ended) -> Row:
    return msgspec.structs.replace(
        row, status=end.reason, detail=end.detail, log=end.log, at=_now()
    )


def _key(task: CaseTask, engine: str) -> str:
    return row_key(task.case.name, task.dtype, engine, task.target)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
