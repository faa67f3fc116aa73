# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What gfx9 kernels consist of, and what is decoded of them against the compiler's text.

For about one kernel in forty that text is of other code: the compiler generates code twice, for
the text and for the bytes, and the second time starts from what the first has changed; registers
are chosen otherwise, or instructions ordered.  Such kernels are counted, not taken for errors.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ...emulation.decode import decode
from ...emulation.elf import code_objects, read_code_object
from ...emulation.instruction import Instruction
from ...emulation.program import read_program
from ...emulation.text import full_name, instruction_text
from ...graph_api.frozen import FrozenGraph
from ...jit.options import BuildOptions
from ...jit.pipeline import dump

if TYPE_CHECKING:
    from ..plan import Plan

__all__ = ["REASONS", "Comparison", "Reached", "compare_folder", "executed", "instruction_facts"]

Reached = Callable[[], Mapping[str, AbstractSet[int]]]
"""Tells the addresses that were executed since it was last asked, by the kernel's name."""

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


def instruction_facts(plan: Plan, graph: FrozenGraph, options: BuildOptions) -> dict[str, Any]:
    """Return the fields of `row.InstructionFacts`, before anything is executed.

    The code is compiled once more, for the compiler's text of it.

    Parameters
    ----------
    plan : Plan
        For gfx9; without compiled code of its own there is nothing to count.
    graph : FrozenGraph
    options : BuildOptions
        With which the plan was built; without the same code there is no text to compare with.

    Raises
    ------
    CompileError
        As of `dump`.
    EmulationError
        If a kernel cannot be decoded.
    """
    vmfb = _vmfb(plan)
    different = Counter[str]()
    with TemporaryDirectory(prefix="hipdnn-iree-text-") as folder:
        if vmfb and dump(graph, plan.target, Path(folder), options).vmfb == vmfb:
            different = compare_folder(Path(folder)).reasons
    names = list(_names(vmfb).values())
    met = Counter(name for kernel in names for name in kernel.values())
    return {"kernels": len(names), "met": _sorted(met), "different": _sorted(different)}


def executed(plan: Plan, reached: Mapping[str, AbstractSet[int]]) -> dict[str, Any]:
    """Return the other fields, given the addresses that were reached by the kernel's name."""
    missed = Counter(
        name
        for kernel, names in _names(_vmfb(plan)).items()
        for address, name in names.items()
        if address not in reached.get(kernel, ())
    )
    return {"launched": len(reached), "missed": _sorted(missed)}


def _vmfb(plan: Plan) -> bytes:
    return getattr(getattr(plan, "compiled", None), "vmfb", b"")


def _names(vmfb: bytes) -> dict[str, dict[int, str]]:
    """Return the names of all instructions of a module by kernel and address."""
    objects = map(read_code_object, code_objects(vmfb))
    return {
        name: {
            address: full_name(one, code.arch)
            for address, one in read_program(code, name).instructions.items()
        }
        for code in objects
        for name in code.kernels
    }


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items()))


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
