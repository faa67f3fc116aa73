# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tiles of convolutions, of one group and of several, that read a channels-last image."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hipdnn_iree import Graph
from hipdnn_iree.jit.cpu_machine import cpu_machine
from hipdnn_iree.jit.ops.direct_tiles import direct_tiles
from hipdnn_iree.jit.ops.group_tiles import group_tiles
from hipdnn_iree.jit.strategies import choices
from hipdnn_iree.jit.target import Target

CPUS = ["cpu:x86-64", "cpu:znver3", "cpu:znver5", "cpu:sapphirerapids"]


@pytest.mark.parametrize("name", CPUS)
def test_tiles_divide_what_they_cut_and_fit_the_registers(name: str) -> None:
    target, rng = Target.parse(name), np.random.default_rng(7)
    machine = cpu_machine(target)
    for _ in range(300):
        samples, channels, filters = (int(rng.integers(1, most)) for most in (4, 700, 900))
        size, extents = (tuple(map(int, rng.integers(2, most, 2))) for most in (8, 120))
        tiles = direct_tiles(target, samples, channels, filters, size, extents)
        columns, wide = tiles.tile
        assert columns * wide + wide <= (machine.registers - 1) * machine.lanes
        assert 0 == tiles.columns % columns == tiles.filters % tiles.panel == tiles.panel % wide
        assert extents[1] <= tiles.columns < extents[1] + columns
        assert filters <= tiles.filters < filters + wide
        assert channels % tiles.depth == 0 < tiles.depth <= 16
        assert tiles.cuts * tiles.rows >= extents[0]
        assert samples * tiles.cuts > 1 < tiles.rows
        held = 4 * tiles.panel * channels * prod(size)
        assert held <= machine.l2_bytes // 2 or tiles.panel == wide


def test_tiles_of_more_rows_than_memory_are_found_at_once() -> None:
    """All of 87,381 numbers of rows were tried (0.3 s)."""
    found = direct_tiles(Target.parse("cpu:znver3"), 1, 1, 1, (3, 1), (1 << 40, 1))
    assert 1 <= found.shared <= found.rows


@pytest.mark.parametrize("name", CPUS)
def test_tiles_of_groups_fit_the_registers_and_workgroups_the_result(name: str) -> None:
    target, rng = Target.parse(name), np.random.default_rng(8)
    machine = cpu_machine(target)
    for _ in range(300):
        samples, groups, channels, filters = (int(rng.integers(1, n)) for n in (4, 70, 40, 40))
        rank = int(rng.integers(1, 4))
        size, extents = (tuple(map(int, rng.integers(1, n, rank))) for n in (4, 60))
        tiles = group_tiles(target, samples, groups, channels, filters, size, extents)
        assert tiles.filters == min(filters, machine.lanes)
        assert 1 <= tiles.groups <= groups
        *above, along = [n for n in extents if n > 1] or [1]
        assert 1 <= tiles.columns <= min(along, (machine.registers - 2) // 2)
        assert 1 <= tiles.rows <= (above[-1] if above else along)
        # At least what is loaded of the image for each vector of results.
        vectors = samples * groups * prod(extents) * filters / machine.lanes
        assert tiles.loads >= vectors * channels * prod(size)


def test_tiles_of_groups_of_huge_images_are_found_at_once() -> None:
    found = group_tiles(Target.parse("cpu:znver3"), 1, 1 << 20, 1, 2, (3, 3), (1 << 40, 1 << 40))
    assert found.rows >= 1 <= found.groups


@pytest.mark.parametrize(
    ("x", "w", "fits"),
    [
        ((2, 8, 9, 9), (5, 8, 3, 3), True),
        ((1, 8, 2, 2), (5, 8, 2, 2), True),
        ((2, 8, 9, 9), (5, 8, 3, 1), False),
        ((2, 8, 9, 9), (5, 8, 1, 1), False),
        ((2, 1, 9, 9), (5, 1, 3, 3), False),
        ((2, 8, 9, 9), (8, 4, 3, 3), True),
        ((2, 8, 9, 9), (8, 1, 3, 3), False),
        ((2, 128, 9, 9), (64, 2, 3, 3), True),
        ((2, 130, 9, 9), (65, 2, 3, 3), True),
        ((2, 8, 9, 9), (16, 1, 3, 3), True),
        ((2, 8, 9, 9), (8, 2, 1, 1), True),
        ((2, 8, 9), (8, 2, 3), True),
        ((2, 8, 9, 9, 9), (8, 2, 3, 3, 3), True),
        ((2, 8, 9, 9, 9), (8, 2, 5, 5, 5), False),
        ((2, 8, 60), (8, 2, 28), True),
        ((2, 8, 60), (8, 2, 29), False),  # more starts than a kernel takes as arguments
        ((2, 8, 9, 9), (5, 8, 8, 8), False),
        ((2, 700, 9, 9), (128, 700, 7, 7), True),
        ((2, 700, 9, 9), (8000, 700, 7, 7), False),  # a dispatch for each 16 or 32 filters
        ((2, 8, 9), (5, 8, 3), False),
        ((2, 8, 9, 9, 9), (5, 8, 3, 3, 3), False),
    ],
)
def test_no_dim_is_one_that_the_compiler_would_drop(
    x: tuple[int, ...], w: tuple[int, ...], *, fits: bool
) -> None:
    graph = Graph("conv", io_data_type="float")
    graph.conv_fprop(graph.tensor(dims=x), graph.tensor(dims=w)).set_output()
    for name in CPUS:
        found = choices(graph.freeze(), Target.parse(name))["conv_fprop"].names
        assert ("direct_nhwc" in found) == fits
    assert "direct_nhwc" not in choices(graph.freeze(), Target.parse("gfx942"))["conv_fprop"].names
