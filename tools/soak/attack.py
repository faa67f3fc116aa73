# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What an attack is given and what it gives back; and the loop of those that try many inputs.

An attack is a module with ``run(budget, seed) -> Result`` and, where an input shows a failure,
``replay(budget, case) -> Result``.  It runs in a process of its own, with an empty scratch folder
as its working folder and a fresh cache, so that it may crash, hang, or fill the folder.
"""

from __future__ import annotations

import mmap
import resource
import struct
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

__all__ = [
    "BrokenError",
    "Budget",
    "Failure",
    "Inputs",
    "Result",
    "attempt",
    "limit_memory",
    "many",
    "resident_mib",
    "watch_memory",
]

SLOWEST_S = 2.0
"""No answer may take longer, as CPU time: other work on the machine does not count."""
MOST_GROWTH_MIB = 64.0
"""Of a process over a run, once it has warmed up."""
_MOST_FAILURES = 20
_ADDRESS_SPACE = 8 << 30
_HEAD = struct.Struct("<QI")


class BrokenError(Exception):
    """A promise that does not hold, in one line."""


@dataclass(frozen=True)
class Failure:
    """What does not hold, and the input that shows it.

    Attributes
    ----------
    what : str
        One line.
    case : bytes
        What ``replay`` takes; empty where no input repeats it.
    detail : str
        A traceback, a log.
    """

    what: str
    case: bytes = b""
    detail: str = ""


@dataclass
class Result:
    """What an attack has found so far.

    Attributes
    ----------
    counts : Counter
        How many inputs or rounds had which outcome.
    failures : list of Failure
    slowest_s : float
        CPU time of the slowest answer, where answers are timed.
    growth_mib : float
        By how much the attacked process grew after it had warmed up.
    peak_mib : float
        The largest size of the attacked process.
    """

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    slowest_s: float = 0.0
    growth_mib: float = 0.0
    peak_mib: float = 0.0

    def fail(self, what: str, case: bytes = b"", detail: str = "") -> None:
        """Note a failure; of many that say the same, the first ones are kept."""
        self.counts["FAILED"] += 1
        self._keep(Failure(what, case, detail))

    def _keep(self, failure: Failure) -> None:
        same = sum(f.what[:60] == failure.what[:60] for f in self.failures)
        if same < 2 and len(self.failures) < _MOST_FAILURES:
            self.failures.append(failure)

    def add(self, other: Result) -> None:
        """Take in what another process found."""
        self.counts += other.counts
        for failure in other.failures:
            self._keep(failure)
        self.slowest_s = max(self.slowest_s, other.slowest_s)
        self.growth_mib = max(self.growth_mib, other.growth_mib)
        self.peak_mib = max(self.peak_mib, other.peak_mib)


class Box:
    """A file that still holds the last input after its writer has died."""

    def __init__(self, path: Path, size: int = 8 << 20) -> None:
        if not path.exists():
            path.write_bytes(b"")
        with path.open("r+b") as file:
            file.truncate(size)
            self._map = mmap.mmap(file.fileno(), size)

    def put(self, case: bytes) -> None:
        """Note that the next input is tried."""
        count, _ = _HEAD.unpack_from(self._map)
        case = case[: len(self._map) - _HEAD.size]
        _HEAD.pack_into(self._map, 0, count + 1, len(case))
        self._map[_HEAD.size : _HEAD.size + len(case)] = case

    @property
    def count(self) -> int:
        """How many inputs were tried."""
        return int(_HEAD.unpack_from(self._map)[0])

    @property
    def last(self) -> bytes:
        """The last input."""
        return self._map[_HEAD.size : _HEAD.size + _HEAD.unpack_from(self._map)[1]]


@dataclass
class Budget:
    """What an attack may use.

    Attributes
    ----------
    seconds : float
        For the whole attack, from `started` on.
    scratch : Path
        An empty folder of its own; what is left in it is removed.
    box : Box
        For the input that is being tried: the driver saves it if the process dies, and takes a
        process for hanging that puts nothing in for minutes.
    tell : callable
        Takes a `Result` so far, for the progress line.
    least : int
        So many inputs or rounds are tried, however slow the machine is.
    """

    seconds: float
    scratch: Path
    box: Box
    tell: Callable[[Result], None] = lambda _: None
    least: int = 1
    started: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        """Seconds that remain."""
        return self.started + self.seconds - time.monotonic()

    def rounds(self, found: Result) -> Iterator[int]:
        """Yield 0, 1, 2... while there is time, `least` at least, and tell of the result so far."""
        told = index = 0
        while index < self.least or self.left > 0:
            yield index
            index += 1
            if (now := int(time.monotonic())) != told:
                told = now
                self.tell(found)


def resident_mib(pid: int | str = "self") -> float:
    """Return the size of a process in memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


@contextmanager
def watch_memory(found: Result) -> Iterator[Callable[[float], None]]:
    """Give a function that takes sizes over time; say in the end by how much they grew.

    The median of the last quarter is compared with that of the second one: the first is start-up.
    """
    sizes: list[float] = []
    yield sizes.append
    if sizes:
        found.peak_mib = max(found.peak_mib, *sizes)
    quarter = len(sizes) // 4
    if quarter:
        grown = median(sizes[-quarter:]) - median(sizes[quarter : 2 * quarter])
        found.growth_mib = max(found.growth_mib, grown)
        if grown > MOST_GROWTH_MIB:
            found.fail(f"memory grows: {grown:.0f} MiB over the run")


Judge = Callable[[bytes], Iterable[str]]


def limit_memory() -> None:
    """Make an input that asks for too much a `MemoryError`, also in processes started later."""
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, resource.RLIM_INFINITY))


def attempt(
    found: Result,
    budget: Budget,
    case: bytes,
    judge: Judge,
    clock: Callable[[], float] = time.process_time,
) -> None:
    """Try one input: time each answer, count the last one's name, or note what it broke."""
    budget.box.put(case)
    outcome, begin = "", clock()
    try:
        for outcome in judge(case):
            end = clock()
            found.slowest_s = max(found.slowest_s, end - begin)
            if end - begin > SLOWEST_S:
                found.fail(f"{outcome}: an answer took {end - begin:.1f} s of CPU time", case)
            begin = clock()
    except BrokenError as error:
        found.fail(str(error), case)
        outcome = "broken"
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno} {last.name}"
        text = f"{type(error).__name__} at {where}: {error!s:.200}"
        found.fail(text, case, traceback.format_exc())
        outcome = "foreign exception"
    found.slowest_s = max(found.slowest_s, clock() - begin)
    found.counts[outcome] += 1


def many(
    budget: Budget,
    seed: int,
    make: Callable[[Random], bytes],
    judge: Judge,
    *,
    size: Callable[[], float] = resident_mib,
    **options: Any,
) -> Result:
    """Try inputs until the time is over.

    Parameters
    ----------
    budget : Budget
    seed : int
        Equal seeds give equal inputs.
    make : callable
        Makes an input.
    judge : callable
        Yields the name of each answer when it is there, at last the outcome in a word or two;
        raises `BrokenError`, or anything else, for a failure.
    size : callable
        Size of the attacked process in MiB.
    """
    found, rng = Result(), Random(seed)
    with watch_memory(found) as note:
        for index in budget.rounds(found):
            attempt(found, budget, make(rng), judge, **options)
            if index % 64 == 0:
                note(size())
    return found


@dataclass(frozen=True)
class Inputs:
    """The ``run`` and ``replay`` of an attack that tries one input after the other.

    Attributes
    ----------
    make, judge : callable
        As in `many`.
    start : callable
        Is called first, in the attack's process.
    """

    make: Callable[[Random], bytes]
    judge: Judge
    start: Callable[[], object] = limit_memory

    def run(self, budget: Budget, seed: int) -> Result:
        """Attack until the time is over."""
        self.start()
        return many(budget, seed, self.make, self.judge)

    def replay(self, budget: Budget, case: bytes) -> Result:
        """Try one input."""
        self.start()
        found = Result()
        attempt(found, budget, case, self.judge)
        return found
