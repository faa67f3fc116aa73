# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Parts that the forms of several commands share; what is printed of an error."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

Absent = UnsetType


class Part(Struct, kw_only=True, forbid_unknown_fields=True):
    """An object inside of what a command prints."""


class Form(Part, kw_only=True):
    """What every command prints."""

    schema_version: Literal[1]
    command: str


# ---------------------------------------------------------------------------- errors


class Fault(Part, kw_only=True):
    rule: str
    node: str
    port: str
    got: str
    wanted: str
    hint: str
    at: str | Absent = UNSET
    engine: str | Absent = UNSET
    text: str | Absent = UNSET


class Tried(Part, kw_only=True):
    attempt: str
    stage: str
    cause: str
    said: str
    reproducer: str


class Error(Struct, kw_only=True):
    """An error; its class adds keys of its own (docs/reference/errors.md)."""

    message: str
    exit_code: int
    code: str | Absent = UNSET
    error: str | Absent = UNSET
    problems: list[Fault] | Absent = UNSET
    declines: list[Fault] | Absent = UNSET
    stage: str | Absent = UNSET
    node: str | Absent = UNSET
    diagnostics: list[str] | Absent = UNSET
    tried: list[Tried] | Absent = UNSET


class Failure(Form, kw_only=True):
    """What a command prints that has failed as a whole."""

    error: Error


# ---------------------------------------------------------------------------- parts of several


class GraphName(Part, kw_only=True):
    name: str
    digest: str


class Output(Part, kw_only=True):
    uid: int
    name: str
    data_type: str
    dims: list[int]
    strides: list[int]
    layout: str
    ok: bool | Absent = UNSET
    elements: int | Absent = UNSET
    wrong: int | Absent = UNSET
    max_abs_error: float | Absent | None = UNSET
    max_rel_error: float | Absent | None = UNSET
    of_bound: float | Absent | None = UNSET
    worst: list[int] | Absent = UNSET
    got: float | Absent | None = UNSET
    expected: float | Absent | None = UNSET
    allowed: float | Absent | None = UNSET
    nan_mismatches: int | Absent = UNSET
    unwritten: int | Absent = UNSET
    unbounded: int | Absent = UNSET


class Kernel(Part, kw_only=True):
    name: str
    vgprs: int
    agprs: int
    sgprs: int
    vgpr_spills: int
    sgpr_spills: int
    lds_bytes: int
    scratch_bytes: int
    mfma: dict[str, int]
    loads: dict[str, int]
    stores: dict[str, int]
    threads: int
    workgroups: int | None
    mfma_count: int


class KnobChoice(Part, kw_only=True):
    name: str
    choices: list[str]
    default: str
    help: str


class PlannedNode(Part, kw_only=True):
    node: str
    op: str
    strategy: str | None
    help: str
    estimates_us: dict[str, float]
    materialised: list[str]
    results_materialised: Any
    outputs_copied: list[Any]
    explicit_padding: Any
    workarounds: list[str]


class PlannedFlag(Part, kw_only=True):
    flag: str
    reason: str


class Workaround(Part, kw_only=True):
    id: str
    title: str
    instead: str


class CodePlan(Part, kw_only=True):
    nodes: list[PlannedNode]
    flags: list[PlannedFlag]
    workarounds: list[Workaround]
