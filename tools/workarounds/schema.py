# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a folder ``docs/upstream/W-NNN`` holds, read and checked."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

__all__ = ["Baseline", "Check", "Defect", "DefectError", "Input", "Output", "defects", "read"]

SYMPTOMS = ("wrong numbers", "crash", "does not compile", "slow")
TARGETS = ("cpu", "cuda", "gfx908", "gfx90a", "gfx942", "gfx950")
HOWS = ("compiled", "run on the CPU", "run on CUDA", "emulated")
STATES = ("needed", "cannot reproduce")
KINDS = ("compile", "run", "emulate", "time", "script", "none")
FILLS = ("normal", "integers", "iota", "ones", "zeros")
DTYPES = ("f16", "bf16", "f32", "f64", "i8", "i16", "i32", "i64", "u8", "bool")


class DefectError(Exception):
    """A folder is not what the schema wants; the text says where and why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Output:
    """Shape and element type of a result."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Input:
    """An argument: normal (seeded), integers (-3..3, seeded), iota, ones or zeros."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    fill: str
    seed: int = -1
    """The default is its position."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Baseline:
    """What is right or quick: another module, other flags, or both."""

    file: str = ""
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """How the installed compiler is asked (docs/development.md explains the keys)."""

    kind: str
    file: str = "repro.mlir"
    flags: tuple[str, ...] = ()
    message: str = ""
    limit_s: float = 120
    memory_gb: float = 4
    reason: str = ""
    entry: str = "main"
    tolerance: float = 1e-3
    expected: str = ""
    output: int = 0
    ratio: float = 2
    measure: str = "compile"
    outputs: tuple[Output, ...] = ()
    inputs: tuple[Input, ...] = ()
    baseline: Baseline | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Defect:
    """One defect, as ``defect.toml`` has it."""

    folder: Path
    id: str
    title: str
    symptom: str
    component: str
    versions: tuple[str, ...]
    targets: tuple[str, ...]
    how: str
    state: str
    where: tuple[str, ...]
    instead: str
    when: str
    found: str
    check: Check
    notes: str = ""


_CHOICES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "symptom": SYMPTOMS,
        "how": HOWS,
        "state": STATES,
        "kind": KINDS,
        "dtype": DTYPES,
        "fill": FILLS,
        "measure": ("compile", "run"),
    }
)
_NESTED: Mapping[str, Any] = MappingProxyType(
    {"check": Check, "baseline": Baseline, "inputs": Input, "outputs": Output}
)
_LISTS = {"versions", "targets", "where", "flags", "shape", "inputs", "outputs"}
_NUMBERS = {"limit_s", "memory_gb", "tolerance", "ratio", "output", "seed"}


def _value(key: str, value: Any, path: str) -> Any:
    if key in _LISTS:
        if not isinstance(value, list):
            raise DefectError(f"{path}: a list is wanted")
        one = _NESTED.get(key)
        if one is not None:
            return tuple(_table(one, v, f"{path}[{i}]") for i, v in enumerate(value))
        kind = int if key == "shape" else str
        if not all(isinstance(v, kind) for v in value):
            raise DefectError(f"{path}: a list of {kind.__name__} is wanted")
        return tuple(value)
    if key in _NESTED:
        return _table(_NESTED[key], value, path)
    kinds = (int, float) if key in _NUMBERS else (str,)
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise DefectError(f"{path}: got {value!r}, wanted {' or '.join(k.__name__ for k in kinds)}")
    if key in _CHOICES and value not in _CHOICES[key]:
        raise DefectError(f"{path}: got {value!r}, wanted one of {', '.join(_CHOICES[key])}")
    return value


def _table(kind: Any, given: Any, path: str, **more: Any) -> Any:
    if not isinstance(given, dict):
        raise DefectError(f"{path}: a table is wanted")
    known = {f.name: f for f in fields(kind) if f.name not in more}
    if unknown := sorted(set(given) - set(known)):
        raise DefectError(f"{path}: unknown keys {', '.join(unknown)}")
    if missing := [n for n, f in known.items() if f.default is MISSING and n not in given]:
        raise DefectError(f"{path}: missing keys {', '.join(missing)}")
    values = {k: _value(k, v, f"{path}.{k}" if path else k) for k, v in given.items()}
    return kind(**values, **more)


def read(folder: Path) -> Defect:
    """Return the defect that a folder holds.

    Raises
    ------
    DefectError
        If a file is missing, or ``defect.toml`` is not as the schema wants it.
    """
    folder = folder.resolve()
    source = folder / "defect.toml"
    try:
        found: Defect = _table(Defect, tomllib.loads(source.read_text("utf-8")), "", folder=folder)
        problem = _problem(found)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, DefectError) as error:
        problem = str(error)
    if problem:
        raise DefectError(f"{source}: {problem}")
    return found


def _problem(d: Defect) -> str:
    """Return what is wrong with a defect beyond the types of its keys."""
    c = d.check
    files = {"README.md", c.file, c.baseline.file if c.baseline and c.baseline.file else c.file}
    missing = sorted(name for name in files if not (d.folder / name).is_file())
    wanted = {
        "compile": bool(c.message),
        "run": bool(c.expected and c.inputs),
        "emulate": bool(c.expected and c.outputs),
        "time": c.baseline is not None,
        "none": bool(c.reason),
    }
    rules = {
        f"id is {d.id}, not the folder's name": d.id == d.folder.name,
        f"files are missing: {', '.join(missing)}": not missing,
        f"targets are among {', '.join(TARGETS)}": bool(d.targets) and {*d.targets} <= {*TARGETS},
        f"kind {c.kind} lacks what it needs": wanted.get(c.kind, True),
        "expected is 'baseline' but there is none": c.expected != "baseline" or bool(c.baseline),
        "message is no regular expression": _is_pattern(c.message),
    }
    return next((text for text, holds in rules.items() if not holds), "")


def _is_pattern(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True


def defects(folder: Path, only: Sequence[str] = ()) -> list[Defect]:
    """Return the defects in a folder by their ids, or those whose id contains one of ``only``."""
    found = sorted(path for path in folder.glob("W-*") if path.is_dir())
    return [read(p) for p in found if not only or any(part in p.name for part in only)]
