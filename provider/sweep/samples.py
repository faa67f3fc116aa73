# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The sample problems of all ops: small cases over the whole space of parameters."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from ...graph_api.ops import OPS
from .suite import Case, read

__all__ = ["SUITES", "few_of", "op_of", "sample_problems"]

_LAYOUTS = frozenset({"nhwc", "permuted", "transposed", "mixed_layout"})

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


def few_of(cases: Iterable[Case]) -> tuple[Case, ...]:
    """Return samples that stand for all: per op and data type a plain one and another layout.

    Of an op without a layout of its own the one with the most specialities is the second.
    """
    chosen: set[str] = set()
    everything = tuple(cases)
    for op in dict.fromkeys(map(op_of, everything)):
        mine = [s for s in everything if op_of(s) == op]
        for data_type in dict.fromkeys(t for s in mine for t in s.dtypes):
            fit = [s for s in mine if data_type in s.dtypes]
            plain = next((s for s in fit if "size1" not in s.tags), fit[0])
            others = [s for s in fit if s is not plain] or fit
            turned = next((s for s in others if _LAYOUTS.intersection(s.tags)), None)
            chosen |= {plain.name, (turned or max(others, key=lambda s: len(s.tags))).name}
    return tuple(s for s in everything if s.name in chosen)
