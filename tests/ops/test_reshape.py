"""Reshape: rules and forms."""

from __future__ import annotations

from typing import Any

import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.errors import GraphError

MISTAKES: list[tuple[str, str, dict[str, Any]]] = [
    ("RESHAPE-01", "dim", {}),
    ("RESHAPE-02", "dim", {"dim": (-1, -1)}),
    ("RESHAPE-02", "dim", {"dim": (0, 24)}),
    ("RESHAPE-02", "dim", {"dim": (-2, -12)}),
    ("RESHAPE-03", "dim", {"dim": (5, -1)}),
    ("RESHAPE-03", "dim", {"dim": (4, 7)}),
]


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


def test_dims_of_the_result_that_contradict() -> None:
    g = Graph(io_data_type="float")
    g.reshape(g.tensor(dims=(4, 6)), dim=(3, 8)).set_dim((8, 3)).set_output()
    assert [p.rule for p in g.problems()] == ["NODE-02"]
