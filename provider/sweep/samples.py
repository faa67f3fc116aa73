# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The sample problems of all ops: small cases over the whole space of parameters."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ...graph_api.ops import OPS
from .suite import Case, read

__all__ = ["SUITES", "op_of", "sample_problems"]

SUITES = Path(__file__).resolve().parents[2] / "suites"
"""The folder of suites, in a checkout and in an installation."""


def op_of(case: Case) -> str:
    """Return the name of the op that a sample problem is for."""
    return case.name.partition(".")[0]


@cache
def sample_problems(op: str = "") -> tuple[Case, ...]:
    """Return the sample problems of an op (``Op.NAME``), or of all ops."""
    if not op:
        return tuple(case for name in OPS for case in sample_problems(name))
    path = SUITES / "ops" / f"{op}.yaml"
    return read(path.read_bytes(), source=str(path), check=False).cases
