# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The rows of a sweep, and the file that holds them: JSON lines that are only ever appended.

The first line is a header, every other line is a row, or a header again where a sweep was resumed
under other conditions: rows belong to the header above them.  A row stands in the file as soon as
it is known, so a file can be read while it grows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct

from ...graph_api.errors import FormatError, Problem

__all__ = [
    "FAILED",
    "RULES",
    "SCHEMA",
    "STATUSES",
    "VERSION",
    "CheckFacts",
    "CodeFacts",
    "CompileFacts",
    "Header",
    "InstructionFacts",
    "Row",
    "Run",
    "RunReader",
    "Status",
    "TimeFacts",
    "WorkFacts",
    "encode",
    "read_run",
    "row_key",
]

RULES: dict[str, str] = {
    "RUN-01": "a run is JSON lines, and the first is a header of a schema and version known here",
    "RUN-02": "every whole line of a run is a header or a row",
    "RUN-03": "a run that is there already is only gone on with, and by one process at a time",
}

SCHEMA = "hipdnn-iree.run"
VERSION = 1

Status = Literal[
    "ok",
    "wrong",
    "declined",
    "invalid",
    "compile-error",
    "crash",
    "timeout",
    "out-of-memory",
]
STATUSES: tuple[Status, ...] = get_args(Status)
FAILED: frozenset[Status] = frozenset(STATUSES) - {"ok", "declined", "invalid"}
"""Statuses that say something is broken here, and not in the problem."""


class Header(Struct, kw_only=True):
    """Under which conditions the rows below were made.

    Attributes
    ----------
    schema, version
        Of the file.
    created
        Time in UTC, ISO 8601.
    argv
        The command line.
    machine, versions
        As of `provider.sweep.machine`.
    options
        What decides what is in a row: how it was checked, timed and limited.
    """

    schema: str = SCHEMA
    version: int = VERSION
    created: str
    argv: list[str]
    machine: dict[str, Any]
    versions: dict[str, str | None]
    options: dict[str, Any]

    def differences(self, other: Header) -> list[str]:
        """Return in which conditions another header differs, as ``name: theirs -> ours``."""
        parts = ("machine", "versions", "options")
        mine, theirs = (
            {f"{p}.{k}": v for p in parts for k, v in getattr(one, p).items()}
            for one in (self, other)
        )
        names = sorted((mine.keys() | theirs.keys()) - {"machine.load", "machine.system"})
        return [
            f"{name}: {theirs.get(name)} -> {mine.get(name)}"
            for name in names
            if mine.get(name) != theirs.get(name)
        ]


class CompileFacts(Struct, kw_only=True):
    """How the code was made.

    Attributes
    ----------
    seconds
        Seconds by stage.
    total_s
        Seconds from the graph to a plan.
    cache
        Whether the cache had the code.
    module_bytes
        Size of the compiled module; None for an engine that has none.
    """

    seconds: dict[str, float]
    total_s: float
    cache: Literal["hit", "miss"]
    module_bytes: int | None


class CodeFacts(Struct, kw_only=True):
    """What the compiler made.  Those with defaults of None are of gfx9 kernels only.

    Attributes
    ----------
    ir
        Digest of what was compiled: IR, flags, compiler versions (`jit.pipeline.ir_digest`).
    dispatches
        Kernel launches of one execution.
    transient_bytes
        Size of the workspace.
    registers
        Vector registers, those for accumulation included, of the kernel that has most.
    spills
        Registers that did not fit, of all kernels.
    lds_bytes
        Of the kernel that has most.
    mfma
        Matrix instructions in the text of all kernels.
    """

    dispatches: int | None
    transient_bytes: int | None
    registers: int | None = None
    spills: int | None = None
    lds_bytes: int | None = None
    mfma: int | None = None
    ir: str = ""


class InstructionFacts(Struct, kw_only=True):
    """What gfx9 kernels consist of, on request (`instructions.instruction_facts`).

    Attributes
    ----------
    kernels
        How many there are.
    met
        How often an instruction stands in them, by name.
    different
        Kernels of which the compiler's text is of other code, by `instructions.REASONS`.
    launched
        Kernels that emulation executed to their end; None where nothing was emulated.
    missed
        As ``met``, of what was not executed then.
    """

    kernels: int
    met: dict[str, int]
    different: dict[str, int]
    launched: int | None = None
    missed: dict[str, int] | None = None


class CheckFacts(Struct, kw_only=True):
    """How the results compare with the reference; errors that are not finite are None.

    Attributes
    ----------
    method
        ``float64``: every element with the float64 reference; ``blocked``: with a faster program
        whose error is bounded, and a sample of elements with float64.
    data
        Kind of inputs.
    elements, bad, unbounded
        How many elements were compared, how many are not as a correct result may be, and about how
        many the reference says nothing, as any value may come of them.
    max_abs, max_rel
        Largest error, absolute and relative (`verify.OutputReport`).
    of_bound
        Largest error in units of what is allowed at its element (`verify.OutputReport`).
    seconds
        What the comparison took, the reference included.
    """

    method: Literal["float64", "blocked"]
    data: str
    elements: int
    bad: int
    max_abs: float | None
    max_rel: float | None
    of_bound: float | None
    seconds: float
    unbounded: int = 0


class TimeFacts(Struct, kw_only=True):
    """Times of one call in microseconds; the engines of a case are timed in turns.

    Attributes
    ----------
    median_us, best_us
        Of all calls; on a GPU of means over the calls between two waits of the host.
    spread
        Half the distance of the quartiles, relative to the median.
    rounds_us
        The fastest call of each round; rounds of the same case and target belong together.
    visits
        How many of the rounds were made at each time that the case was timed at, with other cases
        in between; empty where it was timed once.
    calls
        How many calls there were.
    cold_us
        With caches flushed before each call; None where that was not measured.
    """

    median_us: float
    best_us: float
    spread: float
    rounds_us: list[float]
    calls: int
    cold_us: float | None = None
    visits: list[int] = []


class WorkFacts(Struct, kw_only=True):
    """Arithmetic and traffic of the problem, and what the median time makes of them.

    Attributes
    ----------
    flops, bytes
        Operations of the graph; bytes of its inputs and outputs.
    tflops, gbytes_per_s
        10^12 operations and 10^9 bytes a second; None without times.
    roofline
        Least time that the machine's limits allow (`jit.inspect.peaks`), by the median time; None
        without times, where the limits are not known, and above 1.5, where they are not right.
    no_roofline
        Why a row with times has none.
    peak_tflops, peak_gbytes_per_s
        The limits: 10^12 operations of 32 bits a second outside of matrix units, and 10^9 bytes;
        None where they are not known.
    """

    flops: int
    bytes: int
    tflops: float | None = None
    gbytes_per_s: float | None = None
    roofline: float | None = None
    no_roofline: str = ""
    peak_tflops: float | None = None
    peak_gbytes_per_s: float | None = None


class Row(Struct, kw_only=True, omit_defaults=True):
    """What became of one case, in one type, by one engine, for one target.

    Attributes
    ----------
    key
        ``case|dtype|engine|target``; names the row in its run.
    case, suite, source
        Name of the case, the file it is from, and ``file:line`` where that is known.
    op, tags, dtype
        Of the case; the type in hipDNN's spelling.
    digest
        Of the graph; empty when there is none.
    engine, knobs
        As on the command line; the knobs that the engine used.
    served_by
        Name of the engine that built the plan; empty where none did.
    target, device
        Canonical name; ``cpu``, ``hip:0``, ``cuda:0``, ``emulated`` or ``none``.
    emulated
        Whether kernels were executed by emulation.
    status
        One of `STATUSES`.
    rules
        That declined it or that it breaks.
    detail
        One line that explains the status.
    seconds
        What the whole row took.
    at
        When it was known: UTC, ISO 8601.
    log
        The whole text that ``detail`` is the first line of.
    compile, code, instructions, check, times, work
        Of the parts that were reached.
    """

    key: str
    case: str
    suite: str
    source: str
    op: str
    tags: list[str]
    dtype: str
    digest: str
    engine: str
    knobs: dict[str, Any]
    target: str
    device: str
    emulated: bool
    status: Status
    rules: list[str]
    detail: str
    seconds: float
    at: str
    served_by: str = ""
    log: str = ""
    compile: CompileFacts | None = None
    code: CodeFacts | None = None
    instructions: InstructionFacts | None = None
    check: CheckFacts | None = None
    times: TimeFacts | None = None
    work: WorkFacts | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """A run as far as it could be read.

    Attributes
    ----------
    headers : tuple of Header
    rows : tuple of Row
        Of each key the last one: a resumed sweep does rows of other conditions anew.
    header_of : tuple of int
        For each row the index of the header that it belongs to.
    cut : str or None
        Where and why reading ended before the file did.
    """

    headers: tuple[Header, ...]
    rows: tuple[Row, ...]
    header_of: tuple[int, ...]
    cut: str | None


def row_key(case: str, dtype: str, engine: str, target: str) -> str:
    """Return what names a row in its run."""
    return f"{case}|{dtype}|{engine}|{target}"


def encode(entry: Header | Row) -> bytes:
    """Return the line of a header or a row; numbers that are not finite become null."""
    return msgspec.json.encode(entry) + b"\n"


class RunReader:
    """Reads a run line by line: iterating yields headers and rows in order.

    Attributes
    ----------
    cut : str or None
        After iterating: where and why it ended before the file did.
    end : int
        Bytes up to which the lines are whole and understood.
    partial : bool
        Whether what follows them is a line without an end, as a process leaves that is killed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cut: str | None = None
        self.end = 0
        self.partial = False

    def __iter__(self) -> Iterator[Header | Row]:
        """Yield the entries; raise `FormatError` where the file does not begin as a run."""
        with self.path.open("rb") as file:
            for number, line in enumerate(file, 1):
                entry = _entry(line, first=number == 1)
                if isinstance(entry, str):
                    self.cut = f"{self.path}, line {number}: {entry}"
                    self.partial = not line.endswith(b"\n")
                    break
                self.end += len(line)
                yield entry
        if not self.end:
            raise _no_run(self.path, self.cut or "it is empty")


def read_run(path: Path) -> Run:
    """Read a run, also one that grows meanwhile.

    Raises
    ------
    FormatError
        If it does not begin as a run (RUN-01).
    OSError
        If the file cannot be read.
    """
    reader, headers = RunReader(path), list[Header]()
    latest: dict[str, tuple[Row, int]] = {}
    for entry in reader:
        if isinstance(entry, Header):
            headers.append(entry)
        else:
            latest.pop(entry.key, None)
            latest[entry.key] = (entry, len(headers) - 1)
    return Run(
        headers=tuple(headers),
        rows=tuple(row for row, _ in latest.values()),
        header_of=tuple(of for _, of in latest.values()),
        cut=reader.cut,
    )


def _no_run(path: Path, why: str) -> FormatError:
    found = Problem(
        rule="RUN-01",
        port="line 1",
        got=why.removeprefix(f"{path}, line 1: "),
        wanted=f"a header of {SCHEMA} version {VERSION}",
        hint="hipdnn-iree sweep SUITE -o RUN makes one",
    )
    return FormatError(f"{path} is no run of a sweep", [found])


@cache
def _decoders() -> tuple[msgspec.json.Decoder[Header], msgspec.json.Decoder[Row]]:
    return msgspec.json.Decoder(Header), msgspec.json.Decoder(Row)


class _Kind(Struct):
    """What tells a header from a row."""

    schema: str | None = None
    version: int = 0


def _entry(line: bytes, *, first: bool) -> Header | Row | str:
    """Return what a line holds, or why it holds nothing of use."""
    headers, rows = _decoders()
    if not line.endswith(b"\n"):
        return "the line is cut off"
    try:
        kind = msgspec.json.decode(line, type=_Kind)
        if kind.schema is None and not first:
            return rows.decode(line)
        if (kind.schema, kind.version) != (SCHEMA, VERSION):
            return f"schema {kind.schema} version {kind.version}, not {SCHEMA} version {VERSION}"
        return headers.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return f"{error}"
