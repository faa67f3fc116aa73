# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Graphs with a sum that a later sum adds up once more, or might (W-109)."""

from __future__ import annotations

from hipdnn_iree import Graph


def sums_of_sums(
    g: Graph,
    *,
    dims: tuple[int, ...] = (9, 33),
    axis: int = 1,
    mode: str = "add",
    stored: bool = True,
) -> None:
    first = g.reduction(g.tensor(dims=dims), mode=mode, axes=(axis,))
    repeated = g.add(first, g.tensor(dims=dims))
    g.reduction(repeated, mode="add", axes=(1,)).set_output()
    if stored:
        first.set_output()


def read_twice(g: Graph) -> None:
    first = g.reduction(g.tensor(dims=(9, 33)), mode="mul", axes=(1,))
    y = g.transpose(g.relu(g.mul(g.tensor(dims=(9, 33)), first)), permutation=(1, 0))
    g.reduction(y, mode="max", axes=(0, 1)).set_output()
    g.matmul(g.tensor(dims=(7, 9)), first).set_output()


def stored_by_a_move(g: Graph) -> None:
    first = g.matmul(g.tensor(dims=(1, 9, 33)), g.tensor(dims=(1, 33, 1)))
    column = g.reshape(first, dim=(9, 1)).set_output()
    g.rmsnorm(
        g.mul(g.tensor(dims=(2, 9, 33)), column), g.tensor(dims=(1, 1, 33)), epsilon=1e-5
    ).y.set_output()


def attention_and_norm(g: Graph, *, stats: bool) -> None:
    q, k, v = (g.tensor(dims=(1, 3, 33, 15)) for _ in "qkv")
    found = g.sdpa(q, k, v, generate_stats=stats)
    row = g.tensor(dims=(1, 1, 1, 15))
    g.layernorm(g.relu(found.o), row, row, epsilon=1e-5).y.set_output()
    if stats:
        found.stats.set_output()


def residual_and_norm(g: Graph) -> None:
    x, w = g.tensor(dims=(64, 64)), g.tensor(dims=(64, 64))
    y = g.add(g.matmul(x, w), x).set_output()
    g.layernorm(y, g.tensor(dims=(1, 64)), g.tensor(dims=(1, 64)), epsilon=1e-5).y.set_output()


def conv_bias_relu_mean(g: Graph) -> None:
    y = g.conv_fprop(g.tensor(dims=(2, 8, 9, 9)), g.tensor(dims=(8, 8, 3, 3))).set_output()
    y = g.relu(g.add(y, g.tensor(dims=(1, 8, 1, 1)))).set_output()
    g.reduction(y, mode="avg", axes=(2, 3)).set_output()


def softmax_of_parts(g: Graph) -> None:
    x = g.tensor(dims=(9, 33))
    powers = g.exp(g.sub(x, g.reduction(x, mode="max", axes=(1,)).set_output()))
    g.div(powers, g.reduction(powers, mode="add", axes=(1,)).set_output()).set_output()


def norm_of_parts(g: Graph) -> None:
    x = g.tensor(dims=(9, 33))
    rest = g.sub(x, g.reduction(x, mode="avg", axes=(1,)).set_output())
    mean = g.reduction(g.mul(rest, rest), mode="avg", axes=(1,)).set_output()
    g.mul(rest, g.rsqrt(mean)).set_output()


def gradient_then_sum(g: Graph, *, axes: tuple[int, ...], bias: bool = True) -> None:
    dy, x = g.tensor(dims=(2, 4, 4, 9)), g.tensor(dims=(2, 4, 4, 9))
    mean, inverse, scale = (g.tensor(dims=(1, 4, 1, 1)) for _ in range(3))
    found = g.batchnorm_backward(dy, x, scale, mean=mean, inv_variance=inverse)
    found.dscale.set_output()
    if bias:
        found.dbias.set_output()
    g.reduction(found.dx, mode="add", axes=axes).set_output()
