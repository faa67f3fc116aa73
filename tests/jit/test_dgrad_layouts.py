# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Data gradients on CPUs: the convolution of dy is that of its layout."""

from __future__ import annotations

import pytest
from hipdnn_iree import Graph, Target
from hipdnn_iree.graph_api.layout import channels_last_strides
from hipdnn_iree.jit.lowering.module import lower_graph


@pytest.mark.parametrize("kind", ["float", "bfloat16"])
@pytest.mark.parametrize("last", [False, True])
def test_depthwise(kind: str, *, last: bool) -> None:
    """8x672x14x14, 3x3, channels-last: 9.2 ms as if it were channels-first."""
    dims = (2, 48, 14, 14)
    strides = {"strides": channels_last_strides(dims)} if last else {}
    graph = Graph(io_data_type=kind, compute_data_type="float")
    dy, w = graph.tensor(dims=dims, **strides), graph.tensor(dims=(48, 1, 3, 3))
    graph.conv_dgrad(dy, w, dx_dims=dims, padding=1).set_output()
    text = lower_graph(graph.freeze(), Target.parse("cpu:znver5"))
    assert ("tensor.extract" in text) == last  # of a window of dy, without a padded copy
