# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Dot products on CPUs: what registers hold, whatever the extents, and what has none."""

from __future__ import annotations

import random

import pytest
from hipdnn_iree import Graph, Target
from hipdnn_iree.graph_api.errors import SettingError
from hipdnn_iree.jit.cpu_machine import cpu_machine
from hipdnn_iree.jit.ops.dots import dots
from hipdnn_iree.jit.settings import scope
from hipdnn_iree.jit.strategies import choices, choose
from under_settings import cache_key


@pytest.mark.parametrize("name", ["sapphirerapids", "znver5", "znver2", "x86-64"])
def test_sums_are_held(name: str) -> None:
    target = Target.parse(f"cpu:{name}")
    machine, numbers = cpu_machine(target), random.Random(7)
    drawn = [[int(10 ** numbers.uniform(0, 3.7)) for _ in "mnk"] for _ in range(300)]
    for m, n, quarter in [(1, 1, 1), (1, 4096, 1024), (4096, 1, 1024), *drawn]:
        k = 4 * quarter
        found = dots(target, m, n, k)
        case = (m, n, k, found)
        assert found.vectors * found.lanes <= k if found.vectors else k % found.lanes == 0, case
        assert min(4, machine.lanes) <= found.lanes <= machine.lanes, case
        # The sums, and a vector of each row of the one operand and of one of the other.
        least = min(found.rows, found.columns)
        assert found.rows * found.columns + least + 1 <= machine.registers, case
        assert 1 <= found.rows <= found.block_rows <= m, case
        assert 1 <= found.columns <= found.block_columns <= n, case
        for tile, block, extent in (
            (found.rows, found.block_rows, m),
            (found.columns, found.block_columns, n),
        ):
            assert block == extent or block % tile == 0, case


def product(k: int, kind: str = "float", compute: str = "float") -> Graph:
    graph = Graph("product", io_data_type=kind, compute_data_type=compute)
    b = graph.tensor(dims=(k, 64), strides=(1, k), name="b")
    graph.matmul(graph.tensor(dims=(2, k), name="a"), b).set_output()
    return graph


@pytest.mark.parametrize(
    ("k", "kind", "compute", "target"),
    [
        (29, "float", "float", "cpu:znver3"),
        (30, "float", "float", "cpu:znver3"),
        (63, "float", "float", "cpu:sapphirerapids"),
        (64, "half", "float", "cpu"),
        (64, "float", "double", "cpu"),
        (64, "float", "float", "gfx942"),
    ],
)
def test_dot_products_are_of_whole_vectors_of_floats_on_cpus(
    k: int, kind: str, compute: str, target: str
) -> None:
    graph, where = product(k, kind, compute).freeze(), Target.parse(target)
    found = choices(graph, where).get("matmul")
    assert found is None or "dots" not in found.names
    with pytest.raises(SettingError, match="'dots' of matmul, which does not fit"):
        choose(graph, where, ["matmul=dots"])


@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("n", [1, 5, 64, 67])
@pytest.mark.parametrize("k", [33, 65, 67, 130])
def test_a_rest_of_the_depth(m: int, n: int, k: int) -> None:
    """Vectors are added up as they come, and what they leave number by number."""
    graph = Graph("rest", io_data_type="float")
    b = graph.tensor(dims=(2, k, n), strides=(n * k, 1, k), name="b")
    graph.matmul(graph.tensor(dims=(2, m, k), name="a"), b).set_output()
    assert dots(Target.parse("cpu:znver3"), m, n, k).vectors == 4
    with scope(compiler_strategies="matmul=dots"):
        assert graph.build("cpu:x86-64-v3", engine="iree").verify().ok


def test_the_strategy_is_in_the_key() -> None:
    graph, keys = product(64).freeze(), set()
    for name in ("gemm", "dots"):
        with scope(compiler_strategies=f"matmul={name}"):
            keys.add(cache_key(graph, Target.parse("cpu")))
    assert len(keys) == 2


@pytest.mark.parametrize("name", ["x86-64", "x86-64-v3"])
def test_other_cpus_have_code(name: str) -> None:
    """At the first attempt, and right: every x86-64 runs the first, most the second one."""
    with scope(compiler_strategies="matmul=dots"):
        plan = product(76).build(f"cpu:{name}", engine="iree")
    assert plan.attempt == ""
    assert plan.verify().ok
