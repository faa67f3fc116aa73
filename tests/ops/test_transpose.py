# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Transpose: rules and forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.errors import GraphError

MISTAKES: list[tuple[str, str, dict[str, Any]]] = [
    ("TRANSPOSE-01", "permutation", {"permutation": (0,)}),
    ("TRANSPOSE-01", "permutation", {"permutation": (0, 0)}),
    ("TRANSPOSE-01", "permutation", {"permutation": (1, 2)}),
    ("TRANSPOSE-01", "permutation", {"permutation": (-1, 0)}),
]


@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize(("rule", "port", "given"), MISTAKES)
def test_mistakes(rule: str, port: str, given: dict[str, Any]) -> None:
    g = Graph(io_data_type="float")
    x = g.tensor(dims=(4, 6))
    g.transpose(x, **given, name="n").set_output()
    (problem,) = g.problems()
    assert (problem.rule, problem.port, problem.node) == (rule, port, "n")


def test_an_argument_of_the_wrong_type() -> None:
    g = Graph(io_data_type="float")
    with pytest.raises(GraphError, match="PARAM-01"):
        g.transpose(g.tensor(dims=(4,)), permutation="0")  # type: ignore[arg-type]


def test_the_filter_order_is_known_behind_a_transpose(torch_ir: Callable[..., str]) -> None:
    # (K, R, S, C) transposed is a channels-last filter, which a channels-first image must not
    # meet on gfx9: IREE 3.13 compiles that wrongly.
    g = Graph(io_data_type="half", compute_data_type="float")
    w = g.transpose(g.tensor(dims=(12, 3, 3, 8)), permutation=(0, 3, 1, 2))
    g.conv_fprop(g.tensor(dims=(2, 8, 7, 9)), w, padding=1).set_output()
    assert "aten.cat" in torch_ir(g, "gfx942")
