# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What needs no pass of our own over the graph, as the compiler folds it: a watch on IREE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.tensor import Tensor

Body = Callable[[Graph, Tensor, Tensor, Tensor], Tensor]


def plain(g: Graph, x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return g.add(g.matmul(x, w), b)


def permuted_twice(g: Graph, x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    turned = g.transpose(g.transpose(x, permutation=(1, 0)), permutation=(1, 0))
    return plain(g, turned, w, b)


def permuted_before_the_epilogue(g: Graph, x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    turned = g.transpose(g.matmul(x, w), permutation=(1, 0))
    return g.add(g.transpose(turned, permutation=(1, 0)), b)


def computed_twice(g: Graph, x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return g.sub(g.mul(plain(g, x, w, b), 2.0), plain(g, x, w, b))


def dead_nodes(g: Graph, x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    g.tanh(g.matmul(g.transpose(w, permutation=(1, 0)), w))
    return plain(g, x, w, b)


def statistics(body: Body, target: str) -> dict[str, Any]:
    g = Graph(body.__name__, io_data_type="half", compute_data_type="float")
    x, w = g.tensor(dims=(64, 128), name="x"), g.tensor(dims=(128, 256), name="w")
    g.relu(body(g, x, w, g.tensor(dims=(1, 256), name="b"))).set_output()
    return dict(g.build(target).statistics)


@pytest.mark.parametrize(
    "body", [permuted_twice, permuted_before_the_epilogue, computed_twice, dead_nodes]
)
def test_the_compiler_folds_it_on_gfx9(body: Body) -> None:
    found, wanted = statistics(body, "gfx942"), statistics(plain, "gfx942")
    for what in ("dispatches", "fills", "copies", "transient_bytes"):
        assert found[what] == wanted[what], what
    assert wanted["dispatches"] == 1


@pytest.mark.parametrize("body", [permuted_twice, dead_nodes])
def test_the_compiler_folds_it_on_the_cpu(body: Body) -> None:
    assert statistics(body, "cpu")["dispatches"] == statistics(plain, "cpu")["dispatches"]
