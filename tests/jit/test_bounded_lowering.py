# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""No parameter of a graph makes lowering endless, and whatever it meets names the node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from itertools import product
from typing import Any

import pytest
from hipdnn_iree.graph_api.errors import CompileError
from hipdnn_iree.graph_api.graph import Graph
from hipdnn_iree.jit import support
from hipdnn_iree.jit.code_plan import plan_code
from hipdnn_iree.jit.emit import builder
from hipdnn_iree.jit.lowering import module
from hipdnn_iree.jit.lowering.resample.resample_bwd import _all_valid, windows_over
from hipdnn_iree.jit.lowering.resample.windows import Axis
from hipdnn_iree.jit.strategies import choices
from hipdnn_iree.jit.target import Target

CPU, GPU = Target.parse("cpu"), Target.parse("gfx942")


def experts(count: int, rows: int = 64) -> Graph:
    g = Graph(io_data_type="float")
    offsets = g.tensor(dims=(count, 1, 1), data_type="int32")
    token, weight = g.tensor(dims=(1, rows, 8)), g.tensor(dims=(count, 8, 8))
    g.moe_grouped_matmul(token, weight, offsets).set_output()
    return g


def test_experts_beyond_number_are_declined_or_blocked(
    ends: Callable[[], AbstractContextManager[None]],
) -> None:
    """Each one is a matmul of its own in the code, unless rows are gathered into blocks."""
    graph = experts(100_000).freeze()
    (found,) = support.problems(graph, GPU)
    assert (found.rule, found.port, found.got) == ("IREE-MOE-01", "weight", "100000 experts")
    assert not list(support.problems(experts(512).freeze(), GPU))
    assert not list(support.problems(graph, CPU))
    with ends():
        assert len(module.lower_graph(graph, CPU)) < 1_000_000


def test_gradients_of_pooling_do_not_look_at_each_position() -> None:
    for before, n, window, stride, count in product(
        range(3), range(1, 8), range(1, 5), range(1, 4), range(1, 5)
    ):
        a = Axis(0, n, window, stride, before, count)
        for steps in range(windows_over(a)):
            at = [(i, 0 if count == 1 else (i + before) // stride - steps) for i in range(n)]
            wanted = all(0 <= o < count and 0 <= i + before - o * stride < window for i, o in at)
            assert _all_valid(a, steps) == wanted, (a, steps)


def test_a_gradient_of_pooling_a_huge_dim(
    ends: Callable[[], AbstractContextManager[None]],
) -> None:
    g = Graph(io_data_type="float")
    dy = g.tensor(dims=(1, 1, 1))
    n = 2**40
    g.resample_bwd(
        dy, dx_dims=(1, 1, n), window=n, stride=n, resample_mode="avgpool_include_padding"
    ).set_output()
    with ends():
        assert "si32" not in module.lower_graph(g.freeze(), CPU)


def test_a_table_of_slopes_is_bounded() -> None:
    def rules(heads: int) -> list[str]:
        g = Graph(io_data_type="half", compute_data_type="float")
        q = g.tensor(dims=(1, heads, 4, 8))
        g.sdpa(q, q, q, alibi_mask=True, right_bound=0).o.set_output()
        return [found.rule for found in support.problems(g.freeze(), CPU)]

    assert (rules(4096), rules(4097)) == ([], ["IREE-SDPA-04"])


def test_code_that_is_too_large_is_an_error_that_names_the_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(builder, "MOST_OPS", 100)
    graph = experts(64).freeze()
    plan = plan_code(graph, GPU)
    with pytest.raises(CompileError, match="more than 100 ops") as caught:
        module.lower_graph(graph, GPU, plan)
    assert (caught.value.stage, caught.value.node) == ("lower", "moe_grouped_matmul_0")


@pytest.mark.parametrize(
    "error", [MemoryError, RuntimeError("std::bad_cast"), OverflowError("big")]
)
def test_what_lowering_meets_names_the_node(error: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: object) -> Mapping[str, object]:
        raise error

    monkeypatch.setattr(module, "lowering", lambda name: fail)
    with pytest.raises(CompileError) as caught:
        module.lower_graph(experts(2).freeze(), CPU)
    assert (caught.value.stage, caught.value.node) == ("lower", "moe_grouped_matmul_0")
    assert caught.value.diagnostics[0]


@pytest.mark.parametrize(("stride", "fits"), [(16, True), (17, False), (2**20, False)])
def test_phases_of_a_stride_are_bounded(*, stride: int, fits: bool) -> None:
    """As one matmul whose columns are added phase by phase there is a term for each phase."""
    g = Graph(io_data_type="float")
    dy, w = g.tensor(dims=(1, 256, 2, 2)), g.tensor(dims=(256, 64, 3, 3))
    n = stride + 3
    g.conv_dgrad(dy, w, dx_dims=(1, 64, n, n), stride=stride).set_output()
    graph = g.freeze()
    offered = choices(graph, CPU)["conv_dgrad"]
    assert ("gemm_col2im" in offered.names) == fits
    assert len(module.lower_graph(graph, CPU)) < 1_000_000
