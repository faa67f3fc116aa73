# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What happens when: builds, the compiler's worker and executions, for Perfetto.

A trace is JSON in Chrome's trace event format (https://ui.perfetto.dev reads it, and
``chrome://tracing``): complete events with a begin and a duration in microseconds, nested in each
thread.  Nothing is recorded, and nothing is spent on it, unless somebody does: modules open a
`span`, which is nothing then.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from ..graph_api.files import write_file

__all__ = [
    "Event",
    "Trace",
    "TracedCall",
    "executing",
    "span",
    "spans_as_data",
    "tell",
    "tell_spans",
    "tell_trace",
    "trace",
    "traced",
]

MOST_EVENTS = 200_000
"""Of one trace; executions beyond them are counted only."""

T = TypeVar("T")

_active: tuple[Trace, ...] = ()
_changing = threading.Lock()


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """Something that took time.

    Attributes
    ----------
    name, category : str
    begin_ns, end_ns : int
        By ``time.perf_counter_ns``, which on Linux is one clock for all processes.
    pid, tid : int
        Process and thread.
    about : mapping
        More to say, in JSON types.
    """

    name: str
    category: str
    begin_ns: int
    end_ns: int
    pid: int
    tid: int
    about: Mapping[str, Any]


class Trace:
    """Events, as they end.

    Parameters
    ----------
    executions : bool
        Whether each execution of a plan is an event; building is in any case.
    """

    def __init__(self, *, executions: bool = True) -> None:
        self.executions = executions
        self.events: list[Event] = []
        self.processes: dict[int, str] = {os.getpid(): "hipdnn-iree"}
        self.notes: dict[str, str] = {}
        self.left_out = 0
        self._begin_ns = time.perf_counter_ns()
        self._threads: dict[tuple[int, int], str] = {}

    def add(self, event: Event) -> None:
        """Take an event; any thread may."""
        if event.pid == os.getpid() and (event.pid, event.tid) not in self._threads:
            self._threads[event.pid, event.tid] = threading.current_thread().name
        if len(self.events) >= MOST_EVENTS and event.category == "execute":
            self.left_out += 1
            return
        self.events.append(event)

    def as_dict(self) -> dict[str, Any]:
        """Return the trace in the trace event format, events in the order in which they began."""
        named = [
            {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}
            for pid, name in self.processes.items()
        ]
        named += [
            {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}
            for (pid, tid), name in self._threads.items()
        ]
        # What encloses another comes first where both begin at once.
        events = sorted(self.events, key=lambda e: (e.begin_ns, -e.end_ns))
        left_out = {"executions left out": str(self.left_out)} if self.left_out else {}
        return {
            "traceEvents": named + [self._complete(event) for event in events],
            "displayTimeUnit": "ms",
            "otherData": {"made by": "hipdnn-iree", **self.notes, **left_out},
        }

    def _complete(self, event: Event) -> dict[str, Any]:
        return {
            "ph": "X",
            "name": event.name,
            "cat": event.category,
            "ts": (event.begin_ns - self._begin_ns) / 1000,
            "dur": (event.end_ns - event.begin_ns) / 1000,
            "pid": event.pid,
            "tid": event.tid,
            "args": dict(event.about),
        }

    def as_data(self, process: str) -> dict[str, Any]:
        """Return what `tell_trace` takes in another process, with a name for this one."""
        return {
            "events": [
                [e.name, e.category, e.begin_ns, e.end_ns, e.pid, e.tid, dict(e.about)]
                for e in self.events
            ],
            "processes": [*({**self.processes, os.getpid(): process}.items())],
            "notes": self.notes,
            "left_out": self.left_out,
        }

    def write(self, path: str | Path) -> None:
        """Write the trace to a file.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        write_file(path, f"{json.dumps(self.as_dict())}\n".encode())


@contextmanager
def trace(path: str | Path | None = None, *, executions: bool = True) -> Iterator[Trace]:
    """Record what is built and executed in the block, by any thread of this process.

    Parameters
    ----------
    path : str or Path, optional
        Where to write it at the end, also after an error; https://ui.perfetto.dev opens it.
    executions : bool
        Whether each execution of a plan is an event: those of plans and calls that are bound
        in the block.

    Returns
    -------
    context manager of Trace

    Raises
    ------
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> from hipdnn_iree import Graph, trace
    >>> g = Graph(io_data_type="float")
    >>> y = g.relu(g.tensor(dims=(2, 3))).set_output()
    >>> with trace() as found:
    ...     plan = g.build("cpu")
    ...     results = plan.run(plan.random_inputs())
    >>> sorted({event.name for event in found.events} & {"build", "load", "run"})
    ['build', 'load', 'run']
    """
    global _active  # noqa: PLW0603  # who records is a fact of the process
    found = Trace(executions=executions)
    with _changing:
        _active = (*_active, found)
    try:
        yield found
    finally:
        with _changing:
            _active = tuple(one for one in _active if one is not found)
        if path is not None:
            found.write(path)


def traced() -> tuple[Trace, ...]:
    """Return who records now."""
    return _active


def executing() -> bool:
    """Whether somebody records executions."""
    return bool(_active) and any(one.executions for one in _active)


_NOTHING = nullcontext()


def span(name: str, category: str = "build", **about: Any) -> AbstractContextManager[None]:
    """Return a context manager whose block is an event, if somebody records."""
    return _span(name, category, about) if _active else _NOTHING


@contextmanager
def _span(name: str, category: str, about: Mapping[str, Any]) -> Iterator[None]:
    begin = time.perf_counter_ns()
    try:
        yield
    finally:
        tell(name, category, begin, time.perf_counter_ns(), about)


def tell(
    name: str,
    category: str,
    begin_ns: int,
    end_ns: int,
    about: Mapping[str, Any] | None = None,
    *,
    pid: int | None = None,
    process: str = "",
    tid: int | None = None,
) -> None:
    """Add an event to all that is recorded; of another process with its name."""
    where = os.getpid() if pid is None else pid
    thread = threading.get_native_id() if tid is None else tid
    event = Event(
        name=name,
        category=category,
        begin_ns=begin_ns,
        end_ns=end_ns,
        pid=where,
        tid=thread,
        about=about or {},
    )
    for one in _active:
        one.add(event)
        if process:
            one.processes[where] = process


class TracedCall(Generic[T]):
    """A call whose executions are events; it has all that the call itself has."""

    def __init__(self, call: Callable[..., T], name: str, about: Mapping[str, Any]) -> None:
        self._call, self._name, self._about = call, name, about

    def __call__(self, *arguments: Any) -> T:
        if not executing():
            return self._call(*arguments)
        begin = time.perf_counter_ns()
        try:
            return self._call(*arguments)
        finally:
            tell(self._name, "execute", begin, time.perf_counter_ns(), self._about)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)


def spans_as_data(events: Sequence[Event]) -> list[list[Any]]:
    """Return events as what `tell_spans` takes in another process."""
    return [[e.name, e.category, e.begin_ns, e.end_ns] for e in events]


def tell_spans(spans: Sequence[Sequence[Any]], *, pid: int, process: str) -> None:
    """Add the events of another process, whose main thread they are of."""
    for name, category, begin_ns, end_ns in spans if _active else ():
        tell(name, category, begin_ns, end_ns, pid=pid, process=process, tid=pid)


def tell_trace(data: Mapping[str, Any]) -> None:
    """Add what another process has recorded (`Trace.as_data`), and what it was told by others."""
    for name, category, begin_ns, end_ns, pid, tid, about in data["events"] if _active else ():
        tell(name, category, begin_ns, end_ns, about, pid=pid, tid=tid)
    for one in _active:
        one.processes.update((int(pid), name) for pid, name in data["processes"])
        one.notes.update(data["notes"])
        one.left_out += data["left_out"]
