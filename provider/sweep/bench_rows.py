# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Results of ``hipdnn-iree bench`` as a run, so that both are reported and compared alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from ...graph_api.errors import FormatError, Problem
from .row import (
    CheckFacts,
    CodeFacts,
    Header,
    Row,
    Run,
    Status,
    TimeFacts,
    WorkFacts,
    read_run,
    row_key,
)

__all__ = ["RULES", "read_results"]

RULES: dict[str, str] = {
    "RESULTS-01": "what is reported is a run of a sweep, or results of a benchmark",
}


class _Engine(Struct):
    """What results hold of an engine in a case."""

    median_us: float | None = None
    best_us: float | None = None
    spread: float = 0.0
    calls: int = 0
    rounds_us: list[float] = []
    ok: bool = True
    max_rel_error: float | None = None
    dispatches: int | None = None
    transient_bytes: int | None = None
    knobs: dict[str, Any] = {}
    declined: list[dict[str, Any]] | None = None
    error: str | None = None
    work: WorkFacts | None = None


class _Case(Struct):
    """A case of results."""

    name: str
    digest: str
    engines: dict[str, _Engine]
    tags: list[str] = []
    op: str = ""
    dtype: str = ""


class _Results(Struct):
    """What ``bench -o FILE`` writes, as far as it matters here."""

    machine: dict[str, Any]
    engines: list[str]
    cases: list[_Case]
    title: str = ""
    target: str = "cpu"
    versions: dict[str, str | None] = {}


def read_results(path: Path) -> Run:
    """Read a run, or results of a benchmark as a run.

    Raises
    ------
    FormatError
        If the file is neither (RUN-01, RESULTS-01).
    OSError
        If it cannot be read.
    """
    with path.open("rb") as file:
        if file.readline(1024).strip() != b"{":  # a run has a whole object in its first line
            return read_run(path)
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_Results)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        wanted = "a run of `hipdnn-iree sweep`, or what `hipdnn-iree bench -o FILE` writes"
        problem = Problem(rule="RESULTS-01", port=str(path), got=str(error), wanted=wanted)
        raise FormatError(f"{path} holds no results", [problem]) from None
    rows = tuple(
        _row(found, case, engine, case.engines[engine])
        for case in found.cases
        for engine in found.engines
        if engine in case.engines
    )
    header = Header(
        created="",
        argv=["hipdnn-iree", "bench"],
        machine=found.machine,
        versions=found.versions,
        options={},
    )
    return Run(headers=(header,), rows=rows, header_of=(0,) * len(rows), cut=None)


def _row(found: _Results, case: _Case, engine: str, entry: _Engine) -> Row:
    status, detail, rules = _outcome(entry)
    return Row(
        key=row_key(case.name, "", engine, found.target),
        case=case.name,
        suite=found.title,
        source="",
        op=case.op,
        tags=case.tags,
        dtype=case.dtype,
        digest=case.digest,
        engine=engine,
        knobs=entry.knobs,
        target=found.target,
        device="",
        emulated=False,
        status=status,
        rules=rules,
        detail=detail,
        seconds=0.0,
        at="",
        code=CodeFacts(dispatches=entry.dispatches, transient_bytes=entry.transient_bytes),
        check=_check(entry) if status in ("ok", "wrong") else None,
        times=_times(entry),
        work=entry.work,
    )


def _outcome(entry: _Engine) -> tuple[Status, str, list[str]]:
    if entry.declined is not None:
        rules = sorted({str(reason.get("rule", "")) for reason in entry.declined})
        return "declined", ", ".join(rules), rules
    if entry.error is not None:
        return "compile-error", entry.error.partition("\n")[0], []
    return ("ok" if entry.ok else "wrong"), "", []


def _check(entry: _Engine) -> CheckFacts:
    return CheckFacts(
        method="float64",
        data="normal",
        elements=0,
        bad=0,
        max_abs=None,
        max_rel=entry.max_rel_error,
        of_bound=None,
        seconds=0.0,
    )


def _times(entry: _Engine) -> TimeFacts | None:
    if entry.median_us is None or entry.best_us is None:
        return None
    return TimeFacts(
        median_us=entry.median_us,
        best_us=entry.best_us,
        spread=entry.spread,
        rounds_us=entry.rounds_us,
        calls=entry.calls,
    )
