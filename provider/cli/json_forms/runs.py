# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The forms of the commands that measure and check many problems, and of what repeats them."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET

from .shared import Absent, Error, Form, GraphName, Part

# ---------------------------------------------------------------------------- bench, tune


class Machine(Part, kw_only=True):
    cpu: str
    processors: int
    vector: list[str]
    memory_bytes: int
    system: str
    load: float


class RuleName(Part, kw_only=True):
    rule: str


class BenchRow(Part, kw_only=True):
    engine: str | Absent | None = UNSET
    knobs: dict[str, str] | Absent = UNSET
    dispatches: int | Absent | None = UNSET
    transient_bytes: int | Absent | None = UNSET
    ok: bool | Absent = UNSET
    max_rel_error: float | Absent | None = UNSET
    median_us: float | Absent = UNSET
    best_us: float | Absent = UNSET
    spread: float | Absent = UNSET
    calls: int | Absent = UNSET
    rounds_us: list[float] | Absent = UNSET
    declined: list[RuleName] | Absent = UNSET
    detail: str | Absent = UNSET
    error: str | Absent = UNSET
    work: dict[str, float | str | None] | Absent = UNSET


class BenchCase(Part, kw_only=True):
    name: str
    op: str
    dtype: str
    tags: list[str]
    digest: str
    engines: dict[str, BenchRow]
    ratio: float | None
    ratio_best: float | None


class WorstRatio(Part, kw_only=True):
    ratio: float
    name: str


class Bench(Form, kw_only=True):
    title: str
    target: str
    machine: Machine
    versions: dict[str, str | None]
    threads: int
    seconds: float
    realtime: bool
    engines: list[str]
    baseline: str | None
    cases: list[BenchCase]
    geomean: float | None
    geomean_best: float | None
    geomean_fused: float | None
    geomean_fused_best: float | None
    worst: WorstRatio | None
    ok: bool


class TuneRow(Part, kw_only=True):
    engine: str
    engine_id: str
    knobs: dict[str, str]
    status: Literal["ok", "same", "wrong", "failed", "declined"]
    reason: str
    median_us: float | None
    low_us: float | None
    high_us: float | None
    noise: float | None
    samples: int
    max_rel_error: float | None
    build_s: float


class TunedGraph(Part, kw_only=True):
    file: str
    error: Error | Absent = UNSET
    graph: GraphName | Absent = UNSET
    target: str | Absent = UNSET
    winner: TuneRow | Absent | None = UNSET
    rows: list[TuneRow] | Absent = UNSET
    seconds: float | Absent = UNSET
    stored: bool | Absent = UNSET
    emulated: bool | Absent = UNSET


class Tune(Form, kw_only=True):
    graphs: list[TunedGraph]
    winners: str
    imported: int | None
    exported: int | None
    error: Error | Absent = UNSET


# ---------------------------------------------------------------------------- sweep, report


class FailedRow(Part, kw_only=True):
    key: str
    status: str
    detail: str
    reduced: str | Absent = UNSET


class InvalidProblem(Part, kw_only=True):
    source: str
    rules: list[str]
    detail: str
    rows: int


class Sweep(Form, kw_only=True):
    run: str
    rows: int
    new: int
    checked: int
    counts: dict[str, int]
    failed: list[FailedRow]
    invalid: list[InvalidProblem]
    seconds: float


class SweepCase(Part, kw_only=True):
    name: str
    dtype: str
    tags: str
    target: str
    source: str
    broken: list[str]


class SweepList(Form, kw_only=True):
    cases: list[SweepCase]


class SweepExport(Form, kw_only=True):
    run: str
    rows: int
    cut: str | None
    format: str
    file: str


class RegretOfCase(Part, kw_only=True):
    case: str
    dtype: str
    target: str
    default: str
    best: str
    default_us: float
    best_us: float
    ratio: float


class SweepRegret(
    Form, kw_only=True, rename={"within_1_1": "within_1.1", "within_2_0": "within_2.0"}
):
    run: str
    cut: str | None
    cases: list[RegretOfCase]
    within_1_1: float
    within_2_0: float
    geomean: float


class PairOfEngines(Part, kw_only=True):
    engine: str
    against: str
    rows: int
    geomean: float | None
    disturbed: int
    geomean_steady: float | None
    faster: int
    above_1_5: int
    above_3: int
    worst: float


class DisturbedRows(Part, kw_only=True):
    rows: int
    timed: int
    load: list[float]


class SummaryOfRows(Part, kw_only=True):
    name: str
    rows: int
    counts: dict[str, int]
    geomean: float | None
    timed: int


class BriefRow(Part, kw_only=True):
    key: str
    case: str
    status: str
    detail: str
    command: str
    of_bound: float | Absent | None = UNSET
    median_us: float | Absent = UNSET
    roofline: float | Absent | None = UNSET
    disturbed: bool | Absent = UNSET
    ratio: float | Absent = UNSET
    against: str | Absent = UNSET


class WorstRows(Part, kw_only=True):
    broken: list[BriefRow]
    errors: list[BriefRow]
    times: list[BriefRow]
    ratios: list[BriefRow]


class Scatter(Part, kw_only=True):
    rows: int
    shift: float
    scatter: float
    unrest: float
    threshold: float
    highest: float


class Change(Part, kw_only=True):
    key: str
    verdict: str
    before: str | None
    after: str | None
    before_us: float | None
    after_us: float | None
    against: Any
    ratio: float | Absent = UNSET
    low: float | Absent = UNSET
    high: float | Absent = UNSET
    p: float | Absent = UNSET


class Baseline(Part, kw_only=True):
    alike: bool
    counts: dict[str, int]
    geomean: Any
    scatters: dict[str, Scatter]
    changes: list[Change]


class Report(Form, kw_only=True):
    run: str
    rows: int
    cut: str | None
    counts: dict[str, int]
    disturbed: DisturbedRows
    geomean: dict[str, float | None]
    pairs: list[PairOfEngines]
    by: dict[str, list[SummaryOfRows]]
    worst: WorstRows
    baseline: Baseline | None
    failed_on: list[str]
    page: str | None


class Repro(Form, kw_only=True):
    key: str
    status: str
    folder: str
    files: list[str]
    ir: Literal["written", "failed", "none"]
    said: str
    again: str


class BeforeAfter(Part, kw_only=True):
    before: int
    after: int


class Reduce(Form, kw_only=True):
    status: str
    detail: str
    nodes: BeforeAfter
    elements: BeforeAfter
    asked: int
    digest: str
    file: str | None
