# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-109: which sums are copied before others read them, and which stay fused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from hipdnn_iree import Graph, Target
from hipdnn_iree.jit.code_plan import plan_code
from stored_sums import (
    attention_and_norm,
    conv_bias_relu_mean,
    gradient_then_sum,
    norm_of_parts,
    read_twice,
    residual_and_norm,
    softmax_of_parts,
    stored_by_a_move,
    sums_of_sums,
)

CPU = Target.parse("cpu")
Build = Callable[[Graph], None]


@pytest.mark.parametrize(
    ("build", "struck"),
    [
        (partial(gradient_then_sum, axes=(2, 3)), True),
        (partial(gradient_then_sum, axes=(0, 1, 2, 3)), True),
        (partial(gradient_then_sum, axes=(1,)), False),
        (partial(gradient_then_sum, axes=(2, 3), bias=False), False),
        (partial(sums_of_sums, dims=(4, 9, 33), axis=1, mode="norm1"), True),
        (read_twice, True),
        (stored_by_a_move, True),
        (partial(attention_and_norm, stats=True), True),
        (partial(attention_and_norm, stats=False), False),
        (partial(sums_of_sums, stored=False), False),
        (partial(sums_of_sums, mode="avg"), False),
        (partial(sums_of_sums, mode="max"), False),
        (residual_and_norm, False),
        (conv_bias_relu_mean, False),
        (softmax_of_parts, False),
        (norm_of_parts, False),
    ],
)
def test_sums_that_are_added_up_again(build: Build, *, struck: bool) -> None:
    """W-109, where a sum is stored, and not for the chains that people want fused."""
    graph = Graph(io_data_type="float")
    build(graph)
    assert ("W-109" in plan_code(graph.freeze(), CPU).workarounds) is struck
