# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matrix multiplication: IR, integers, batch repetition, aliasing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_rows import apart, check_emulated
from hipdnn_iree import Graph
from hipdnn_iree.provider.emulated import emulated

Run = Callable[..., Any]


@pytest.mark.parametrize("result", ["int32", "int8"])
def test_int8_matmul_is_exact_and_saturates(result: str, run: Run) -> None:
    # Asking IREE for an 8-bit result directly crashes its compiler.
    rng = np.random.default_rng(0)
    a = rng.integers(-128, 128, (5, 33), dtype=np.int8)
    b = rng.integers(-128, 128, (33, 7), dtype=np.int8)
    graph = Graph(io_data_type="int8", compute_data_type="int32")
    ta, tb = graph.tensor(dims=a.shape), graph.tensor(dims=b.shape)
    graph.matmul(ta, tb).set_output().set_data_type(result)
    (c,) = run(graph, {ta: a, tb: b})
    bounds = np.iinfo(np.dtype(result))
    exact = a.astype(np.int64) @ b.astype(np.int64)
    np.testing.assert_array_equal(c, np.clip(exact, bounds.min, bounds.max))


def test_a_matrix_times_itself(check: Run) -> None:
    graph = Graph(io_data_type="float")
    a = graph.tensor(dims=(13, 13))
    graph.matmul(a, a).set_output()
    check(graph.freeze())


@pytest.mark.parametrize(
    ("kind", "dims", "a", "b"),
    [
        ("half", (64, 1000, 64), (1024, 1), (64, 1)),
        ("float", (64, 1000, 64), (1024, 1), (64, 1)),
        ("half", (64, 1000, 64), (1024, 1), (1, 1024)),
        ("half", (64, 1000, 64), (1, 1024), (1, 1024)),
        ("bfloat16", (33, 200, 31), (1, 256), (31, 1)),
        ("bfloat16", (33, 200, 31), (256, 1), (64, 1)),
    ],
)
def test_padded_rows(
    kind: str, dims: tuple[int, ...], a: tuple[int, ...], b: tuple[int, ...], check: Run
) -> None:
    """As of hipBLASLt's users; without a copy they did not compile, or took all memory (W-097)."""
    m, k, n = dims
    graph = Graph(io_data_type=kind, compute_data_type="float")
    x, w = graph.tensor(dims=(m, k), strides=a), graph.tensor(dims=(k, n), strides=b)
    graph.matmul(x, w).set_output()
    check(graph.freeze())


def test_the_smaller_batch_is_repeated_entry_by_entry(run: Run) -> None:
    graph = Graph(io_data_type="float")
    a, b = graph.tensor(dims=(6, 2, 3)), graph.tensor(dims=(2, 3, 4))
    graph.matmul(a, b).set_output()
    rng = np.random.default_rng(0)
    left = rng.standard_normal((6, 2, 3)).astype(np.float32)
    right = rng.standard_normal((2, 3, 4)).astype(np.float32)
    (c,) = run(graph, {a: left, b: right})
    np.testing.assert_allclose(c, left @ np.repeat(right, 3, axis=0), rtol=1e-5, atol=1e-6)


def test_a_transposed_operand_is_one_permute(torch_ir: Callable[..., str]) -> None:
    graph = Graph(io_data_type="half", compute_data_type="float")
    a, b = graph.tensor(dims=(4, 8)), graph.tensor(dims=(8, 5), strides=(1, 8))
    graph.matmul(a, b).set_output()
    ir = torch_ir(graph, "gfx942")
    assert ir.count("aten.permute") == 1
    (line,) = [line for line in ir.splitlines() if "aten.mm" in line]
    assert line.endswith("[4,5],f32>")


def test_pairs_of_small_matrices_are_multiplied_apart_on_gfx9(torch_ir: Callable[..., str]) -> None:
    # IREE 3.13 gives two of them to a workgroup there and writes one, or crashes.
    graph = Graph(io_data_type="float")
    a = graph.tensor(dims=(2, 9, 17), strides=(153, 1, 9))
    graph.matmul(a, graph.tensor(dims=(2, 17, 11))).set_output()
    assert "aten.bmm" not in torch_ir(graph, "gfx942")
    assert "aten.bmm" in torch_ir(graph, "cpu:znver5")


@pytest.mark.parametrize(
    ("a", "k", "n", "strides", "copies"),
    [
        ("columns", 7, 16, "rows", 1),
        ("columns", 7, 16, "columns", 1),
        ("columns", 16, 5, "rows", 0),
        ("rows", 7, 5, "rows", 1),
        ("rows", 7, 16, "rows", 0),
        ("rows", 16, 5, "rows", 0),
        ("rows", 7, 5, "columns", 0),
        ("columns", 24, 5, "rows", 2),
    ],
)
def test_operands_by_rows_of_k_are_copied_on_gfx9_where_both_mask_these_and_columns(
    a: str, k: int, n: int, strides: str, copies: int, torch_ir: Callable[..., str]
) -> None:
    """W-071: elements along k become neighbours, whose mask is not lost."""

    def given(graph: Graph, laid_out: str, rows: int, columns: int) -> Any:
        by = (columns, 1) if laid_out == "rows" else (1, rows)
        return graph.tensor(dims=(3, rows, columns), strides=(rows * columns, *by))

    def product(kind: str) -> Graph:
        graph = Graph(io_data_type=kind, compute_data_type="float")
        left, right = given(graph, a, 33, k), given(graph, strides, k, n)
        graph.matmul(left, right).set_output()
        return graph

    assert torch_ir(product("half"), "gfx942").count("aten.cat") == copies
    # Halves that are used 16 times are copied on CPUs (W-151).
    assert "aten.cat" not in torch_ir(product("float"), "cpu:znver5")


def test_nan_between_the_matrices_of_a_batch_is_not_multiplied() -> None:
    """W-071, emulated: the gaps of right and left operands hold NaN."""
    g = Graph(io_data_type="half", compute_data_type="float")
    gaps = g.tensor(dims=(3, 5, 7), strides=(42, 7, 1))
    g.matmul(g.tensor(dims=(3, 2, 5)), gaps).set_output()
    g.matmul(g.tensor(dims=(3, 13, 5), strides=(78, 1, 13)), g.tensor(dims=(3, 5, 16))).set_output()
    check_emulated(g)


def test_few_columns_of_sums_over_5_halves() -> None:
    """W-130, emulated: LLVM could not select the sum (random graph 20356)."""
    g = Graph(io_data_type="half", compute_data_type="float")
    g.matmul(g.tensor(dims=(3, 5)), g.tensor(dims=(5, 67))).set_output()
    # The kernel of this one reads 3 halves of LDS as 8 bytes.
    g.matmul(g.tensor(dims=(3, 3)), g.tensor(dims=(3, 67))).set_output()
    check_emulated(g)


def test_few_columns_of_sums_over_5_halves_are_multiplied_as_floats(
    torch_ir: Callable[..., str],
) -> None:
    """W-130: and no other ones, of which sums over 2 or 3 halves are selected."""
    for k, kind in ((5, "f32"), (35, "f32"), (10, "f16"), (11, "f16")):
        g = Graph(io_data_type="half", compute_data_type="float")
        g.matmul(g.tensor(dims=(65, k)), g.tensor(dims=(k, 2))).set_output()
        (line,) = (x for x in torch_ir(g, "gfx942").splitlines() if "torch.aten.mm" in x)
        assert f"!torch.vtensor<[65,{k}],{kind}>" in line


def test_a_row_times_a_matrix_is_summed_by_parts_on_gfx9(torch_ir: Callable[..., str]) -> None:
    """Sums of products over parts of k, then over the parts; emulated."""
    g = Graph(io_data_type="half", compute_data_type="float")
    x, w = g.tensor(dims=(1, 1000)), g.tensor(dims=(1000, 70))
    g.add(g.matmul(x, w), g.tensor(dims=(1, 70))).set_output()
    ir = torch_ir(g, "gfx942")
    assert "aten.mm" not in ir
    assert ir.count("torch.aten.sum.dim_IntList") == 2
    assert "aten.mm" in torch_ir(g, "cpu")
    check_emulated(g)


@pytest.mark.parametrize(
    ("batch", "m", "k", "n"), [((), 2, 512, 64), ((3,), 7, 256, 31), ((), 8, 128, 5)]
)
def test_few_rows_of_halves_on_an_mi200(batch: tuple[int, ...], m: int, k: int, n: int) -> None:
    """Emulated (W-149): they were compiled to instructions that it does not have."""
    g = Graph(io_data_type="half", compute_data_type="float")
    g.matmul(g.tensor(dims=(*batch, m, k)), g.tensor(dims=(*batch, k, n))).set_output()
    assert g.build("gfx90a").attempt == ""
    check_emulated(g, "gfx90a")


def test_a_convolution_of_few_places_in_half_on_an_mi200() -> None:
    """Emulated (W-149): the rule does not see the product that it becomes, an attempt does."""
    g = Graph(io_data_type="half", compute_data_type="float")
    g.conv_fprop(g.tensor(dims=(1, 128, 2, 2)), g.tensor(dims=(64, 128, 1, 1))).set_output()
    assert "halves as float" in g.build("gfx90a").attempt
    check_emulated(g, "gfx90a")


def test_verify_knows_what_the_target_takes_for_0() -> None:
    """Emulated: the MI200 multiplies subnormal halves as 0; only the command line knew."""
    assert apart(_subnormal_factors)


def _subnormal_factors() -> bool:
    g = Graph(io_data_type="half", compute_data_type="float", intermediate_data_type="float")
    x, w = g.tensor(dims=(16, 16)), g.tensor(dims=(16, 16))
    y = g.matmul(x, w).set_output().set_data_type("float")
    given = {x: np.full((16, 16), 2.0**-15, np.float16), w: np.ones((16, 16), np.float16)}
    with emulated("gfx90a"):
        plan = g.build("gfx90a")
        assert not plan.run(given)[y].any()
        return plan.verify(given).ok
