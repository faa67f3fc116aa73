# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Depthwise convolutions and their gradients channels-last: any geometry, checked in float64."""

from __future__ import annotations

import random
from math import prod
from typing import Any

import numpy as np
import pytest
from hipdnn_iree import Graph, Target
from hipdnn_iree.graph_api.layout import channels_last_strides
from hipdnn_iree.jit.lowering.module import lower_graph
from hipdnn_iree.jit.settings import scope
from hipdnn_iree.jit.strategies import choices

CPU = Target.parse("cpu")

Ints = tuple[int, ...]


def drawn(seed: int) -> dict[str, Any]:
    """Return a geometry: of one to three spatial dims, with dims of 1, odd and prime."""
    rng = random.Random(seed)
    rank = rng.choice((1, 2, 2, 2, 3))
    size = tuple(rng.choice((1, 2, 3, 3, 5)) for _ in range(rank))
    dilation = tuple(rng.choice((1, 1, 1, 2)) for _ in range(rank))
    reach = [(k - 1) * d + 1 for k, d in zip(size, dilation, strict=True)]
    extents = tuple(r + rng.choice((0, 1, 2, 5, 7)) for r in reach)
    return {
        "x": (rng.choice((1, 2, 3)), rng.choice((2, 3, 15, 16, 17, 33, 48)), *extents),
        "size": size,
        "dilation": dilation,
        "stride": tuple(rng.choice((1, 1, 2, 3)) for _ in range(rank)),
        "pre_padding": tuple(rng.randrange(r) for r in reach),
        "post_padding": tuple(rng.randrange(r) for r in reach),
    }


def of(op: str, seed: int, *, last: bool, kind: str) -> Graph:
    given = drawn(seed)
    x, size = given.pop("x"), given.pop("size")
    out = tuple(
        (n + pre + post - d * (k - 1) - 1) // s + 1
        for n, k, d, s, pre, post in zip(x[2:], size, *given.values(), strict=True)
    )
    graph = Graph("depthwise", io_data_type=kind, compute_data_type="float")

    def image(dims: Ints, name: str) -> Any:
        strides = {"strides": channels_last_strides(dims)} if last else {}
        return graph.tensor(dims=dims, name=name, **strides)

    y, w = (*x[:2], *out), (x[1], 1, *size)
    if op == "conv_fprop":
        graph.conv_fprop(image(x, "x"), graph.tensor(dims=w, name="w"), **given).set_output()
    elif op == "conv_dgrad":
        dy, filters = image(y, "dy"), graph.tensor(dims=w, name="w")
        graph.conv_dgrad(dy, filters, dx_dims=x, **given).set_output()
    else:
        graph.conv_wgrad(image(y, "dy"), image(x, "x"), dw_dims=w, **given).set_output()
    return graph


def fits(graph: Graph, op: str) -> bool:
    choice = choices(graph.freeze(), CPU).get(op)
    return choice is not None and "channels_last" in choice.names


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.parametrize("op", ["conv_fprop", "conv_dgrad", "conv_wgrad"])
def test_any_geometry(op: str, seed: int) -> None:
    last, kind = seed % 3 != 0, ("float", "bfloat16", "half")[seed % 5 % 3]
    graph = of(op, seed, last=last, kind=kind)
    with scope(compiler_strategies=f"{op}=channels_last" if fits(graph, op) else ""):
        plan = graph.build("cpu")
    assert plan.verify(seed=seed).ok


def test_most_of_them_are_done_channels_last() -> None:
    cases = [(op, seed) for op in ("conv_fprop", "conv_dgrad", "conv_wgrad") for seed in range(16)]
    done = [fits(of(op, seed, last=True, kind="float"), op) for op, seed in cases]
    assert sum(done) > 36


@pytest.mark.parametrize("columns", [1, 7, 32, 33, 37, 53, 64, 113])
@pytest.mark.parametrize("padding", [0, 1])
def test_rows_are_added_up_in_runs_of_any_length(columns: int, padding: int) -> None:
    dims = (2, 17, 3, columns + 2 - 2 * padding)
    graph = Graph("gradient", io_data_type="float", compute_data_type="float")
    dy = graph.tensor(dims=(2, 17, 1, columns), name="dy")
    x = graph.tensor(dims=dims, name="x")
    op = {"pre_padding": (0, padding), "post_padding": (0, padding)}
    graph.conv_wgrad(dy, x, dw_dims=(17, 1, 3, 3), **op).set_output()
    assert choices(graph.freeze(), CPU)["conv_wgrad"].default == "channels_last"
    plan = graph.build("cpu")
    assert plan.verify(seed=columns).ok
    # What a run lacks beyond the last column adds nothing, nor NaN beside an infinity.
    values = plan.random_inputs(seed=2)
    next(v for v in values.values() if v.shape == (2, 17, 1, columns))[0, 3, 0, -1] = np.inf
    (dw,) = plan.run(values).values()
    met = dw[3, 0, :, padding : 3 - padding]
    assert np.isinf(met).all(), met
    assert np.isfinite(np.delete(dw, 3, axis=0)).all()


@pytest.mark.parametrize("last", [False, True])
def test_an_infinite_weight_meets_no_padding_of_other_positions(*, last: bool) -> None:
    """Of stride 2 a position of dx meets every other position of the filter, and no zeros."""
    dims, w = (1, 16, 7, 7), (16, 1, 3, 3)
    graph = Graph("gradient", io_data_type="float", compute_data_type="float")
    strides = {"strides": channels_last_strides((1, 16, 4, 4))} if last else {}
    dy = graph.tensor(dims=(1, 16, 4, 4), name="dy", **strides)
    graph.conv_dgrad(
        dy, graph.tensor(dims=w, name="w"), dx_dims=dims, stride=2, padding=1
    ).set_output()
    assert choices(graph.freeze(), CPU)["conv_dgrad"].default == "channels_last"
    plan = graph.build("cpu")
    values = plan.random_inputs(seed=3)
    (weights,) = (x for x in values.values() if prod(x.shape) == prod(w))
    weights[:, :, 1, 1] = float("inf")
    (dx,) = plan.run(values).values()
    finite = np.isfinite(dx)
    # The middle of the filter meets the even positions alone: odd rows or columns are finite.
    assert finite[:, :, 1::2, :].all()
    assert finite[:, :, :, 1::2].all()


@pytest.mark.parametrize("samples", [1, 2])
@pytest.mark.parametrize("follows", ["transpose", "mean"])
def test_what_follows_does_not_order_the_loops(samples: int, follows: str) -> None:
    """Fused with either the channels were read one by one: 3.3 and 3.6 ms for 0.6 and 0.5."""
    dims = (samples, 48, 14, 14)
    graph = Graph("followed", io_data_type="float", intermediate_data_type="float")
    x = graph.tensor(dims=dims, strides=channels_last_strides(dims))
    y = graph.relu(graph.conv_fprop(x, graph.tensor(dims=(48, 1, 3, 3)), padding=1))
    if follows == "mean":
        y = graph.reduction(y, mode="avg", axes=[2, 3])
    y.set_output()
    with scope(compiler_strategies="conv_fprop=channels_last"):
        plan = graph.build("cpu")
    assert plan.verify(seed=1).ok
    reading = [one for one in plan.dispatches() if "elementwise_broadcast" in one.name]
    assert [one.name.endswith("14x14x48_f32") for one in reading] == [True]


def test_a_padded_image_is_one_kernel() -> None:
    """The compiler's own padding is zeros, and the image copied between them."""
    dims = (8, 32, 14, 14)
    graph = Graph("padded", io_data_type="float", compute_data_type="float")
    x = graph.tensor(dims=dims, strides=channels_last_strides(dims))
    graph.conv_fprop(x, graph.tensor(dims=(32, 32, 3, 3)), padding=1).set_output()
    with scope(compiler_strategies="conv_fprop=blocked"):
        text = lower_graph(graph.freeze(), Target.parse("cpu:znver5"))
    assert "constant_pad_nd" not in text
