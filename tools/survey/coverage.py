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
- ``different``: kernels of which the compiler's text is of other code, by ``decoding.REASONS``;
- ``mnemonics``: name, with the suffix of its encoding, to how often it stands in the kernels, and
  how many of these were executed in a sample that is right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hipdnn_iree.emulation.elf import code_objects, read_code_object
from hipdnn_iree.emulation.encodings import ARCHES
from hipdnn_iree.emulation.program import read_program
from hipdnn_iree.emulation.text import full_name
from hipdnn_iree.jit.cache import versions
from hipdnn_iree.jit.stages import VMFB
from hipdnn_iree.provider.sweep.json_text import json_lines

from tools.survey.decoding import compare_folder
from tools.survey.emulated_run import Reached

__all__ = ["code_of", "coverage", "dumps"]

Row = Mapping[str, Any]


def code_of(folder: Path, reached: Reached) -> dict[str, Any]:
    """Return what a record keeps of the kernels of a module, and of what was executed of them.

    Parameters
    ----------
    folder : Path
        Of the compiler's stages (``jit.pipeline.dump``).
    reached : mapping of str to set of int
        Addresses that were executed, by the kernel's name (``emulated_run.run``).

    Returns
    -------
    dict
        ``emulation.Finding.code``.
    """
    met, missed = Counter[str](), Counter[str]()
    kernels = 0
    for data in code_objects((folder / VMFB).read_bytes()):
        code = read_code_object(data)
        for name in code.kernels:
            kernels += 1
            executed = reached.get(name, set())
            for address, one in read_program(code, name).instructions.items():
                text = full_name(one, code.arch)
                met[text] += 1
                missed[text] += address not in executed
    return {
        **compare_folder(folder).as_dict(),
        "kernels": kernels,
        "launched": len(reached),
        "instructions": met.total(),
        "met": dict(sorted(met.items())),
        "missed": {name: count for name, count in sorted(missed.items()) if count},
    }


def coverage(rows: Iterable[Row]) -> dict[str, Any]:
    """Return the data of the page.

    Parameters
    ----------
    rows : iterable of mapping
        Of the records of ``scripts/emulate`` and ``scripts/decode_kernels``; of a sample that is in
        both the row of the former.
    """
    chosen: dict[tuple[str, str, str], Row] = {}
    for row in rows:
        key = (row["case"], row["data_type"], row["target"])
        if key not in chosen or "missed" in (row.get("code") or {}):
            chosen[key] = row
    targets = {}
    for arch in ARCHES:
        mine = [row for row in chosen.values() if row["target"] == arch]
        if entry := _entry(mine):
            targets[arch] = entry
    return {"about": versions(), "targets": targets}


def _entry(rows: list[Row]) -> dict[str, Any]:
    decoded = [row for row in rows if row.get("code")]
    if not decoded:
        return {}
    right = [row for row in decoded if row["status"] == "emulated-ok"]
    met, compared, different = Counter[str](), Counter[str](), Counter[str]()
    for row in decoded:
        met.update(row["code"]["met"])
        different.update(row["code"]["different"])
    for row in right:
        compared.update(row["code"]["met"])
        compared.subtract(row["code"]["missed"])

    def total(what: str) -> int:
        return sum(row["code"].get(what, 0) for row in decoded)

    return {
        "cases": len(decoded),
        "right": len(right),
        "kernels": total("kernels"),
        "launched": total("launched"),
        "accused": sum(row["status"] == "accused" for row in rows),
        "instructions": total("instructions"),
        "different": dict(sorted(different.items())),
        "mnemonics": {name: [count, compared[name]] for name, count in sorted(met.items())},
    }


def dumps(data: Mapping[str, Any]) -> str:
    """Return the JSON text, a mnemonic a line."""
    return json_lines(data, 4) + "\n"
