# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is decoded from kernels against the text that the compiler writes beside them.

For about one kernel in forty that text is of other code: the compiler generates code twice, for
the text and for the bytes, and the second time starts from what the first has changed; registers
are chosen otherwise, or instructions ordered.  Such kernels are counted, not taken for errors.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hipdnn_iree.emulation.decode import decode
from hipdnn_iree.emulation.elf import read_code_object
from hipdnn_iree.emulation.errors import EmulationError
from hipdnn_iree.emulation.instruction import Instruction
from hipdnn_iree.emulation.text import full_name, instruction_text
from hipdnn_iree.jit.options import BuildOptions
from hipdnn_iree.jit.pipeline import dump
from hipdnn_iree.jit.settings import scope, settings

from tools.survey.errors import brief
from tools.survey.trials import Trial

__all__ = ["REASONS", "Comparison", "compare_folder", "try_decoding"]

REASONS = {
    "operands": "registers or other operands",
    "order": "the order of the same instructions",
    "instructions": "the instructions themselves",
}
"""In what the text of a kernel can differ from what is decoded of it."""


@dataclass
class Comparison:
    """What became of the kernels of a folder.

    Attributes
    ----------
    kernels, instructions : int
        How many were compared.
    different : list of str
        The first difference of every kernel that has one.
    reasons : Counter of str
        In what the text of these kernels differs (``REASONS``).
    mnemonics : Counter of str
        What was met, as the text has it.
    """

    kernels: int = 0
    instructions: int = 0
    different: list[str] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    mnemonics: Counter[str] = field(default_factory=Counter)

    def as_dict(self) -> dict[str, Any]:
        """Return what a record keeps of it."""
        return {
            "kernels": self.kernels,
            "instructions": self.instructions,
            "different": dict(self.reasons),
            "met": dict(sorted(self.mnemonics.items())),
        }


def try_decoding(case: Trial, *, limit_s: float) -> dict[str, Any]:
    """Compile a case for gfx9 and decode its kernels; return a row for a record.

    Parameters
    ----------
    case : Trial
    limit_s : float
        Of the compilation, in seconds.

    Returns
    -------
    dict
        ``case``, ``data_type``, ``target``, ``ir`` as in other records; ``status``, which is
        ``decoded``, ``undecoded``, ``compile-error`` or ``declined``; ``note``; and ``code``,
        what `Comparison.as_dict` returns.
    """
    name, data_type, target = case.key
    row: dict[str, Any] = {"case": name, "data_type": data_type, "target": target, "ir": ""}
    if case.declines:
        return {**row, "status": "declined", "note": ""}
    with TemporaryDirectory(prefix="hipdnn-iree-decode-") as scratch:
        try:
            with scope(compiler_timeout_s=limit_s):
                row["ir"] = case.ir_digest()
                dump(case.graph, case.target, Path(scratch), BuildOptions.of(settings()))
        except Exception as error:  # a survey reports everything and goes on
            return {**row, "status": "compile-error", "note": brief(error)}
        try:
            found = compare_folder(Path(scratch))
        except EmulationError as error:
            return {**row, "status": "undecoded", "note": str(error)}
    return {
        **row,
        "status": "decoded",
        "note": "; ".join(found.different),
        "code": found.as_dict(),
    }


def compare_folder(folder: Path) -> Comparison:
    """Compare what is decoded from all code objects of a folder with the text beside them."""
    found = Comparison()
    for path in sorted(folder.rglob("*.hsaco")):
        code_object = read_code_object(path.read_bytes())
        texts = _kernels(path.with_suffix(".rocmasm").read_text(encoding="utf-8"))
        assert set(texts) == set(code_object.kernels)
        for name, kernel in code_object.kernels.items():
            code, arch = code_object.code(kernel), code_object.arch
            decoded = decode(code, arch=arch, address=kernel.entry, kernel=name)
            pairs = list(_pairs(decoded, arch, texts[name]))
            found.kernels += 1
            found.instructions += len(decoded)
            found.mnemonics.update(full_name(one, arch) for one in decoded)
            unequal = [(here, there) for here, there in pairs if here != there]
            if unequal:
                here, there = unequal[0]
                found.different.append(f"{path.name}: {name}: {here!r}, not {there!r}")
                found.reasons[_reason(pairs)] += 1
    return found


_END = "the end"


def _reason(pairs: list[tuple[str, str]]) -> str:
    """Return how a text differs from what is decoded, as `Comparison.reasons` has it."""
    here, there = ([text.split()[0] for text in side] for side in zip(*pairs, strict=True))
    if here == there:
        return "operands"
    return "order" if Counter(here) == Counter(there) else "instructions"


def _kernels(text: str) -> dict[str, list[str]]:
    """Return the lines of each kernel: instructions, labels with their colon, alignments."""
    names = set(re.findall(r'\.type\s+"?([^",\s]+)"?,@function', text))
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.partition(".amdgpu_metadata")[0].splitlines():
        plain = re.sub(r"\s+", " ", line.partition(";")[0].strip())
        label = plain.strip('":')
        if plain.endswith(":") and label in names:
            found[label] = lines = []
        elif plain.startswith((".section", ".size")):
            lines = []  # of no kernel
        elif plain.startswith(".p2align") or (plain and plain[0] != ".") or plain.endswith(":"):
            lines.append(plain)
    return found


def _pairs(decoded: list[Instruction], arch: str, lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield what is decoded and what is written, instruction by instruction."""
    placed: list[tuple[Instruction | None, str]] = []
    labels: dict[str, int] = {}
    rest = iter(decoded)
    address = decoded[0].address if decoded else 0
    for line in lines:
        if line.startswith(".p2align"):
            for _ in range(_padding(line, address)):
                address += _skip(next(rest, None))
        elif line.endswith(":"):
            labels[line[:-1]] = address
        else:
            one = next(rest, None)
            placed.append((one, line))
            address += one.size if one is not None else 0
    for one, line in placed:
        if one is None:
            yield _END, line
            continue
        target = one.modifiers.get("target")
        label = line.rpartition(" ")[2]
        known = {target: label} if isinstance(target, int) and labels.get(label) == target else {}
        yield instruction_text(one, arch, known), line
    for one in rest:
        yield instruction_text(one, arch), _END


def _padding(line: str, address: int) -> int:
    """Return how many s_nop an alignment takes: none if it were more than it allows."""
    words = line.removeprefix(".p2align ").split(",")
    needed = -address % (1 << int(words[0]))
    return 0 if len(words) > 2 and needed > int(words[2]) else needed // 4


def _skip(one: Instruction | None) -> int:
    return one.size if one is not None and one.mnemonic == "s_nop" else 0
