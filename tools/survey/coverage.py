# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which instructions of the samples' kernels were executed: the data of a page.

The JSON form (``docs/reference/instructions.json``)::

    {"about": {...}, "targets": {target: entry}}

with in each entry, counted over the samples whose code is known

- ``cases``, ``right``: samples whose kernels were decoded, and of them those whose code was
  executed with every element as the reference allows;
- ``kernels``, ``launched``, ``accused``: kernels of the samples, those that were executed to their
  end under all checks, and samples with a kernel that a check objected to;
- ``instructions``: how many are in all kernels, each counted where it stands;
- ``different``: kernels of which the compiler's text is of other code, by `instructions.REASONS`;
- ``mnemonics``: name, with the suffix of its encoding, to how often it stands in the kernels, and
  how many of these were executed in a sample that is right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from hipdnn_iree.emulation.encodings import ARCHES
from hipdnn_iree.jit.cache import versions
from hipdnn_iree.provider.sweep.json_text import json_lines
from hipdnn_iree.provider.sweep.row import Row

from .table import accused

__all__ = ["coverage", "dumps"]


def coverage(rows: Iterable[Row]) -> dict[str, Any]:
    """Return the data of the page.

    Parameters
    ----------
    rows : iterable of Row
        Of sweeps with ``--instructions``; of a sample that comes twice the one that was executed.
    """
    chosen: dict[str, Row] = {}
    for row in rows:
        if row.key not in chosen or (row.instructions and row.instructions.missed is not None):
            chosen[row.key] = row
    mine = {arch: [row for row in chosen.values() if row.target == arch] for arch in ARCHES}
    entries = {arch: _entry(found) for arch, found in mine.items()}
    return {"about": versions(), "targets": {arch: e for arch, e in entries.items() if e}}


def _entry(rows: list[Row]) -> dict[str, Any]:
    decoded = [(row, row.instructions) for row in rows if row.instructions is not None]
    if not decoded:
        return {}
    right = [code for row, code in decoded if row.emulated and row.status == "ok"]
    met, compared, different = Counter[str](), Counter[str](), Counter[str]()
    for _, code in decoded:
        met.update(code.met)
        different.update(code.different)
    for code in right:
        compared.update(code.met)
        compared.subtract(code.missed or {})
    return {
        "cases": len(decoded),
        "right": len(right),
        "kernels": sum(code.kernels for _, code in decoded),
        "launched": sum(code.launched or 0 for _, code in decoded),
        "accused": sum(map(accused, rows)),
        "instructions": met.total(),
        "different": dict(sorted(different.items())),
        "mnemonics": {name: [count, compared[name]] for name, count in sorted(met.items())},
    }


def dumps(data: Mapping[str, Any]) -> str:
    """Return the JSON text, a mnemonic a line."""
    return json_lines(data, 4) + "\n"
