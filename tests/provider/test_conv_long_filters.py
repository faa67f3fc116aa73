# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Convolutions with filters of more than 49 positions, as matmuls of patches on the CPU."""

from __future__ import annotations

import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.layout import channels_last_strides


@pytest.mark.parametrize("strategy", ["row_im2col", "im2col_gemm", "blocked"])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    ("x", "w", "stride", "padding"),
    [
        ((1, 3, 48, 48), (24, 3, 16, 16), 16, 0),  # patches of a vision transformer
        ((2, 5, 40, 37), (17, 5, 11, 11), 4, 2),
        ((1, 2, 33, 19), (7, 2, 16, 15), 3, 1),
        ((2, 3, 9, 70), (5, 3, 4, 16), 1, 3),
    ],
)
def test_long_filters(
    x: tuple[int, ...],
    w: tuple[int, ...],
    stride: int,
    padding: int,
    strategy: str,
    *,
    last: bool,
) -> None:
    graph = Graph(io_data_type="float")
    image, filters = (
        graph.tensor(dims=dims, strides=channels_last_strides(dims)) if last
        else graph.tensor(dims=dims)
        for dims in (x, w)
    )  # fmt: skip
    graph.conv_fprop(image, filters, stride=stride, padding=padding).set_output()
    plan = graph.build("cpu", knobs={"conv_fprop.strategy": strategy})
    assert plan.knobs["conv_fprop.strategy"] == strategy
    assert plan.verify(seed=5).ok
