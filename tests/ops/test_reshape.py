# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reshape: rules and forms."""

from __future__ import annotations

from typing import Any

import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.errors import GraphError
from hipdnn_iree.jit.target import Target
from under_settings import flags

MISTAKES: list[tuple[str, str, dict[str, Any]]] = [
    ("RESHAPE-01", "dim", {}),
    ("RESHAPE-02", "dim", {"dim": (-1, -1)}),
    ("RESHAPE-02", "dim", {"dim": (0, 24)}),
    ("RESHAPE-02", "dim", {"dim": (-2, -12)}),
    ("RESHAPE-03", "dim", {"dim": (5, -1)}),
    ("RESHAPE-03", "dim", {"dim": (4, 7)}),
]


@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize(("rule", "port", "given"), MISTAKES)
def test_mistakes(rule: str, port: str, given: dict[str, Any]) -> None:
    g = Graph(io_data_type="float")
    x = g.tensor(dims=(4, 6))
    g.reshape(x, **given, name="n").set_output()
    (problem,) = g.problems()
    assert (problem.rule, problem.port, problem.node) == (rule, port, "n")


def test_an_argument_of_the_wrong_type() -> None:
    g = Graph(io_data_type="float")
    with pytest.raises(GraphError, match="PARAM-01"):
        g.reshape(g.tensor(dims=(4,)), dim=(2.0, 2))  # type: ignore[arg-type]


@pytest.mark.usefixtures("collected")
def test_dims_of_the_result_that_contradict() -> None:
    g = Graph(io_data_type="float")
    g.reshape(g.tensor(dims=(4, 6)), dim=(3, 8)).set_dim((8, 3)).set_output()
    assert [p.rule for p in g.problems()] == ["NODE-02"]


def test_products_that_are_split_are_not_loaded_straight_to_lds_on_gfx950() -> None:
    # With 3 heads all but the first wavefront would copy nothing: wrong numbers, by emulation.
    def straight(target: str, *, split: bool = True) -> bool:
        g = Graph(io_data_type="half", compute_data_type="float")
        y = g.matmul(g.tensor(dims=(16, 32)), g.tensor(dims=(32, 48)))
        (g.reshape(y, dim=(16, 3, 16)) if split else y).set_output()
        found = flags(g.freeze(), Target.parse(target))
        return "--iree-llvmgpu-use-direct-load=false" not in found

    assert [straight(t) for t in ("gfx950", "mi355x", "gfx942", "cpu")] == [
        False,
        False,
        True,
        True,
    ]
    assert straight("gfx950", split=False)
