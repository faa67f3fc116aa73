# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Findings in a JSON file, added to one by one, so that a long survey can be resumed."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hipdnn_iree.graph_api.errors import FormatError, SettingError
from hipdnn_iree.graph_api.files import write_file

__all__ = ["Key", "alone", "load", "save"]

Key = tuple[str, str, str]
"""Sample, data type, target."""


def load(path: Path | None) -> dict[Key, dict[str, Any]]:
    """Return the findings of a file by what they are about; none of a file that is not there.

    Raises
    ------
    FormatError
        If the file is not such a record.
    """
    if path is None or not path.exists():
        return {}
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))["findings"]
        return {(row["case"], row["data_type"], row["target"]): row for row in rows}
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{path} is no record of findings: {error!r}") from None


def save(path: Path, findings: Mapping[Key, Mapping[str, Any]]) -> None:
    """Write findings, one a line; the file is replaced at once or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(findings[key]) for key in sorted(findings))
    write_file(path, f'{{"findings": [\n{lines}\n]}}\n'.encode(), sync=False)


@contextmanager
def alone(path: Path | None) -> Iterator[None]:
    """Keep other processes from adding to the same file; they would undo each other's work.

    Raises
    ------
    SettingError
        If one does already.
    """
    if path is None:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(path.name + ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SettingError(f"another survey is adding to {path}") from None
        yield
