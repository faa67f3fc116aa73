# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Graphs whose numbers known defects of the compiler would change: with their rules they are right.

`tests/jit/test_workaround_rules.py` has the predicates, ``docs/upstream`` the reproducers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from graph_rows import check_emulated
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.tensor import Tensor

Run = Callable[..., Any]
Make = Callable[[Graph], Tensor]


def _tensor(g: Graph, *dims: int, **more: Any) -> Tensor:
    return g.tensor(dims=dims, **more)


# ------------------------------------------------------- W-099: a result meets its transpose

LINES: dict[str, Make] = {
    "a sum of 4": lambda g: g.reduction(_tensor(g, 1, 5, 4), mode="add", axes=(1,)),
    "the least of 33": lambda g: g.reduction(_tensor(g, 1, 7, 33), mode="min", axes=(1,)),
    "a matmul of 33": lambda g: g.matmul(_tensor(g, 1, 1, 9), _tensor(g, 1, 9, 33)),
    "a matmul of 33x1": lambda g: g.matmul(_tensor(g, 1, 33, 9), _tensor(g, 1, 9, 1)),
    "a part of a matmul of 31x8": lambda g: g.slice(
        g.matmul(_tensor(g, 1, 31, 3), _tensor(g, 1, 3, 8)), starts=(0, 9, 5), limits=(1, 16, 6)
    ),
    "a convolution of 33": lambda g: g.conv_fprop(_tensor(g, 1, 3, 33), _tensor(g, 1, 3, 1)),
    "attention of 33": lambda g: g.reshape(
        g.sdpa(_tensor(g, 1, 1, 33, 8), _tensor(g, 1, 1, 5, 8), _tensor(g, 1, 1, 5, 1)).o,
        dim=(1, 33, 1),
    ),
    "a norm of 33x33": lambda g: (
        g.rmsnorm(_tensor(g, 1, 33, 33), _tensor(g, 1, 1, 33), epsilon=1e-5).y
    ),
    "a norm of 4x4": lambda g: (
        g.layernorm(_tensor(g, 1, 4, 4), _tensor(g, 1, 1, 4), _tensor(g, 1, 1, 4), epsilon=1e-5).y
    ),
    "a sum of 4x4": lambda g: g.reduction(_tensor(g, 3, 4, 4), mode="add", axes=(0,)),
    "a matmul of 33x33": lambda g: g.matmul(_tensor(g, 1, 33, 9), _tensor(g, 1, 9, 33)),
}


@pytest.mark.parametrize("op", ["add", "mul", "max"])
def test_a_result_and_its_transpose(op: str, check: Run) -> None:
    """Of each two tensors one is the other, transposed: part of what they make was unwritten."""
    graph = Graph(io_data_type="float")
    for make in LINES.values():
        y = make(graph)
        pair = (y, graph.transpose(y, permutation=(0, 2, 1)))
        getattr(graph, op)(*pair).set_output()
        getattr(graph, op)(*reversed(pair)).set_output()
    check(graph.freeze())


def test_a_result_and_its_transpose_on_gfx9() -> None:
    """Emulated (random graphs 90610, 91482 and 124955)."""
    graph = Graph(io_data_type="float")
    for name in ("a sum of 4", "a matmul of 33x1", "a part of a matmul of 31x8", "a norm of 33x33"):
        y = LINES[name](graph)
        graph.mul(y, graph.transpose(y, permutation=(0, 2, 1))).set_output()
    check_emulated(graph)


# ------------------------------------------- W-098: computed operands of a batch of matmuls


@pytest.mark.parametrize("kind", ["float", "half", "bfloat16"])
def test_a_batch_of_matmuls_of_biased_rows(kind: str, check: Run) -> None:
    """From the second matrix on every element was wrong, in half and bfloat16 of all these."""
    graph = Graph(io_data_type=kind, compute_data_type="float", intermediate_data_type=kind)
    for b, m, k, n in ((2, 3, 16, 32), (2, 31, 32, 17), (4, 15, 32, 32), (3, 3, 8, 8)):
        x, y = _tensor(graph, b, m, k), _tensor(graph, b, k, n)
        for bias in ((1, 1, k), (b, m, 1)):
            graph.matmul(graph.sub(x, _tensor(graph, *bias)), y).set_output()
        columns = graph.sub(_tensor(graph, b, n, k), _tensor(graph, b, n, 1))
        graph.matmul(x, graph.transpose(columns, permutation=(0, 2, 1))).set_output()
    check(graph.freeze())


@pytest.mark.parametrize("kind", ["float", "half"])
def test_a_batch_of_matmuls_whose_columns_are_outermost(kind: str, check: Run) -> None:
    """Of an argument too: from the second matrix on every element was wrong."""
    graph = Graph(io_data_type=kind, compute_data_type="float", intermediate_data_type=kind)
    for b, m, k, n in ((10, 15, 9, 9), (3, 31, 17, 33)):
        a, y = _tensor(graph, b, m, k, strides=(m, 1, b * m)), _tensor(graph, b, k, n)
        graph.matmul(a, y).set_output()
        turned = graph.transpose(_tensor(graph, k, b, m), permutation=(1, 2, 0))
        graph.matmul(turned, y).set_output()
        columns = _tensor(graph, b, k, m, strides=(m, b * m, 1))
        graph.matmul(_tensor(graph, b, n, k), columns).set_output()
    check(graph.freeze())


@pytest.mark.parametrize("kind", ["float", "half"])
def test_a_batch_of_matmuls_of_what_is_joined(kind: str, check: Run) -> None:
    """Joined along the columns, in four dims and more: wrong from the second matrix on."""
    graph = Graph(io_data_type=kind, compute_data_type="float", intermediate_data_type=kind)
    for *batch, m, k, n in ((2, 1, 3, 64, 4), (1, 2, 3, 8, 9), (2, 2, 7, 64, 13), (2, 3, 7, 5)):
        x, y = _tensor(graph, *batch, m, k // 2), _tensor(graph, *batch, m, k - k // 2)
        b = _tensor(graph, *batch, k, n)
        joined = graph.concatenate([x, y], axis=-1)
        graph.matmul(joined, b).set_output()
    check(graph.freeze())


@pytest.mark.parametrize("kind", ["half", "bfloat16"])
def test_a_batch_of_matmuls_of_what_is_converted_for_two(kind: str, check: Run) -> None:
    """One conversion, for a norm's rows and for the matmul: wrong from the second matrix on."""
    graph = Graph(io_data_type=kind, compute_data_type="float", intermediate_data_type="float")
    for dims, n in (((2, 2, 15, 2), 1), ((1, 4, 3, 16), 32)):
        x, scale = _tensor(graph, *dims), _tensor(graph, 1, 1, 1, dims[-1])
        graph.rmsnorm(x, scale, epsilon=1e-5).y.set_output()
        b = _tensor(graph, 1, 1, dims[-1], n, data_type="float")
        graph.matmul(x, b).set_output()
        y = _tensor(graph, *dims[:2], n, dims[-1])
        graph.reduction(y, mode="add", axes=(3,)).set_output()
        a = _tensor(graph, *dims[:2], 5, n, data_type="float")
        graph.matmul(a, y).set_output()
    check(graph.freeze())


@pytest.mark.parametrize("kind", ["float", "half", "bfloat16"])
def test_a_filter_gradient_of_narrow_groups(kind: str, check: Run) -> None:
    """The matmul of each group: half of the elements were wrong, of arguments too."""
    graph = Graph(io_data_type=kind, compute_data_type="float", intermediate_data_type=kind)
    for groups, c, k in ((2, 8, 6), (2, 6, 10), (4, 60, 64), (3, 9, 21)):
        x, dy = (_tensor(graph, 2, channels, 3, 4) for channels in (c, k))
        for image in (x, graph.relu(x)):
            dw = graph.conv_wgrad(dy, image).set_dim((k, c // groups, 1, 1))
            dw.set_output()
    check(graph.freeze())


@pytest.mark.parametrize("rows", [5, 33])
@pytest.mark.parametrize("kind", ["float", "half", "bfloat16"])
def test_a_batch_of_matmuls_behind_products(rows: int, kind: str, check: Run) -> None:
    """From the second matrix on every element was wrong."""
    graph = Graph(io_data_type=kind, compute_data_type="float", intermediate_data_type=kind)
    made = graph.conv_fprop(_tensor(graph, 2, 16, rows, 8), _tensor(graph, 1, 16, 1, 1))
    first = graph.reshape(made, dim=(2, rows, 8))
    graph.matmul(first, _tensor(graph, 2, 8, 7)).set_output()
    graph.matmul(graph.relu(first), _tensor(graph, 1, 8, 33)).set_output()
    q, k, v = (_tensor(graph, 1, 2, rows, 32) for _ in "qkv")
    heads = graph.reshape(graph.sdpa(q, k, v).o, dim=(2, rows, 32))
    graph.matmul(heads, _tensor(graph, 2, 32, 17)).set_output()
    turned = graph.transpose(heads, permutation=(0, 2, 1))
    graph.matmul(_tensor(graph, 2, 7, 32), turned).set_output()
    check(graph.freeze())


# --------------------------------------------------- W-097: operands with gaps between rows


@pytest.mark.parametrize("kind", ["float", "half", "bfloat16"])
def test_padded_operands_of_33_rows(kind: str, check: Run) -> None:
    """Of matmuls and convolutions, as they are and behind a pointwise op."""
    graph = Graph(io_data_type=kind, compute_data_type="float", intermediate_data_type=kind)
    x = _tensor(graph, 33, 200, strides=(256, 1))
    graph.matmul(x, _tensor(graph, 200, 31, strides=(1, 256))).set_output()
    graph.matmul(graph.relu(x), _tensor(graph, 200, 33)).set_output()
    image = _tensor(graph, 1, 16, 33, 33, strides=(16 * 33 * 40, 33 * 40, 40, 1))
    w = _tensor(graph, 8, 16, 3, 3, strides=(16 * 12, 12, 4, 1))
    graph.conv_fprop(image, w, padding=1).set_output()
    graph.conv_fprop(graph.relu(image), _tensor(graph, 8, 16, 1, 1)).set_output()
    check(graph.freeze())


# ------------------------------------------- W-109: a stored sum, read on the way to another


def _added(mode: str, dims: tuple[int, ...], axes: tuple[int, ...], later: tuple[int, ...]) -> Make:
    def make(g: Graph) -> Tensor:
        first = g.reduction(_tensor(g, *dims), mode=mode, axes=axes).set_output()
        y = g.mul(_tensor(g, *dims), first)
        return g.mul(y, g.reduction(y, mode="add", axes=later))

    return make


def _twice(g: Graph) -> Tensor:
    first = g.reduction(_tensor(g, 99, 33), mode="add", axes=(1,))
    g.matmul(_tensor(g, 7, 99), first).set_output()
    turned = g.transpose(g.mul(_tensor(g, 99, 33), first), permutation=(1, 0))
    return g.reduction(turned, mode="add", axes=(0,))


def _column(g: Graph) -> Tensor:
    first = g.matmul(_tensor(g, 1, 99, 15), _tensor(g, 1, 15, 1)).set_output()
    return g.reduction(g.mul(_tensor(g, 1, 99, 33), first), mode="add", axes=(2,))


def _filter(g: Graph) -> Tensor:
    gate = g.conv_fprop(_tensor(g, 2, 15, 7, 33), _tensor(g, 1, 15, 1, 1)).set_output()
    return g.reduction(g.mul(_tensor(g, 2, 40, 7, 33), gate), mode="add", axes=(1,))


def _attention(g: Graph) -> Tensor:
    q, k, v = _tensor(g, 1, 3, 33, 15), _tensor(g, 1, 3, 15, 15), _tensor(g, 1, 3, 15, 47)
    found = g.sdpa(q, k, v, generate_stats=True)
    found.stats.set_output()
    y = g.mul(found.o, _tensor(g, 1, 3, 33, 47))
    return g.rmsnorm(y, _tensor(g, 1, 3, 33, 47), epsilon=1e-5).y


def _gradient(g: Graph) -> Tensor:
    dims, strides = (1, 4, 4, 9), (144, 1, 36, 4)  # channels last
    dy, x = _tensor(g, *dims), _tensor(g, *dims, strides=strides)
    mean, inverse, scale = (_tensor(g, 1, 4, 1, 1) for _ in range(3))
    found = g.batchnorm_backward(dy, x, scale, mean=mean, inv_variance=inverse)
    found.dbias.set_output()
    found.dscale.set_output()
    dx = found.dx.set_stride(strides)
    return g.layernorm(dx, _tensor(g, *dims), _tensor(g, *dims), epsilon=1e-5).y


def _step(g: Graph) -> Tensor:
    q, k = _tensor(g, 1, 2, 9, 32), _tensor(g, 1, 1, 2, 32)
    v, do = _tensor(g, 1, 2, 2, 32), _tensor(g, 1, 2, 9, 32)
    found = g.sdpa(q, k, v, generate_stats=True)
    o = found.o.set_output()
    return g.sdpa_backward(q, k, v, o, do, found.stats).dq


SUMS: dict[str, Make] = {
    "rows, rows": _added("add", (99, 33), (1,), (1,)),
    "rows, all": _added("add", (4, 100), (1,), (0, 1)),
    "rows of a batch": _added("add", (4, 9, 33), (2,), (1, 2)),
    "sizes": _added("norm1", (99, 64), (1,), (1,)),
    "products": _added("mul", (8, 17), (1,), (0, 1)),
    "columns": _added("add", (99, 33), (0,), (1,)),
    "greatest": _added("max", (99, 33), (1,), (1,)),
    "means": _added("avg", (99, 33), (1,), (1,)),
    "read twice": _twice,
    "a column": _column,
    "a filter": _filter,
    "attention": _attention,
    "attention and its gradient": _step,
    "a gradient": _gradient,
}


@pytest.mark.parametrize("kind", ["float", "double"])
def test_a_stored_sum_is_added_up_once(kind: str, check: Run) -> None:
    """It was two to seven times what it is (seed 5312 of the random graphs)."""
    graph = Graph(io_data_type=kind, compute_data_type=kind, intermediate_data_type=kind)
    for make in SUMS.values():
        make(graph).set_output()
    check(graph.freeze())


@pytest.mark.parametrize("kind", ["float", "half", "bfloat16"])
@pytest.mark.parametrize("dims", [(16, 24, 1, 1), (99, 33, 1, 1)])
def test_the_sum_of_a_gradient_is_added_up_once(
    kind: str, dims: tuple[int, ...], check: Run
) -> None:
    """That of x was its dbias too: eight times what it is (seed 110180 of the random graphs)."""
    graph = Graph(io_data_type=kind, compute_data_type="float", intermediate_data_type="float")
    for is_dy in (True, False):
        x, scale = _tensor(graph, *dims), _tensor(graph, 1, dims[1], 1, 1)
        if not is_dy:
            graph.reduction(x, mode="add", axes=(0, 2, 3)).set_output()
        for result in graph.batchnorm_backward(x if is_dy else _tensor(graph, *dims), x, scale):
            result.set_output()
    check(graph.freeze())


# ---------------------------------------- W-110: an argument with stride 0, moved and stored


def test_a_repeated_argument_that_is_moved_and_stored(check: Run) -> None:
    """There was no code for it as planned, and none at all in seed 5296 of the random graphs."""
    graph = Graph(io_data_type="bfloat16", compute_data_type="bfloat16")
    for n in (9, 33):
        x = _tensor(graph, 1, n, n, strides=(n, 1, 0))
        moved = graph.transpose(x, permutation=(1, 2, 0)).set_output()
        graph.concatenate([moved, _tensor(graph, n, 1, 1), moved], axis=1).set_output()
    frozen = graph.freeze()
    check(frozen)
    assert not graph.build("cpu", engine="iree").attempt


# ------------------------------------------------- W-111: gaps between elements, one matrix


@pytest.mark.parametrize("strides", [(1, 1, 3, 27), (891, 891, 99, 3), (891, 1, 3, 27)])
def test_one_matrix_with_gaps_between_elements(strides: tuple[int, ...], check: Run) -> None:
    """It was copied by reversing it twice, for which there was no code (seed 20829)."""
    graph = Graph(io_data_type="float")
    w = _tensor(graph, 1, 1, 9, 33, strides=strides)
    graph.matmul(_tensor(graph, 2, 1, 17, 9), w).set_output()
    graph.matmul(_tensor(graph, 1, 1, 4, 9), w).set_output()
    check(graph.freeze())


# ------------------------- W-131: strided 1x1 convolution of what is converted and transposed


@pytest.mark.parametrize(("stride", "size"), [(3, 16), (2, 17)])
def test_a_strided_convolution_of_converted_numbers(stride: int, size: int, check: Run) -> None:
    g = Graph(io_data_type="bfloat16", intermediate_data_type="float", compute_data_type="float")
    dy = _tensor(g, 1, 15, size, strides=(15 * size, 1, 15))
    x = g.resample_bwd(dy, resample_mode="avgpool_include_padding", window=1)
    g.conv_fprop(x, _tensor(g, 8, 15, 1), stride=stride).set_output()
    step = _tensor(g, 1, 8, -(-size // stride))
    g.conv_wgrad(step, x, dw_dims=(8, 15, 1), stride=stride).set_output()
    check(g.freeze())


# ------------------------- W-136: a strided 1x1 convolution of what is computed, one channel


@pytest.mark.parametrize("stride", [2, 3])
def test_a_strided_convolution_of_one_channel(stride: int, check: Run) -> None:
    """What the stride leaves out of its input was not written for the other reader."""
    g = Graph(io_data_type="float", intermediate_data_type="float", compute_data_type="float")
    x = g.add(g.abs(_tensor(g, 1, 1, 2, 7)), 0.5)
    g.conv_fprop(x, _tensor(g, 32, 1, 1, 1), stride=stride).set_output()
    g.sqrt(x).set_output().set_data_type("half")
    check(g.freeze())
