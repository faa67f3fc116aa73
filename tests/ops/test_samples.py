"""Every sample problem of every op, in every data type it is for, against the reference.

The default run takes each problem in float32 and in one other type, chosen by its name so that
all types occur; ``--full`` takes all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from zlib import crc32

import pytest
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.provider.reference import Sample, sample_problems


def cases() -> list[Any]:
    found = []
    for sample in sample_problems():
        others = [t for t in sample.dtypes if t is not DataType.FLOAT]
        chosen = (
            {DataType.FLOAT, others[crc32(sample.name.encode()) % len(others)]}
            if others
            else {DataType.FLOAT}
        )
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
