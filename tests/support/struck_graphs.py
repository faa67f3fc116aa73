# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Graphs that a defect of the compiler strikes, or just does not, as the options make them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hipdnn_iree import Graph
from hipdnn_iree.graph_api.layout import channels_last_strides


def moved(graph: Graph) -> None:
    graph.reshape(graph.tensor(dims=(4, 6)), dim=(24,)).set_output()


def computed(graph: Graph) -> None:
    graph.relu(graph.tensor(dims=(4, 6), data_type="half")).set_output()


def attention(heads: int, then_matmul: bool = False) -> Callable[[Graph], None]:
    def build(graph: Graph) -> None:
        q, k, v = (graph.tensor(dims=(8, heads, 8, 16)) for _ in range(3))
        o = graph.sdpa(q, k, v, causal_mask=True).o
        if then_matmul:
            o = graph.matmul(o, graph.tensor(dims=(8, heads, 16, 16)))
        o.set_output()

    return build


def batchnorm_gradient(strides: tuple[int, ...] | None) -> Callable[[Graph], None]:
    def build(graph: Graph) -> None:
        dims = (2, 4, 6, 6)
        dy = graph.tensor(dims=dims, strides=strides)
        scale, mean, inverse = (graph.tensor(dims=(1, 4, 1, 1)) for _ in range(3))
        found = graph.batchnorm_backward(
            dy, graph.tensor(dims=dims), scale, mean=mean, inv_variance=inverse
        )
        found.dx.set_output()

    return build


def convolution(
    *,
    x_strides: tuple[int, ...] | None = None,
    w_last: bool = False,
    y_strides: tuple[int, ...] | None = None,
    io: str = "float",
    size: int = 8,
    k: int = 3,
    **options: Any,
) -> Callable[[Graph], None]:
    def build(graph: Graph) -> None:
        x_dims, w_dims = (1, 32, size, size), (32, 32, k, k)
        x = graph.tensor(dims=x_dims, strides=x_strides, data_type=io)
        w_strides = channels_last_strides(w_dims) if w_last else None
        w = graph.tensor(dims=w_dims, strides=w_strides, data_type=io)
        y = graph.conv_fprop(x, w, **{"padding": k // 2, **options}).set_output()
        if y_strides:
            y.strides = y_strides

    return build


def normalised(then_matmul: bool) -> Callable[[Graph], None]:
    def build(graph: Graph) -> None:
        x, scale, bias = (graph.tensor(dims=d) for d in ((8, 64), (1, 64), (1, 64)))
        y = graph.layernorm(x, scale, bias).y if then_matmul else graph.relu(x)
        graph.matmul(y, graph.tensor(dims=(64, 8))).set_output()

    return build


def projected(by_matmul: bool) -> Callable[[Graph], None]:
    def build(graph: Graph) -> None:
        x = graph.tensor(dims=(8, 64))
        x = graph.matmul(x, graph.tensor(dims=(64, 64))) if by_matmul else graph.relu(x)
        scale, bias = (graph.tensor(dims=(1, 64)) for _ in range(2))
        graph.layernorm(x, scale, bias).y.set_output()

    return build


def two_convolutions(last: bool) -> Callable[[Graph], None]:
    def build(graph: Graph) -> None:
        dims, size = (1, 16, 8, 8), (16, 16, 3, 3)
        strides = channels_last_strides(dims) if last else None
        x = graph.tensor(dims=dims, strides=strides)
        w1, w2 = (graph.tensor(dims=size, strides=channels_last_strides(size)) for _ in "ab")
        graph.conv_fprop(graph.relu(graph.conv_fprop(x, w1)), w2).set_output()

    return build


def training_step(same: bool) -> Callable[[Graph], None]:
    def build(graph: Graph) -> None:
        x, w = graph.tensor(dims=(2, 8, 9, 9)), graph.tensor(dims=(4, 8, 3, 3))
        y = graph.conv_fprop(x, w).set_output()
        other = x if same else graph.tensor(dims=(2, 8, 9, 9))
        dy = graph.tensor(dims=(2, 4, 7, 7))
        del y
        graph.conv_wgrad(dy, other, dw_dims=(4, 8, 3, 3)).set_output()

    return build


def part_of_planes(g: Graph, *, step: int) -> None:
    part = g.slice(
        g.tensor(dims=(8, 7, 13, 2)),
        starts=(0, 0, 9, 1),
        limits=(8, 7, 10, 2),
        strides=(1, step, 1, 1),
    )
    g.reduction(part, mode="add", axes=(1,)).set_output()


def strided_step(stride: int) -> Callable[[Graph], None]:
    def build(g: Graph) -> None:
        x = g.relu(g.tensor(dims=(1, 15, 16)))
        g.conv_fprop(x, g.tensor(dims=(8, 15, 1)), stride=stride).set_output()
        dy = g.tensor(dims=(1, 8, -(-16 // stride)))
        g.conv_wgrad(dy, x, dw_dims=(8, 15, 1), stride=stride).set_output()

    return build


def strided_channel(stride: int) -> Callable[[Graph], None]:
    def build(g: Graph) -> None:
        x = g.abs(g.tensor(dims=(1, 1, 2, 7)))
        g.conv_fprop(x, g.tensor(dims=(32, 1, 1, 1)), stride=stride).set_output()
        g.sqrt(x).set_output().set_data_type("half")

    return build


def transposed_convolution(permutation: tuple[int, ...]) -> Callable[[Graph], None]:
    def build(graph: Graph) -> None:
        y = graph.conv_fprop(graph.tensor(dims=(1, 4, 1, 8)), graph.tensor(dims=(4, 4, 1, 3)))
        graph.transpose(graph.relu(y), permutation=permutation).set_output()

    return build


def spanned(last: bool) -> Callable[[Graph], None]:
    def build(graph: Graph) -> None:
        dims = (2, 3, 12, 9)
        x = graph.tensor(dims=dims, strides=channels_last_strides(dims) if last else None)
        graph.conv_fprop(x, graph.tensor(dims=(4, 3, 3, 9))).set_output()

    return build


def widened(io: str) -> Callable[[Graph], None]:
    def build(graph: Graph) -> None:
        x = graph.tensor(dims=(2, 8, 9, 9), data_type=io)
        x = graph.relu(x).set_data_type("float")
        graph.conv_fprop(x, graph.tensor(dims=(4, 8, 3, 3))).set_output()

    return build


def concatenated(then_convolved: bool) -> Callable[[Graph], None]:
    def build(graph: Graph) -> None:
        x = graph.concatenate([graph.tensor(dims=(2, 4, 9, 9)) for _ in "ab"], axis=1)
        if then_convolved:
            x = graph.conv_fprop(x, graph.tensor(dims=(4, 8, 3, 3)))
        x.set_output()

    return build


def heads(split: bool) -> Callable[[Graph], None]:
    def build(graph: Graph) -> None:
        y = graph.matmul(graph.tensor(dims=(16, 32)), graph.tensor(dims=(32, 48)))
        (graph.reshape(y, dim=(16, 3, 16)) if split else graph.relu(y)).set_output()

    return build


def norm_gradient(length: int) -> Callable[[Graph], None]:
    def build(graph: Graph) -> None:
        dy, x = (graph.tensor(dims=(4, length)) for _ in "ab")
        graph.layernorm_backward(
            dy, x, graph.tensor(dims=(1, length)), epsilon=1e-5
        ).dx.set_output()

    return build


def filter_of_rows_of(elements: int) -> Callable[[Graph], None]:
    """Return a convolution whose filter has rows of three elements, and maybe a gap behind them."""

    def build(graph: Graph) -> None:
        strides = (12 * elements, 3 * elements, elements, 1)
        x = graph.tensor(dims=(2, 4, 8, 8), data_type="half")
        w = graph.tensor(dims=(8, 4, 3, 3), strides=strides, data_type="half")
        graph.conv_fprop(x, w).set_output()

    return build


def norm_of_pieces(length: int) -> Callable[[Graph], None]:
    """Return a norm whose rows are every third element."""

    def build(graph: Graph) -> None:
        x, scale = graph.tensor(dims=(3, length), strides=(1, 3)), graph.tensor(dims=(1, length))
        graph.rmsnorm(x, scale).y.set_output()

    return build


def product(row: int, *, then: str = "") -> Callable[[Graph], None]:
    def build(graph: Graph) -> None:
        x = graph.tensor(dims=(64, 1000), strides=(row, 1))
        x = getattr(graph, then)(x) if then else x
        graph.matmul(x, graph.tensor(dims=(1000, 64))).set_output()

    return build


def batch_of_matmuls(rows: int, computed: bool = True) -> Callable[[Graph], None]:
    def build(graph: Graph) -> None:
        x = graph.tensor(dims=(2, rows, 16))
        if computed:
            x = graph.sub(x, graph.tensor(dims=(1, 1, 16)))
        graph.matmul(x, graph.tensor(dims=(2, 16, 32))).set_output()

    return build


def rows_and_columns(other: bool) -> Callable[[Graph], None]:
    def build(graph: Graph) -> None:
        made = [graph.reduction(graph.tensor(dims=(5, 4, 1)), mode="add", axes=(0,)) for _ in "ab"]
        graph.add(made[0], graph.transpose(made[other], permutation=(0, 2, 1))).set_output()

    return build


def open_sum(*axes: int) -> Callable[[Graph], None]:
    def build(g: Graph) -> None:
        x = g.tensor(dims=(31, g.dynamic("n", example=5), 2))
        g.mul(x, g.reduction(x, mode="add", axes=axes).set_output()).set_output()

    return build


def repeated(g: Graph, *, stored: bool) -> None:
    x = g.transpose(g.tensor(dims=(1, 9, 9), strides=(9, 1, 0)), permutation=(1, 2, 0))
    g.concatenate([x, g.tensor(dims=(9, 1, 1))], axis=1).set_output()
    if stored:
        x.set_output()


def parts(g: Graph, *, axis: int) -> None:
    x = g.tensor(dims=(4, 6))
    g.concatenate([g.relu(x), g.exp(x)], axis=axis).set_output()


def narrow_matmul(depth: int, columns: int) -> Callable[[Graph], None]:
    def build(g: Graph) -> None:
        a, b = (g.tensor(dims=d, data_type="half") for d in ((32, depth), (depth, columns)))
        g.matmul(a, b).set_output()

    return build


def convolved_indices(*, added: bool) -> Callable[[Graph], None]:
    def build(g: Graph) -> None:
        x = g.tensor(dims=(2, 2, 5))
        indices = g.gen_index(x, axis=1)
        given = g.add(indices, x) if added else g.mul(indices, g.scalar(0.125))
        g.conv_fprop(given, g.tensor(dims=(6, 1, 2)), padding=1).set_output()

    return build


def angles(*, added: bool) -> Callable[[Graph], None]:
    def build(g: Graph) -> None:
        x = g.tensor(dims=(4, 5))
        indices = g.gen_index(x, axis=0)
        g.sin(g.add(indices, x) if added else g.mul(indices, g.scalar(99.0))).set_output()

    return build


def convolved_products(k: int) -> Callable[[Graph], None]:
    def build(g: Graph) -> None:
        x = g.matmul(g.tensor(dims=(2, 2, 4, k)), g.tensor(dims=(2, 2, k, 5)))
        g.conv_fprop(x, g.tensor(dims=(3, 2, 2, 2)), padding=1).set_output()

    return build


def reshaped(g: Graph, *, computed: bool) -> None:
    x = g.tensor(dims=(2, 4, 6, 5))
    scaled = g.relu(x)
    g.reshape(scaled if computed else x, dim=(2, 2, 2, 6, 5)).set_output()
    g.conv_fprop(scaled, g.tensor(dims=(3, 4, 2, 2)), padding=1).set_output()


def detector_heads(*paddings: int) -> Callable[[Graph], None]:
    def build(g: Graph) -> None:
        x = g.tensor(dims=(1, 4, 8, 8))
        for padding in paddings:
            w = g.tensor(dims=(4, 4, 2 * padding + 1, 2 * padding + 1))
            g.conv_fprop(x, w, padding=padding).set_output()

    return build


def normalised_rows(last: int, *, by_columns: bool = True) -> Callable[[Graph], None]:
    def build(g: Graph) -> None:
        x, scale = g.tensor(dims=(2, 32, last)), g.tensor(dims=(1, 32, last))
        y = g.rmsnorm(x, scale).y.set_output()
        if by_columns:
            y.strides = (32 * last, 1, 32)

    return build
