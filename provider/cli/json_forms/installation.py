# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The forms of the commands that tell what is installed and kept on this machine."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET

from .shared import Absent, Fault, Form, Part

# ---------------------------------------------------------------------------- engines, ops


class EngineEntry(Part, kw_only=True):
    name: str
    alias: str
    id: str
    id_hex: str
    version: str
    api_version: str
    source: str
    default: bool
    targets: list[str]
    ops: list[str]


class ForeignEngine(Part, kw_only=True):
    id: str
    id_hex: str
    name: str


class ForeignPlugin(Part, kw_only=True):
    path: str
    usable: bool
    name: str
    version: str
    api_version: str
    era: str
    engines: list[ForeignEngine]
    features: list[str]
    problems: list[Fault]
    said: list[str]


class Engines(Form, kw_only=True):
    engines: list[EngineEntry]
    plugins: list[ForeignPlugin] | Absent = UNSET
    hipdnn: ForeignPlugin | Absent = UNSET


class OpPort(Part, kw_only=True):
    name: str
    optional: bool
    variadic: bool


class OpParameter(Part, kw_only=True):
    name: str
    type: str
    default: Any
    required: bool
    choices: list[Any]


class OpServed(Part, kw_only=True):
    samples: int
    served: int
    declined: dict[str, list[str]]


class OpEntry(Part, kw_only=True):
    name: str
    wire_code: int | None
    json_type: str
    inputs: list[OpPort]
    outputs: list[OpPort]
    parameters: list[OpParameter]
    dtypes: list[str]
    targets: dict[str, dict[str, OpServed]]


class Ops(Form, kw_only=True):
    ops: list[OpEntry]


class TargetEntry(Part, kw_only=True):
    target: str
    arch: str
    family: str
    backend: str
    drivers: list[str]


class Targets(Form, kw_only=True):
    targets: list[TargetEntry]


# ---------------------------------------------------------------------------- cache


class CacheInfo(Form, kw_only=True):
    mode: str
    root: str
    off: str
    entries: int
    nbytes: int
    max_bytes: int | None
    oldest: float | None
    newest: float | None
    reproducers: str


class CacheRemoved(Form, kw_only=True):
    root: str
    entries: int
    nbytes: int
    leftovers: int
    nbytes_left: int
    off: str


class CacheFinding(Part, kw_only=True):
    digest: str
    file: str
    problem: str
    removed: bool


class CacheVerify(Form, kw_only=True):
    root: str
    entries: int
    ok: bool
    findings: list[CacheFinding]
    off: str


# ---------------------------------------------------------------------------- libraries


class LibraryPath(Form, kw_only=True):
    library: str
    version: str


class PluginPath(LibraryPath, kw_only=True):
    folder: str


class LibraryInstall(Form, kw_only=True):
    library: str
    record: str


class PluginFinding(Part, kw_only=True):
    check: str
    state: Literal["ok", "note", "problem"]
    text: str
    cause: str


class PluginDoctor(Form, kw_only=True):
    ok: bool
    findings: list[PluginFinding]


# ---------------------------------------------------------------------------- env, doctor


class Env(Form, kw_only=True):
    hipdnn_iree: dict[str, Any]
    python: dict[str, Any]
    platform: dict[str, Any]
    packages: dict[str, Any]
    settings: list[dict[str, Any]] | dict[str, str]
    unknown_variables: dict[str, str]
    cache: dict[str, Any]
    cpu: dict[str, Any]
    rocm: dict[str, Any]
    torch: dict[str, Any]


class DoctorFinding(Part, kw_only=True):
    check: str
    state: Literal["ok", "note", "problem"]
    found: str
    remedy: str


class Doctor(Form, kw_only=True):
    ok: bool
    findings: list[DoctorFinding]


class Completion(Form, kw_only=True):
    shell: str
    use: str
    script: str
