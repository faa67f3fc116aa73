"""Every sample problem of every op, in every data type it is for, against the reference.

The default run takes each problem in one type, chosen by its name so that all types occur, and
every third one in float32 as well; ``--full`` takes all.

What is claimed for gfx9 is compiled: a dozen problems by default, all of them with ``--full``;
what is not claimed has a reason, for every problem and target.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.jit import support
from hipdnn_iree.jit.pipeline import dump
from hipdnn_iree.jit.target import GFX9_ARCHS, Target
from hipdnn_iree.provider.reference import Sample, sample_problems
from hipdnn_iree.provider.survey.cases import Case
from hipdnn_iree.provider.survey.serving import rule_texts


def cases() -> list[Any]:
    found = []
    for sample in sample_problems():
        draw = crc32(sample.name.encode())
        chosen = {sample.dtypes[draw % len(sample.dtypes)]}
        if draw % 3 == 0 and DataType.FLOAT in sample.dtypes:
            chosen.add(DataType.FLOAT)
        for data_type in sample.dtypes:
            marks = [] if data_type in chosen else [pytest.mark.full]
            found.append(
                pytest.param(sample, data_type, id=f"{sample.name}-{data_type.json}", marks=marks)
            )
    return found


@pytest.mark.parametrize(("sample", "data_type"), cases())
def test_sample_matches_the_reference(
    sample: Sample, data_type: DataType, check: Callable[..., Any]
) -> None:
    check(sample.graph(data_type).freeze())


# Of this many parts of all problems, one is compiled for gfx9 by default: about a dozen.
_PARTS = 300


def gfx9_cases() -> list[Any]:
    found = []
    for sample in sample_problems():
        for data_type in sample.dtypes:
            name = f"{sample.name}-{data_type.json}"
            chosen = crc32(name.encode()) % _PARTS == 0
            marks = [] if chosen else [pytest.mark.full]
            arch = list(GFX9_ARCHS)[crc32(name.encode()) % len(GFX9_ARCHS)]
            target = "gfx942" if chosen else arch
            found.append(pytest.param(sample, data_type, target, id=name, marks=marks))
    return found


@pytest.mark.parametrize(("sample", "data_type", "target"), gfx9_cases())
def test_what_is_claimed_compiles(
    sample: Sample, data_type: DataType, target: str, tmp_path: Path
) -> None:
    case = Case(sample, data_type, Target.parse(target))
    if case.declines:
        pytest.skip(f"declined by {case.declines[0].rule}")
    found = dump(case.graph, case.target, tmp_path)
    assert found.vmfb
    # Some graphs are nothing but copies.
    kernels = list((tmp_path / "dispatches").glob("*.rocmasm"))
    assert bool(kernels) == bool(found.statistics["dispatches"])


def test_what_is_declined_has_a_reason() -> None:
    rules = rule_texts()
    for sample in sample_problems():
        for data_type in sample.dtypes:
            graph = sample.graph(data_type).freeze()
            for target in GFX9_ARCHS:
                for problem in support.problems(graph, Target.parse(target)):
                    where = f"{sample.name} {data_type.json} {target}"
                    assert problem.rule in rules, where
                    assert problem.node, where
                    assert problem.port, where
                    assert problem.got, where
                    assert problem.wanted, where
