# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Concatenate: rules."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.errors import GraphError


def join(g: Graph, *dims: tuple[int, ...], axis: int, types: tuple[str, ...] = ()) -> None:
    parts = [
        g.tensor(dims=d, data_type=t)
        for d, t in zip(dims, types or ("float",) * len(dims), strict=True)
    ]
    g.concatenate(parts, axis=axis, name="n").set_output()


MISTAKES: list[tuple[str, str, Callable[[Graph], object]]] = [
    ("CONCAT-01", "x", lambda g: g.concatenate([], axis=0, name="n").set_output()),
    ("CONCAT-02", "axis", lambda g: join(g, (4, 6), (4, 6), axis=2)),
    ("CONCAT-02", "axis", lambda g: join(g, (4, 6), (4, 6), axis=-3)),
    ("CONCAT-03", "x[1]", lambda g: join(g, (4, 6), (4, 5), axis=0)),
    ("CONCAT-03", "x[2]", lambda g: join(g, (4, 6), (4, 6), (4, 6, 1), axis=0)),
    ("CONCAT-04", "x[1]", lambda g: join(g, (4, 6), (4, 6), axis=0, types=("float", "half"))),
]


@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize(("rule", "port", "build"), MISTAKES)
def test_mistakes(rule: str, port: str, build: Callable[[Graph], object]) -> None:
    g = Graph(io_data_type="float")
    build(g)
    (problem,) = g.problems()
    assert (problem.rule, problem.port, problem.node) == (rule, port, "n")


def test_arguments_of_the_wrong_type() -> None:
    g = Graph(io_data_type="float")
    with pytest.raises(GraphError, match="PARAM-01"):
        g.concatenate([g.tensor(dims=(4,))], axis=0.5)  # type: ignore[arg-type]
