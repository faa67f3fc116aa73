# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the compiler made of a graph for gfx9: one record per dispatch, read from its assembly.

Nothing is run: the figures are those that LLVM writes beside the code.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any

from .assembly import Code, parse_code
from .units import memory_bytes

__all__ = ["Kernel", "read_kernels"]

# In the metadata a kernel's own keys stand at this depth, those of its arguments deeper.
_KERNEL = re.compile(r"^  (?P<first>[- ]) \.(?P<key>[a-z_]+):\s+(?P<value>\S+)\s*$")
_MFMA = re.compile(r"^\s+(v_s?mfma[a-z0-9_]*)", re.MULTILINE)
_MEMORY = re.compile(
    r"^\s+(?:global|buffer|flat)_(?P<way>load|store)_(?P<kind>[a-z0-9_]+)", re.MULTILINE
)
# IREE tells LLVM how many workgroups there are, as the range of their numbers.
_DEFINITION = re.compile(r'^define amdgpu_kernel void @"?(?P<name>[^\s"(]+)"?\(', re.MULTILINE)
_NUMBER = re.compile(
    r"call (?:range\(i32 \d+, (?P<end>-?\d+)\) )?i32 @llvm\.amdgcn\.workgroup\.id\.(?P<dim>[xyz])"
)
_OPEN = 2**31 - 1  # the range of a number of workgroups that is known at run time
_SIZES = re.compile(r"^    \.reqd_workgroup_size:\n(?P<sizes>(?:      - +\d+\n)+)", re.MULTILINE)
_FIELDS = {
    "vgpr_count": "vgprs",
    "agpr_count": "agprs",
    "sgpr_count": "sgprs",
    "vgpr_spill_count": "vgpr_spills",
    "sgpr_spill_count": "sgpr_spills",
    "group_segment_fixed_size": "lds_bytes",
    "private_segment_fixed_size": "scratch_bytes",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Kernel:
    """One GPU kernel as compiled.

    Attributes
    ----------
    name : str
        Name of the entry point.
    vgprs, agprs, sgprs : int
        Registers per lane (vector, accumulation) and per wave (scalar).
    vgpr_spills, sgpr_spills : int
        Registers that did not fit.
    lds_bytes, scratch_bytes : int
        Shared memory per workgroup; private memory per lane.
    mfma : dict of str to int
        Matrix instructions by name, counted in the text (not by how often they run).
    loads, stores : dict of int to int
        Instructions that read or write device memory, by the bytes that each moves per lane.
    threads : int
        Threads of a workgroup; 0: unknown.
    workgroups : int or None
        That a launch has; None where that is known at run time.
    code : Code
        Its instructions and loops; not in the data for JSON.
    """

    name: str
    vgprs: int = 0
    agprs: int = 0
    sgprs: int = 0
    vgpr_spills: int = 0
    sgpr_spills: int = 0
    lds_bytes: int = 0
    scratch_bytes: int = 0
    mfma: dict[str, int]
    loads: dict[int, int] = field(default_factory=dict)
    stores: dict[int, int] = field(default_factory=dict)
    threads: int = 0
    workgroups: int | None = None
    code: Code = field(default=Code(()), repr=False, compare=False)

    @property
    def mfma_count(self) -> int:
        """Number of matrix instructions in the text."""
        return sum(self.mfma.values())

    def as_dict(self) -> dict[str, Any]:
        """Return the data for JSON."""
        data = asdict(replace(self, code=Code(())))
        del data["code"]
        return {**data, "mfma_count": self.mfma_count}


def read_kernels(dump_dir: Path) -> list[Kernel]:
    """Return the kernels whose assembly (``*.rocmasm``) is in a dump folder, by name."""
    counts: dict[str, int | None] = {}
    for path in sorted(dump_dir.rglob("*.linked.ll")):
        counts |= _workgroups(path.read_text(encoding="utf-8", errors="replace"))
    paths = sorted(dump_dir.rglob("*.rocmasm"))
    found = [kernel for path in paths for kernel in _read(path, counts)]
    return sorted(found, key=lambda kernel: kernel.name)


def _workgroups(text: str) -> dict[str, int | None]:
    """Return the workgroups of each kernel in LLVM IR."""
    starts = [*_DEFINITION.finditer(text)]
    ends = [*(match.start() for match in starts[1:]), len(text)]
    found: dict[str, int | None] = {}
    for match, end in zip(starts, ends, strict=True):
        dims = {}
        for number in _NUMBER.finditer(text, match.end(), end):
            dims[number["dim"]] = int(number["end"] or 0)
        known = all(0 < count < _OPEN for count in dims.values())
        found[match["name"]] = prod(dims.values()) if known else None
    return found


def _read(path: Path, counts: Mapping[str, int | None]) -> Iterator[Kernel]:
    """Yield the kernels of one file; IREE may link several dispatches into one."""
    text = path.read_text(encoding="utf-8", errors="replace")
    metadata = text.partition(".amdgpu_metadata")[2].partition(".end_amdgpu_metadata")[0]
    for record in _records(metadata):
        name = record.get("name", path.stem).strip("'\"")
        figures = {ours: int(record[key]) for key, ours in _FIELDS.items() if key in record}
        # The code stands between the kernel's label and the end mark of its function.
        label = re.search(rf'^"?{re.escape(name)}"?:', text, re.MULTILINE)
        code = text[label.end() :].partition(".Lfunc_end")[0] if label else ""
        moved = {"load": Counter[int](), "store": Counter[int]()}
        for match in _MEMORY.finditer(code):
            moved[match["way"]][memory_bytes(match["kind"])] += 1
        yield Kernel(
            name=name,
            mfma=dict(Counter(_MFMA.findall(code))),
            loads=dict(sorted(moved["load"].items())),
            stores=dict(sorted(moved["store"].items())),
            threads=int(record.get("threads", 0)),
            workgroups=counts.get(name),
            code=parse_code(code),
            **figures,
        )


def _records(metadata: str) -> list[dict[str, str]]:
    records: list[dict[str, str]] = []
    sizes = [prod(map(int, re.findall(r"\d+", m["sizes"]))) for m in _SIZES.finditer(metadata)]
    for line in metadata.partition("amdhsa.kernels:")[2].splitlines():
        match = _KERNEL.match(line)
        if match:
            if match["first"] == "-":
                records.append({})
            records[-1][match["key"]] = match["value"]
    if len(sizes) == len(records):
        for record, threads in zip(records, sizes, strict=True):
            record["threads"] = str(threads)
    return records
