# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Slice: rules, forms, and what is computed of a part."""

from __future__ import annotations

from typing import Any

import pytest
from graph_rows import check_emulated
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.errors import GraphError
from hipdnn_iree.jit.code_plan import plan_code
from hipdnn_iree.jit.target import Target

MISTAKES: list[tuple[str, str, dict[str, Any]]] = [
    ("SLICE-01", "starts", {"starts": 0, "limits": (4, 6)}),
    ("SLICE-01", "limits", {"starts": (0, 0), "limits": (4, 6, 1)}),
    ("SLICE-01", "strides", {"starts": (0, 0), "limits": (4, 6), "strides": (1, 1, 1)}),
    ("SLICE-02", "starts", {"starts": (-1, 0), "limits": (4, 6)}),
    ("SLICE-02", "starts", {"starts": (0, 0), "limits": (5, 6)}),
    ("SLICE-02", "starts", {"starts": (0, 3), "limits": (4, 3)}),
    ("SLICE-02", "starts", {"starts": (0, 0), "limits": (4, 6), "strides": (1, 0)}),
]


@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize(("rule", "port", "given"), MISTAKES)
def test_mistakes(rule: str, port: str, given: dict[str, Any]) -> None:
    g = Graph(io_data_type="float")
    x = g.tensor(dims=(4, 6))
    g.slice(x, **given, name="n").set_output()
    (problem,) = g.problems()
    assert (problem.rule, problem.port, problem.node) == (rule, port, "n")


def test_an_argument_of_the_wrong_type() -> None:
    g = Graph(io_data_type="float")
    with pytest.raises(GraphError, match="PARAM-01"):
        g.slice(g.tensor(dims=(4,)), starts=0, limits=None)  # type: ignore[arg-type]


def test_a_norm_of_every_third_element_of_a_plane_on_gfx9() -> None:
    """W-132; emulated."""
    g = Graph(io_data_type="half", intermediate_data_type="float", compute_data_type="float")
    x = g.tensor(dims=(8, 7, 13, 2))
    part = g.slice(x, starts=(0, 0, 9, 1), limits=(8, 7, 10, 2), strides=(1, 3, 1, 1))
    g.rmsnorm(part, g.tensor(dims=(1, 3, 1, 1)), epsilon=1e-5).y.set_output()
    check_emulated(g)


def test_sums_of_every_third_row_with_a_dim_of_one_on_gfx9() -> None:
    """W-132; emulated (random graph 124390); also of parts of what is computed from one."""
    g = Graph(io_data_type="float")
    column = g.tensor(dims=(5, 93, 1))
    part = g.slice(column, starts=(0, 61, 0), limits=(4, 64, 1), strides=(3, 1, 1))
    g.reduction(part, mode="add", axes=(0,)).set_output()
    rows = g.slice(
        g.tensor(dims=(5, 7, 31)), starts=(0, 0, 0), limits=(4, 7, 31), strides=(3, 1, 1)
    )
    last = g.slice(g.exp(rows), starts=(0, 0, 2), limits=(2, 7, 3))
    g.reduction(last, mode="add", axes=(0,)).set_output()
    turned = g.transpose(rows, permutation=(0, 2, 1))
    last = g.slice(turned, starts=(0, 0, 2), limits=(2, 31, 3))
    g.reduction(last, mode="add", axes=(0,)).set_output()
    check_emulated(g)


@pytest.mark.parametrize(
    ("width", "last", "struck"),
    [(1, 1, (True, True)), (3, 1, (False, True)), (3, 3, (False, False))],
)
def test_steps_beside_a_dim_of_one(width: int, last: int, struck: tuple[bool, bool]) -> None:
    """Other elements were read (W-132, random graph 124390), of a part of a part too."""
    graph = Graph(io_data_type="float")
    x = graph.tensor(dims=(5, 93, width))
    part = graph.slice(x, starts=(0, 0, 0), limits=(5, 93, width), strides=(3, 1, 1))
    end = graph.slice(graph.exp(part), starts=(0, 0, 0), limits=(2, 93, last))
    graph.reduction(end, mode="add", axes=(0,)).set_output()
    for target, here in (("gfx942", struck), ("cuda:sm_80", struck), ("cpu", (False, False))):
        nodes = plan_code(graph.freeze(), Target.parse(target)).nodes
        assert tuple("W-132" in nodes[i].workarounds for i in (0, 2)) == here
