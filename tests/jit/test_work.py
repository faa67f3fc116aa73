# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Counts of arithmetic and bytes: each against numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.ops import OPS
from hipdnn_iree.jit.ops import info
from hipdnn_iree.jit.ops.counts import COSTS
from hipdnn_iree.jit.work import Work, graph_work, node_work


def frozen(build: Any, kind: str = "float") -> Any:
    g = Graph("g", io_data_type=kind, compute_data_type="float", intermediate_data_type="float")
    build(g)
    return g.freeze()


def conv(g: Graph) -> None:
    x, w = g.tensor(dims=(2, 8, 10, 10)), g.tensor(dims=(6, 4, 3, 3))  # two groups
    g.conv_fprop(x, w, padding=1, stride=2).set_output()


def dgrad(g: Graph) -> None:
    dy, w = g.tensor(dims=(2, 6, 5, 5)), g.tensor(dims=(6, 4, 3, 3))
    g.conv_dgrad(dy, w, padding=1, stride=2, dx_dims=(2, 8, 10, 10)).set_output()


def wgrad(g: Graph) -> None:
    dy, x = g.tensor(dims=(2, 6, 5, 5)), g.tensor(dims=(2, 8, 10, 10))
    g.conv_wgrad(dy, x, padding=1, stride=2, dw_dims=(6, 4, 3, 3)).set_output()


CONV = 2 * (2 * 6 * 5 * 5) * (4 * 3 * 3)
X, W, Y = 4 * 2 * 8 * 100, 4 * 6 * 4 * 9, 4 * 2 * 6 * 25


@pytest.mark.parametrize("build", [conv, dgrad, wgrad])
def test_the_three_convolutions_are_equal_work(build: Any) -> None:
    assert graph_work(frozen(build)) == Work(CONV, 0, X + W + Y)


def test_a_product_and_the_type_in_memory() -> None:
    def build(g: Graph) -> None:
        g.matmul(g.tensor(dims=(3, 5, 7)), g.tensor(dims=(1, 7, 9))).set_output()

    work = graph_work(frozen(build, "half"))
    assert work == Work(2 * 3 * 5 * 9 * 7, 0, 2 * (3 * 5 * 7 + 7 * 9 + 3 * 5 * 9))
    assert work.flops == work.matrix_flops
    assert work.intensity == work.flops / work.nbytes


def test_a_chain_moves_less_than_its_nodes() -> None:
    def build(g: Graph) -> None:
        x, bias = g.tensor(dims=(4, 8)), g.tensor(dims=(1, 8))
        g.relu(g.add(x, bias)).set_output()

    graph = frozen(build)
    assert graph_work(graph) == Work(0, 64, 4 * (32 + 8 + 32))
    assert [node_work(graph, n) for n in graph.nodes] == [
        Work(0, 32, 4 * (32 + 8 + 32)),
        Work(0, 32, 4 * 64),
    ]


def test_functions_cost_more_than_additions_and_copies_nothing() -> None:
    def one(mode: str) -> int:
        graph = frozen(lambda g: g.pointwise(g.tensor(dims=(10,)), mode=mode).set_output())
        return graph_work(graph).flops

    assert one("identity") == 0
    assert one("abs") == 10
    assert one("exp") == 10 * COSTS[next(m for m in COSTS if m.name == "EXP")] > 50


def test_attention_with_and_without_pages() -> None:
    def plain(g: Graph) -> None:
        q, k, v = (g.tensor(dims=d) for d in ((2, 4, 16, 8), (2, 2, 24, 8), (2, 2, 24, 12)))
        g.sdpa(q, k, v).o.set_output()

    scores = 2 * 4 * 16 * 24
    assert graph_work(frozen(plain)).matrix_flops == 2 * scores * (8 + 12)
    assert graph_work(frozen(plain)).other_flops > 10 * scores

    def paged(g: Graph) -> None:
        q, k, v = (g.tensor(dims=d) for d in ((2, 4, 16, 8), (9, 2, 4, 8), (9, 2, 4, 8)))
        tables = {
            f"page_table_{n}": g.tensor(dims=(2, 1, 3, 1), data_type="int32") for n in ("k", "v")
        }
        g.sdpa(q, k, v, **tables, max_seq_len_kv=10).o.set_output()

    assert graph_work(frozen(paged)).matrix_flops == 2 * (2 * 4 * 16 * 10) * 16


def test_a_broadcast_dim_is_read_once_and_a_slice_reads_its_part() -> None:
    def build(g: Graph) -> None:
        row = g.tensor(dims=(100, 8), strides=(0, 1))
        g.slice(g.add(row, g.tensor(dims=(100, 8))), starts=(0, 0), limits=(1, 8)).set_output()

    graph = frozen(build)
    add, cut = (node_work(graph, n) for n in graph.nodes)
    assert add == Work(0, 800, 4 * (8 + 800 + 800))
    assert cut == Work(0, 0, 4 * (8 + 8))


def test_every_op_has_a_count() -> None:
    assert all(info(op).work for op in OPS)


def test_every_sample_has_work() -> None:
    """Also that no function asks for a port or parameter that its op has not."""
    from hipdnn_iree.provider.sweep.samples import sample_problems

    for sample in sample_problems():
        graph = sample.graph(sample.dtypes[0]).freeze()
        for node in graph.nodes:
            work = node_work(graph, node)
            assert work.nbytes > 0 or not node.inputs, sample.name
            assert min(work) >= 0, sample.name
