# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Blocks of matmuls: what registers and caches hold, whatever the extents, and what has none."""

from __future__ import annotations

import random

import pytest
from hipdnn_iree import Graph, Target
from hipdnn_iree.graph_api.errors import SettingError
from hipdnn_iree.jit.cpu_machine import cpu_machine
from hipdnn_iree.jit.ops.blocking import blocking
from hipdnn_iree.jit.settings import scope
from hipdnn_iree.jit.strategies import choices, choose
from under_settings import cache_key


def drawn(seed: int, count: int) -> list[tuple[int, int, int]]:
    """Return extents m, n and k from 1 to 5000, each about as often as one of twice its size."""
    random_numbers = random.Random(seed)
    return [
        (
            int(10 ** random_numbers.uniform(0, 3.7)),
            int(10 ** random_numbers.uniform(0, 3.7)),
            int(10 ** random_numbers.uniform(0, 3.7)),
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("count", [1, 8])
@pytest.mark.parametrize("name", ["sapphirerapids", "znver5", "znver2", "x86-64"])
def test_blocks_are_held(name: str, count: int) -> None:
    target = Target.parse(f"cpu:{name}")
    machine = cpu_machine(target)
    for m, n, k in [(1, 1, 1), (300, 64, 1025), (1024, 1024, 1024), *drawn(5, 300)]:
        found = blocking(target, m, n, k, count=count)
        wide, left_over = divmod(found.panel, machine.lanes)
        assert left_over == 0, (m, n, k)
        assert (found.panels - 1) * found.panel < n <= found.panels * found.panel, (m, n, k)
        assert found.panels % found.shared == 0, (m, n, k)
        # The sums and a row of the panel are in registers.
        assert (found.rows + 1) * wide < machine.registers, (m, n, k)
        assert 1 <= found.rows <= found.block <= m, (m, n, k)
        # The panel's part stays in the cache.
        assert 1 <= found.depth <= k, (m, n, k)
        assert 4 * found.depth * found.panel <= machine.l2_bytes, (m, n, k)
        assert found.overhead >= 1


def test_many_matmuls_need_no_small_blocks() -> None:
    """Of 576 rows and 64 columns each of eight had blocks of 36 rows, as if it were alone."""
    target = Target.parse("cpu:sapphirerapids")
    alone, many = (blocking(target, 576, 64, 3136, count=count) for count in (1, 64))
    assert many.block > alone.block


@pytest.mark.parametrize("m", [197, 509, 1013, 1576, 3136, 10007])
@pytest.mark.parametrize("n", [3, 64, 768])
def test_few_rows_are_left_over(m: int, n: int) -> None:
    """What whole blocks leave has code for any number of rows (497 of 1013: 14 ms of 16)."""
    for name in ("sapphirerapids", "znver3"):
        found = blocking(Target.parse(f"cpu:{name}"), m, n, 768)
        assert m % found.block <= m // 32
        assert found.panels // found.shared * -(-m // found.block) > 3  # workgroups


def test_two_workers_have_as_much_to_do() -> None:
    """IREE's workers take eight workgroups at a time from 16 on: of 24 one would get 16."""
    found = blocking(Target.parse("cpu:sapphirerapids"), 197, 768, 3072)
    assert (found.block, found.panels // found.shared) == (197, 12)


def test_a_long_k_is_cut() -> None:
    found = blocking(Target.parse("cpu:sapphirerapids"), 128, 4096, 14336)
    assert found.depth < 14336
    assert 14336 % found.depth == 0


def test_the_blocks_of_other_machines_differ() -> None:
    blocks = {blocking(Target.parse(f"cpu:{n}"), 256, 512, 1024) for n in ("znver5", "znver2")}
    assert len(blocks) == 2


def product(io: str = "float", compute: str = "float") -> Graph:
    graph = Graph("product", io_data_type=io, compute_data_type=compute)
    a, b = graph.tensor(dims=(64, 256), name="a"), graph.tensor(dims=(256, 64), name="b")
    graph.matmul(a, b).set_output()
    return graph


def convolution(io: str = "float", compute: str = "float") -> Graph:
    graph = Graph("convolution", io_data_type=io, compute_data_type=compute)
    x, w = graph.tensor(dims=(1, 9, 8, 8), name="x"), graph.tensor(dims=(5, 9, 3, 3), name="w")
    graph.conv_fprop(x, w).set_output()
    return graph


@pytest.mark.parametrize(
    ("op", "io", "compute", "target"),
    [
        ("matmul", "half", "float", "cpu"),
        ("matmul", "double", "double", "cpu"),
        ("matmul", "float", "double", "cpu"),
        ("matmul", "float", "float", "gfx942"),
        ("conv_fprop", "fp8_e4m3", "float", "cpu"),
        ("conv_fprop", "double", "double", "cpu"),
        ("conv_fprop", "float", "double", "cpu"),
        ("conv_fprop", "float", "float", "gfx942"),
    ],
)
def test_blocks_are_of_floats_on_cpus(op: str, io: str, compute: str, target: str) -> None:
    graph = {"matmul": product, "conv_fprop": convolution}[op](io, compute).freeze()
    where = Target.parse(target)
    found = choices(graph, where).get(op)
    assert found is None or "blocked" not in found.names
    with pytest.raises(SettingError, match=f"'blocked' of {op}, which does not fit"):
        choose(graph, where, [f"{op}=blocked"])


def test_the_blocks_are_in_the_key() -> None:
    graph, keys = product().freeze(), set()
    for name in ("gemm", "blocked"):
        with scope(compiler_strategies=f"matmul={name}"):
            keys.add(cache_key(graph, Target.parse("cpu")))
    assert len(keys) == 2


def test_the_smallest_cpu_has_code() -> None:
    """At the first attempt: the blocks are what the compiler takes."""
    with scope(compiler_strategies="matmul=blocked"):
        plan = product().build("cpu:x86-64", engine="iree")
    assert plan.attempt == ""


def test_blocks_of_more_columns_than_memory_are_found_at_once() -> None:
    """All numbers up to that of the panels were tried (13.6 s for a mutated graph: the soak)."""
    for n in (32 * 2_147_483_647, 32 * (2**61 - 1)):
        found = blocking(Target.parse("cpu:znver5"), 3, n, 7)
        assert found.panels % found.shared == 0
        assert found.shared <= 4096
