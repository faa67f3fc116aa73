# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A run as a table for other programs: CSV, or Parquet where pyarrow is installed.

Parts of a row become columns such as ``times.median_us``; lists and mappings become JSON text in
CSV, and lists of numbers stay lists in Parquet.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import fields

from ...graph_api.errors import NotSupportedError, SettingError
from .row import (
    CheckFacts,
    CodeFacts,
    CompileFacts,
    InstructionFacts,
    Row,
    Run,
    TimeFacts,
    WorkFacts,
)

__all__ = ["FORMATS", "exported", "format_of"]

FORMATS = ("csv", "parquet")
_PARTS: dict[str, type[msgspec.Struct]] = {
    "compile": CompileFacts,
    "code": CodeFacts,
    "instructions": InstructionFacts,
    "check": CheckFacts,
    "times": TimeFacts,
    "work": WorkFacts,
}


def exported(run: Run, form: str) -> bytes:
    """Return the rows of a run in a format.

    Parameters
    ----------
    run : Run
    form : str
        One of `FORMATS`.

    Raises
    ------
    SettingError
        For another format.
    NotSupportedError
        For Parquet without pyarrow.
    """
    if form not in FORMATS:
        raise SettingError(f"the format is {form!r}; allowed: {', '.join(FORMATS)}")
    return _csv(run.rows) if form == "csv" else _parquet(run.rows)


def format_of(path: str) -> str:
    """Return the format that a file's name ends with, CSV where it says none."""
    ending = Path(path).suffix.removeprefix(".").lower()
    return ending if ending in FORMATS else "csv"


def _columns() -> list[str]:
    """Return the columns of every export, in the order of a row's fields."""
    names: list[str] = []
    for one in fields(Row):
        part = _PARTS.get(one.name)
        inner = fields(part) if part is not None else ()
        names += [f"{one.name}.{field.name}" for field in inner] or [one.name]
    return names


def _flat(row: Row) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in msgspec.structs.asdict(row).items():
        if name not in _PARTS:
            found[name] = value
        elif value is not None:
            found |= {f"{name}.{k}": v for k, v in msgspec.structs.asdict(value).items()}
    return found


def _text(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | dict) else value


def _csv(rows: Iterable[Row]) -> bytes:
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, _columns(), restval="")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _text(value) for name, value in _flat(row).items()})
    return out.getvalue().encode("utf-8", "replace")


def _parquet(rows: Iterable[Row]) -> bytes:
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ModuleNotFoundError:
        text = "Parquet is written by pyarrow, which is not installed: pip install pyarrow, or csv"
        raise NotSupportedError(text) from None
    flat = [
        {
            name: json.dumps(value) if isinstance(value, dict) else value
            for name, value in _flat(row).items()
        }
        for row in rows
    ]
    # By all columns: those that no row has stay, and files of several runs can be joined.
    table = arrow.table({name: [row.get(name) for row in flat] for name in _columns()})
    out = io.BytesIO()
    parquet.write_table(table, out)
    return out.getvalue()
