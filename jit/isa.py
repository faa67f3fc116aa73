"""What the compiler made of a graph for gfx9: one record per dispatch, read from its assembly.

Nothing is run: the figures are those that LLVM writes beside the code.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

__all__ = ["Kernel", "read_kernels"]

_META = re.compile(r"^\s+(?:- )?\.(?P<key>[a-z_]+):\s+(?P<value>\S+)\s*$")
_MFMA = re.compile(r"^\s+(v_s?mfma[a-z0-9_]*)", re.MULTILINE)
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

    @property
    def mfma_count(self) -> int:
        """Number of matrix instructions in the text."""
        return sum(self.mfma.values())

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {**asdict(self), "mfma_count": self.mfma_count}


def read_kernels(dump_dir: Path) -> list[Kernel]:
    """Return the kernels whose assembly (``*.rocmasm``) lies in a dump folder, by file name."""
    return [_read(path) for path in sorted(dump_dir.rglob("*.rocmasm"))]


def _read(path: Path) -> Kernel:
    text = path.read_text(encoding="utf-8", errors="replace")
    figures: dict[str, int] = {}
    name = path.stem
    # The metadata of the one kernel in the file stands between these two marks.
    metadata = text.partition(".amdgpu_metadata")[2].partition(".end_amdgpu_metadata")[0]
    for line in metadata.splitlines():
        match = _META.match(line)
        if match and match["key"] in _FIELDS:
            figures[_FIELDS[match["key"]]] = int(match["value"])
        elif match and match["key"] == "symbol":
            name = match["value"].strip("'\"").removesuffix(".kd")
    return Kernel(name=name, mfma=dict(Counter(_MFMA.findall(text))), **figures)
