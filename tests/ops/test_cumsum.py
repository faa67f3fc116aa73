# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Running sums: rules, their definition by sums of parts, files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_rows import check_emulated
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.errors import FormatError, GraphError
from hipdnn_iree.graph_api.formats.flatbuffer.encode import encode


def graph(dims: tuple[int, ...] = (3, 5), **given: Any) -> Graph:
    g = Graph(io_data_type="float", compute_data_type="float")
    g.output(g.cumsum(g.tensor(dims=dims, name="x"), **given, name="n"), name="y")
    return g


@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize("axis", [2, -3])
def test_an_axis_that_is_not_there(axis: int) -> None:
    (problem,) = graph(axis=axis).problems()
    assert (problem.rule, problem.port, problem.node) == ("CUMSUM-01", "axis", "n")


def test_an_argument_of_the_wrong_type() -> None:
    with pytest.raises(GraphError, match="PARAM-01"):
        graph(axis="x")


def test_axes_from_either_end_are_the_same_graph() -> None:
    assert graph(axis=-1).freeze() == graph(axis=1).freeze()
    assert graph(axis=0).freeze() != graph(axis=1).freeze()


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_each_sum_is_that_of_its_part(exclusive: bool, reverse: bool) -> None:
    g = graph((2, 6), axis=1, exclusive=exclusive, reverse=reverse)
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    y = np.zeros_like(x)
    g.build("cpu").execute({"x": x, "y": y})
    for i in range(6):
        first, last = (i + exclusive, 6) if reverse else (0, i + 1 - exclusive)
        np.testing.assert_array_equal(y[:, i], x[:, first:last].sum(1))


@pytest.mark.parametrize(("extent", "sums"), [(2, 1), (128, 1), (129, 3), (16_385, 5)])
def test_on_gfx9_there_is_no_scan(extent: int, sums: int, torch_ir: Callable[..., str]) -> None:
    """W-113: its kernel has a race; the sums are those within blocks and of the blocks before."""
    for target in ("gfx90a", "gfx942"):
        text = torch_ir(graph((3, extent), axis=1), target)
        assert "torch.aten.cumsum" not in text
        assert text.count("torch.aten.sum.dim_IntList") == sums
        assert text.count("torch.aten.triu") == (sums + 1) // 2
        assert "torch.aten.arange" not in text  # a mask of ranges would be read from memory
    assert "torch.aten.cumsum" in torch_ir(graph((3, extent), axis=1), "cpu")


def test_numbers_on_gfx9() -> None:
    """Both ends, with and without the element itself, in one block and in several; emulated."""
    g = Graph(io_data_type="float")
    for dims, axis in (((3, 131), 1), ((17, 5), 0)):
        x = g.tensor(dims=dims)
        for exclusive in (False, True):
            for reverse in (False, True):
                g.cumsum(x, axis=axis, exclusive=exclusive, reverse=reverse).set_output()
    check_emulated(g)


def test_it_is_read_back_from_json_and_has_no_place_in_hipdnns_binary_graphs() -> None:
    frozen = graph(axis=0, exclusive=True).freeze()
    assert Graph.from_json(graph(axis=0, exclusive=True).to_json()).freeze() == frozen
    with pytest.raises(FormatError, match="WIRE-13"):
        encode(frozen)
