# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The forms of the commands that take a graph, a module or a model."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from .shared import (
    Absent,
    CodePlan,
    Error,
    Fault,
    Form,
    GraphName,
    Kernel,
    KnobChoice,
    Output,
    Part,
    PlannedFlag,
    PlannedNode,
    Tried,
    Workaround,
)

# ---------------------------------------------------------------------------- run, compile


class Execution(Part, kw_only=True):
    repeat: int
    first_s: float
    min_s: float
    median_s: float
    max_s: float


class RunGraph(Part, kw_only=True):
    name: str
    digest: str
    nodes: int


class Run(Form, kw_only=True):
    graph: RunGraph
    engine: str
    engine_id: str
    engine_requested: str | None
    policy: str
    knobs: dict[str, str]
    target: str
    driver: str | None
    emulated: bool
    bucket: dict[str, int] | None
    cache: str
    attempt: str | None
    verified: bool | None
    max_abs_error: float | None
    max_rel_error: float | None
    compile_s: float
    execute_s: float | None
    execute: Execution | None
    stages: dict[str, float]
    workspace_bytes: int
    dispatches: int | None
    fills: int | None
    copies: int | None
    outputs: list[Output]


class CompiledTarget(Part, kw_only=True):
    target: str
    bucket: dict[str, int] | None
    error: Error | Absent = UNSET
    cache: str | Absent = UNSET
    seconds: float | Absent = UNSET
    stages: dict[str, float] | Absent = UNSET
    vmfb_bytes: int | Absent = UNSET
    sha256: str | Absent = UNSET
    key: str | Absent = UNSET
    workspace_bytes: int | Absent | None = UNSET
    dispatches: int | Absent | None = UNSET
    fills: int | Absent | None = UNSET
    copies: int | Absent | None = UNSET
    transient_bytes: int | Absent | None = UNSET
    attempt: str | Absent | None = UNSET
    failed: list[Tried] | Absent = UNSET
    emulated: bool | Absent = UNSET
    verified: bool | Absent | None = UNSET
    max_abs_error: float | Absent | None = UNSET
    max_rel_error: float | Absent | None = UNSET
    file: str | Absent | None = UNSET
    dump: str | Absent | None = UNSET
    kernels: list[Kernel] | Absent | None = UNSET


class CompiledGraph(Part, kw_only=True):
    path: str
    graph: GraphName | None
    targets: list[CompiledTarget]


class CompileSummary(Part, kw_only=True):
    pairs: int
    compiled: int
    hits: int
    failed: int
    wrong: int
    jobs: int
    seconds: float


class Compile(Form, kw_only=True):
    graph: GraphName | Absent | None = UNSET
    targets: list[CompiledTarget] | Absent = UNSET
    graphs: list[CompiledGraph]
    summary: CompileSummary
    error: Error | Absent = UNSET


# ---------------------------------------------------------------------------- artifact


class ArtifactGraph(Part, kw_only=True):
    name: str
    digest: str
    part: str


class Argument(Part, kw_only=True):
    output: bool
    data_type: str
    dims: list[int]
    strides: list[int]
    shape: list[int]
    scalar: bool


class Signature(Part, kw_only=True):
    args: list[Argument]
    workspace_bytes: int


class Key(Part, kw_only=True):
    digest: str
    ingredients: dict[str, str | list[str]]


class ArtifactPlan(Part, kw_only=True):
    engine: str
    engine_id: str
    knobs: dict[str, str]
    target: str
    bucket: dict[str, int]
    code: str
    nbytes: int
    sha256: str
    key: Key
    signature: Signature
    workspace_bytes: int | None
    statistics: dict[str, int | None]
    runs_here: bool
    why_not_here: str


class FilePart(Part, kw_only=True):
    size: int
    sha256: str


class Artifact(Form, kw_only=True):
    path: str
    nbytes: int
    format: str
    version: int
    made_by: dict[str, str | None]
    graph: ArtifactGraph
    plans: list[ArtifactPlan]
    parts: dict[str, FilePart]


class ArtifactVerify(Form, kw_only=True):
    path: str
    ok: bool
    parts: int
    plans: int


# ---------------------------------------------------------------------------- inspect, explain


class Occupancy(Part, kw_only=True):
    waves_per_simd: int
    max_waves_per_simd: int
    workgroups_per_cu: int
    limited_by: list[str]


class Roofline(Part, kw_only=True):
    memory_s: float
    matrix_s: float
    vector_s: float
    bound: str
    seconds: float
    intensity: float | None
    ridge: float


class HotLoop(Part, kw_only=True):
    trips: int | None
    instructions: int
    vector: int
    mfma: int
    mfma_share: float
    loads: dict[str, int]


class TimeEstimate(Part, kw_only=True):
    seconds: float
    bound: str
    times: dict[str, float]
    workgroups: int
    waves: int
    wave_clocks: int
    arithmetic: float | None
    unknown_loops: int


class Dispatch(Part, kw_only=True):
    name: str
    nodes: list[str]
    reads: list[str]
    writes: list[str]
    at_load: bool
    flops: int
    matrix_flops: int
    bytes: int
    pipeline: str
    workgroup_size: list[int]
    subgroup_size: int | None
    lowering_config: dict[str, str]
    kernel: Kernel | None
    occupancy: Occupancy | None
    roofline: Roofline | None
    hot_loop: HotLoop | None
    estimate: TimeEstimate | None


class Notice(Part, kw_only=True):
    rule: str
    nodes: list[str]
    dispatches: list[str]
    text: str
    hint: str


class Inspect(Form, kw_only=True):
    graph: GraphName
    target: str
    figures_of: str | None
    dispatches: int | None
    fills: int | None
    copies: int | None
    transient_bytes: int | None
    flops: int
    matrix_flops: int
    least_bytes: int
    moved_bytes: int | None
    least_s: float | None
    roofline_s: float | None
    estimate_s: float | None
    dispatch: list[Dispatch]
    warnings: list[Notice]
    dump: str | None


class Chosen(Part, kw_only=True):
    engine: str
    engine_id: str
    knobs: dict[str, str]
    policy: str


class Measured(Part, kw_only=True):
    engine: str
    engine_id: str
    knobs: dict[str, str]
    median_us: float
    low_us: float
    high_us: float
    samples: int
    when: str


class SplitPart(Part, kw_only=True):
    engine: str
    nodes: list[str]


class CandidateEntry(Part, kw_only=True):
    engine: str
    alias: str
    engine_id: str
    served: bool
    default: bool
    last_resort: bool
    reasons: list[Fault]
    knobs: list[KnobChoice]
    estimated_us: float | None
    measured_us: float | None
    estimate: dict[str, Any] | None
    parts: list[SplitPart] | None
    measured: list[Measured]


class Difference(Part, kw_only=True):
    label: str
    a: str | list[str] | None
    b: str | list[str] | None


class Miss(Part, kw_only=True):
    digest: str
    reason: str
    nearest: str
    differences: list[Difference]
    detail: str
    text: str


class CacheState(Part, kw_only=True):
    state: str
    key: str
    root: str
    miss: Miss | None
    attempt: str | None
    failed: list[Tried]


class Explain(Form, kw_only=True):
    graph: GraphName
    target: str
    chosen: Chosen | None
    why: str
    policies: list[str]
    candidates: list[CandidateEntry]
    cache: CacheState | None
    plan: CodePlan | None


# ---------------------------------------------------------------------------- show, opt, onnx


class ShowPlan(Form, kw_only=True):
    nodes: list[PlannedNode]
    flags: list[PlannedFlag]
    workarounds: list[Workaround]
    attempt: str | None
    failed: list[Tried]


class ModuleArgument(Part, kw_only=True):
    data_type: str
    dims: list[int]


class ShowModule(Form, kw_only=True, rename={"source": "from"}):
    name: str
    source: str
    digest: str
    arguments: dict[str, ModuleArgument]


class Remark(Part, kw_only=True):
    function: str
    op: str
    node: str
    rule: str
    reason: str


class OffloadedGraph(Part, kw_only=True):
    name: str
    engine: str
    ops: list[str]
    nodes: list[str]
    custom: Any


class OptResult(Part, kw_only=True):
    dims: list[int]
    data_type: str


class OptModule(Part, kw_only=True):
    text: str
    remarks: list[Remark]
    graphs: list[OffloadedGraph]
    results: list[OptResult] | Absent = UNSET


class Opt(Form, kw_only=True):
    passes: list[str]
    modules: list[OptModule]


class OnnxToTorch(Form, kw_only=True):
    text: str
    inputs: list[str]
    weights: list[str]
    outputs: list[str]


class OnnxGroup(Part, kw_only=True):
    name: str
    engine: str
    policy: str
    why: str
    code: str
    each_size: str
    nodes: list[str]


class OnnxDeclined(Part, kw_only=True):
    node: str
    op: str
    rule: str
    reason: str


class OnnxOutput(Part, kw_only=True):
    name: str
    ok: bool
    error: float | None
    bound: float | None


class OnnxGraphTime(Part, kw_only=True):
    name: str
    nodes: list[str]
    us: float


class OnnxTimes(Part, kw_only=True):
    session_s: float
    run_us: float | None
    cpu_us: float | None
    graphs: list[OnnxGraphTime]
    graphs_us: float | Absent = UNSET


class OnnxInput(Part, kw_only=True):
    name: str
    dims: list[int]
    open: dict[str, int]


class OnnxModel(Form, kw_only=True):
    model: str
    verified: bool | None
    in_file: int | None
    nodes: int
    assigned: int
    compiled: list[str]
    groups: list[OnnxGroup]
    declined: list[OnnxDeclined]
    inputs: list[OnnxInput] | None
    outputs: list[OnnxOutput]
    times: OnnxTimes
