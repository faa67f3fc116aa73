# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every strategy of every op is right, on problems that are shaped against it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.graph_api.layout import channels_last_strides
from hipdnn_iree.jit.code_plan import plan_code
from hipdnn_iree.jit.lowering.conv import dgrad_flipped
from hipdnn_iree.jit.lowering.module import lower_graph
from hipdnn_iree.jit.ops.conv_cost import samples_side_by_side
from hipdnn_iree.jit.ops.convolution import REVERSING
from hipdnn_iree.jit.settings import scope
from hipdnn_iree.jit.strategies import choices, choose, tables
from hipdnn_iree.jit.target import Target

Check = Callable[..., Any]

CPU = Target.parse("cpu")


def image(graph: Graph, dims: tuple[int, ...], name: str, last: bool) -> Any:
    strides = channels_last_strides(dims) if last else None
    return graph.tensor(dims=dims, strides=strides, name=name)


def conv(kind: str = "float", *, groups: int = 1, last: bool = False, **more: Any) -> FrozenGraph:
    """Two uneven images, odd channels, 3x2 taps unless 3x3 are asked for."""
    taps = more.pop("taps", (3, 2))
    graph = Graph("conv", io_data_type=kind, compute_data_type="float")
    samples, channels = more.pop("samples", 2), more.pop("channels", 6)
    x = image(graph, (samples, channels, 9, 7), "x", last)
    w = image(graph, (more.pop("filters", 10), channels // groups, *taps), "w", last)
    y = graph.conv_fprop(x, w, **more)
    graph.relu(y).set_output()
    return graph.freeze()


def dgrad(kind: str = "float", *, last: bool = False, groups: int = 1, **more: Any) -> FrozenGraph:
    graph = Graph("dgrad", io_data_type=kind, compute_data_type="float")
    taps, stride = (3, 4), more.pop("stride", (2, 3))
    dilation, padding = more.pop("dilation", (1, 1)), more.pop("padding", (1, 2))
    size = (11, 13)
    out = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, p, d, k, s in zip(size, padding, dilation, taps, stride, strict=True)
    ]
    dy = image(graph, (2, 5 * groups, *out), "dy", last)
    w = image(graph, (5 * groups, 6, *taps), "w", last)
    dx = graph.conv_dgrad(
        dy,
        w,
        dx_dims=(2, 6 * groups, *size),
        stride=stride,
        dilation=dilation,
        padding=padding,
        **more,
    )
    dx.set_output()
    return graph.freeze()


def wgrad(kind: str = "float", stride: int = 2) -> FrozenGraph:
    graph = Graph("wgrad", io_data_type=kind, compute_data_type="float")
    extents = (5, 4) if stride == 2 else (9, 7)
    x, dy = (
        graph.tensor(dims=(2, 6, 9, 7), name="x"),
        graph.tensor(dims=(2, 5, *extents), name="dy"),
    )
    graph.conv_wgrad(dy, x, dw_dims=(5, 6, 3, 3), stride=stride, padding=1).set_output()
    return graph.freeze()


def depthwise(op: str, kind: str = "float", *, last: bool = False, **more: Any) -> FrozenGraph:
    """A gradient of 18 channels, 3x4, with strides of 2 and 3."""
    graph = Graph("depthwise", io_data_type=kind, compute_data_type="float")
    dims, more = (2, 18, 11, 13), {"stride": (2, 3), "padding": (1, 2), **more}
    dilated = more.get("dilation", (1, 1))
    out = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, p, d, k, s in zip(
            dims[2:], more["padding"], dilated, (3, 4), more["stride"], strict=True
        )
    ]
    dy = image(graph, (2, 18, *out), "dy", last)
    if op == "conv_dgrad":
        w = graph.tensor(dims=(18, 1, 3, 4), name="w")
        graph.conv_dgrad(dy, w, dx_dims=dims, **more).set_output()
    else:
        x = image(graph, dims, "x", last)
        graph.conv_wgrad(dy, x, dw_dims=(18, 1, 3, 4), **more).set_output()
    return graph.freeze()


def matmul() -> FrozenGraph:
    graph = Graph("matmul", io_data_type="half", compute_data_type="float")
    a, b = graph.tensor(dims=(4, 5, 9), name="a"), graph.tensor(dims=(2, 9, 7), name="b")
    graph.matmul(a, b).set_output()
    return graph.freeze()


def row_times_matrix() -> FrozenGraph:
    graph = Graph("matmul", io_data_type="half", compute_data_type="float")
    a, b = graph.tensor(dims=(1, 1, 300), name="a"), graph.tensor(dims=(1, 300, 7), name="b")
    graph.matmul(a, b).set_output()
    return graph.freeze()


def product(
    *dims: int, first: str = "rows", second: str = "rows", kind: str = "float"
) -> FrozenGraph:
    """A matmul of batch, m, n and k with bias and ReLU; operands by rows, or by columns."""
    batch, m, n, k = dims
    graph = Graph("product", io_data_type=kind, compute_data_type="float")
    a, b = (batch, m, k), (batch, k, n)
    strides = {
        "rows": lambda d: (d[1] * d[2], d[2], 1),
        "columns": lambda d: (d[1] * d[2], 1, d[1]),
    }
    x = graph.tensor(dims=a, strides=strides[first](a), name="a")
    y = graph.tensor(dims=b, strides=strides[second](b), name="b")
    graph.relu(graph.add(graph.matmul(x, y), graph.tensor(dims=(1, 1, n), name="c"))).set_output()
    return graph.freeze()


def attention(
    kind: str = "float",
    *,
    heads: int = 1,
    queries: int = 9,
    keys: int = 9,
    depth: int = 8,
    values: int = 8,
    **more: Any,
) -> FrozenGraph:
    """Causal with half as many key heads, or plain."""
    graph = Graph("attention", io_data_type=kind, compute_data_type="float")
    q = graph.tensor(dims=(2, 2 * heads, queries, depth), name="q")
    key_heads = 2 if heads == 1 else heads
    k = graph.tensor(dims=(2, key_heads, keys, depth), name="k")
    v = graph.tensor(dims=(2, key_heads, keys, values), name="v")
    found = graph.sdpa(q, k, v, causal_mask=heads > 1, **more)
    found.o.set_output()
    if more.get("generate_stats"):
        found.stats.set_output().set_data_type("float")
    return graph.freeze()


def attention_gradient(
    kind: str = "float", *, heads: int = 2, queries: int = 9, keys: int = 11, depth: int = 8
) -> FrozenGraph:
    """Causal if heads share those of k."""
    graph = Graph("gradient", io_data_type=kind, compute_data_type="float")
    q, o, do = (graph.tensor(dims=(2, heads, queries, depth), name=n) for n in ("q", "o", "do"))
    k, v = (graph.tensor(dims=(2, 2, keys, depth), name=n) for n in "kv")
    stats = graph.tensor(dims=(2, heads, queries, 1), data_type="float", name="stats")
    found = graph.sdpa_backward(q, k, v, o, do, stats, causal_mask=heads > 2)
    for gradient in (found.dq, found.dk, found.dv):
        gradient.set_output()
    return graph.freeze()


def experts(mode: str = "none") -> FrozenGraph:
    """Rows of 37 tokens for three experts: with 16 rows to a block, up to five blocks."""
    graph = Graph("experts", io_data_type="float")
    x, w = graph.tensor(dims=(1, 37, 20), name="x"), graph.tensor(dims=(3, 20, 12), name="w")
    offsets = graph.tensor(dims=(6, 1, 1), data_type="int32", name="offsets")
    tables = ("token_index", "token_ks")[: ("none", "gather", "scatter").index(mode)]
    routes = {n: graph.tensor(dims=(1, 37, 1), data_type="int32", name=n) for n in tables}
    top_k = 2 if mode == "scatter" else 0
    graph.moe_grouped_matmul(x, w, offsets, mode=mode, top_k=top_k, **routes).set_output()
    return graph.freeze()


def experts_gradient() -> FrozenGraph:
    graph = Graph("gradient", io_data_type="float")
    dy, x = graph.tensor(dims=(1, 37, 12), name="dy"), graph.tensor(dims=(1, 37, 20), name="x")
    offsets = graph.tensor(dims=(6, 1, 1), data_type="int32", name="offsets")
    graph.moe_grouped_matmul_bwd(dy, x, offsets, dweight_dims=(3, 20, 12)).set_output()
    return graph.freeze()


CASES: dict[tuple[str, str], list[FrozenGraph]] = {
    ("conv_fprop", "direct"): [conv("half", padding=1, stride=(2, 1))],
    ("conv_fprop", "row_im2col"): [
        conv(padding=(1, 2), dilation=(2, 1)),
        conv("bfloat16", last=True, pre_padding=(1, 0), post_padding=(0, 2), stride=(2, 3)),
        conv(groups=3, filters=9, padding=(1, 2), dilation=(2, 1), stride=(1, 2)),
        conv("bfloat16", groups=2, last=True, pre_padding=(1, 0), post_padding=(0, 2)),
        conv("half", groups=2, filters=2, stride=(2, 3), padding=1, conv_mode="convolution"),
    ],
    ("conv_fprop", "im2col_gemm"): [
        conv("half", padding=1, stride=(2, 3), dilation=(1, 2), conv_mode="convolution"),
        conv(last=True, stride=2),
        conv("half", taps=(1, 1), stride=(2, 3), pre_padding=(1, 0), post_padding=(0, 2)),
        conv(taps=(1, 1), padding=(1, 0), last=True),  # samples side by side
    ],
    ("conv_fprop", "blocked"): [
        conv(padding=(1, 2), dilation=(2, 1), stride=(1, 2)),
        conv(last=True, taps=(3, 3), stride=2, pre_padding=(1, 0), post_padding=(0, 2)),
        conv(taps=(1, 1), filters=33, conv_mode="convolution"),
        conv("bfloat16", padding=(1, 2), stride=(1, 2)),
        conv("half", last=True, pre_padding=(1, 0), post_padding=(0, 2)),
        conv(groups=3, filters=9, padding=(1, 2), dilation=(2, 1), stride=(1, 2)),
        conv("bfloat16", groups=2, last=True, pre_padding=(1, 0), post_padding=(0, 2)),
        conv("half", groups=6, filters=12, taps=(1, 1), conv_mode="convolution"),
    ],
    ("conv_fprop", "kn2row"): [
        conv(padding=(1, 2), dilation=(2, 1), stride=(1, 2)),
        conv(last=True, taps=(3, 5), stride=2, pre_padding=(1, 0), post_padding=(0, 2)),
        conv(taps=(7, 7), filters=1, padding=6),
        conv(last=True, filters=17, padding=(2, 1), conv_mode="convolution"),
        conv("bfloat16", padding=(1, 2), stride=(1, 2)),
        conv("half", last=True, pre_padding=(1, 0), post_padding=(0, 2)),
    ],
    ("conv_fprop", "direct_nhwc"): [
        conv(padding=(1, 2), dilation=(2, 1), stride=(1, 2)),
        conv(last=True, taps=(3, 5), stride=2, pre_padding=(1, 0), post_padding=(0, 2), samples=1),
        conv(taps=(7, 7), filters=33, channels=65, padding=3, samples=1),  # panels
        conv(last=True, filters=33, taps=(7, 7), channels=65, padding=3, stride=(3, 2)),
        conv(filters=1, pre_padding=(5, 9), post_padding=(0, 4), samples=1),  # rows of padding
        conv(last=True, filters=17, padding=(2, 1), conv_mode="convolution"),
        conv(last=True, filters=16, channels=16, samples=3, taps=(7, 7), padding=(0, 2)),
        conv("bfloat16", padding=(1, 2), stride=(1, 2), conv_mode="convolution"),
        conv("half", last=True, pre_padding=(1, 0), post_padding=(0, 2)),
        conv(groups=3, filters=9, padding=(1, 2), dilation=(2, 1), stride=(1, 2)),
        conv("bfloat16", groups=2, last=True, pre_padding=(1, 0), post_padding=(0, 2)),
        conv("half", groups=2, filters=2, stride=(2, 3), padding=1, conv_mode="convolution"),
        conv(groups=3, filters=21, samples=1, last=True, padding=(2, 1), conv_mode="convolution"),
        conv(groups=2, filters=50, channels=130, taps=(7, 7), samples=1, padding=3),  # panels
        conv(groups=5, filters=80, channels=15, last=True, taps=(3, 3), stride=2, padding=1),
        conv(groups=6, filters=66, last=True, padding=(1, 0)),  # a vector and a rest
        conv("bfloat16", groups=6, filters=12, taps=(1, 1), samples=1),
        conv(groups=4, filters=4, channels=12, last=True, taps=(1, 1), stride=2, samples=1),
        conv("half", groups=2, filters=34, taps=(7, 7), samples=1),  # one column
        conv(groups=3, filters=9, taps=(9, 1), last=True, padding=(0, 2), stride=(1, 3)),  # a row
    ],
    ("conv_fprop", "winograd"): [
        conv(taps=(3, 3), padding=1),
        conv("half", taps=(3, 3), last=True, pre_padding=(0, 2), post_padding=(1, 0)),
    ],
    ("conv_fprop", "img2col"): [conv(last=True, padding=1)],
    ("conv_fprop", "shifted_sum"): [conv(groups=6, filters=6, last=True, padding=1, stride=(1, 2))],
    ("conv_fprop", "channels_last"): [
        conv("half", groups=6, filters=6, last=True, padding=(2, 1), stride=(1, 2)),
        conv("bfloat16", groups=6, filters=6, taps=(3, 5), pre_padding=(1, 0), post_padding=(0, 3)),
        conv("double", groups=6, filters=6, dilation=(2, 1), conv_mode="convolution"),
    ],
    ("conv_fprop", "per_group"): [conv("bfloat16", groups=2, padding=1, stride=2)],
    ("conv_fprop", "plain"): [conv("half", groups=2, last=True, padding=1)],
    ("conv_dgrad", "flipped"): [dgrad("half", last=True)],
    ("conv_dgrad", "gemm_col2im"): [
        dgrad(),
        dgrad("half", last=True, stride=(3, 1), dilation=(2, 3), padding=(2, 0)),
        dgrad(stride=(4, 5), conv_mode="convolution"),
    ],
    ("conv_dgrad", "phases"): [
        dgrad(groups=3),
        dgrad("bfloat16", last=True, groups=2, conv_mode="convolution"),
        dgrad("half", last=True, groups=2, stride=(3, 1), dilation=(2, 3), padding=(2, 0)),
        dgrad(groups=2, stride=(2, 4), dilation=(2, 2)),  # phases that meet nothing
        dgrad(groups=2, stride=(4, 2), conv_mode="convolution"),
    ],
    ("conv_dgrad", "transposed"): [dgrad()],
    ("conv_dgrad", "channels_last"): [
        depthwise("conv_dgrad", last=True),
        depthwise("conv_dgrad", "half", conv_mode="convolution"),
    ],
    ("conv_dgrad", "plain"): [dgrad(last=True)],
    ("conv_wgrad", "gemm"): [wgrad()],
    ("conv_wgrad", "correlated"): [wgrad("bfloat16")],
    ("conv_wgrad", "blocked"): [wgrad(), wgrad("bfloat16")],
    ("conv_wgrad", "exchanged"): [wgrad(stride=1), wgrad("half", stride=1)],
    ("conv_wgrad", "channels_last"): [
        depthwise("conv_wgrad", last=True),
        depthwise("conv_wgrad", "bfloat16", dilation=(2, 1)),
    ],
    ("conv_wgrad", "plain"): [wgrad()],
    ("matmul", "gemm"): [matmul()],
    ("matmul", "untiled"): [
        product(1, 1, 37, 29, second="columns"),
        product(1, 1, 300, 77),
        product(1, 35, 1, 83, first="columns"),
        product(3, 2, 19, 33, second="columns"),
        product(2, 17, 5, 7, first="columns"),
    ],
    ("matmul", "blocked"): [
        product(2, 17, 49, 67, second="columns"),  # half a panel, and 32 columns and one
        product(1, 300, 64, 1025),  # blocks of m and of k, with rests
        product(3, 9, 31, 257, first="columns"),
        product(1, 1, 1, 7),
        product(1, 5, 128, 1, second="columns"),
    ],
    ("matmul", "dots"): [
        product(2, 3, 49, 68, second="columns"),  # vectors of 4
        product(1, 17, 97, 96, second="columns"),  # rests of rows and of columns
        product(3, 31, 9, 40, first="columns"),
        product(1, 1, 37, 16, second="columns"),  # one step
        product(1, 13, 1, 64, second="columns"),
        product(1, 1, 1, 4),
        product(2, 3, 49, 68, second="columns", kind="bfloat16"),
        product(1, 97, 3, 73, second="columns", kind="bfloat16"),  # the left operand is larger
    ],
    ("matmul", "split_k"): [row_times_matrix()],
    ("matmul", "rows"): [
        product(2, 3, 157, 43),  # rests of columns and of steps
        product(1, 9, 2060, 24),  # of rows, and several blocks
        product(1, 1, 1031, 513, first="columns"),  # a step more
        product(3, 5, 7, 3, second="columns"),
        product(1, 1, 1, 1),
        product(1, 4, 64, 9),
        product(2, 3, 157, 43, kind="bfloat16"),
        product(1, 1, 1031, 513, first="columns", kind="bfloat16"),
    ],
    ("matmul", "plain"): [matmul()],
    ("moe_grouped_matmul", "plain"): [experts(), experts("scatter")],
    ("moe_grouped_matmul", "blocks"): [experts("scatter"), experts("gather")],
    ("moe_grouped_matmul_bwd", "plain"): [experts_gradient()],
    ("moe_grouped_matmul_bwd", "blocks"): [experts_gradient()],
    ("sdpa", "composite"): [attention()],
    ("sdpa_backward", "plain"): [attention_gradient()],
    ("sdpa_backward", "blocked"): [
        attention_gradient(),
        attention_gradient("half", heads=6, queries=37, keys=65, depth=24),
        attention_gradient("bfloat16", heads=4, queries=1, keys=1031),
        attention_gradient(queries=530, keys=530, depth=16),  # too large to be read by columns
    ],
    ("sdpa", "blocked"): [
        attention(heads=3, keys=1031),  # blocks of keys, with rests
        attention(),
        attention("half", keys=16, values=33, generate_stats=True),
        attention("bfloat16", heads=3, keys=1, values=1),
        attention("bfloat16", heads=3, queries=1, keys=1031, values=7),  # as few rows
        attention(heads=5, queries=2, keys=77, values=33, generate_stats=True),
        attention("half", queries=3, keys=512, depth=120),
    ],
    ("sdpa", "fused"): [attention()],
    ("sdpa", "plain"): [attention()],
}


def lowered(graph: FrozenGraph, strategy: str) -> str:
    return lower_graph(graph, CPU, plan_code(graph, CPU, [strategy]))


def test_no_strategy_is_forgotten() -> None:
    assert set(CASES) == {(op, one.name) for op, known in tables().items() for one in known.table}


@pytest.mark.parametrize(
    ("op", "name", "graph"),
    [
        pytest.param(op, name, graph, id=f"{op}-{name}-{i}", marks=[pytest.mark.full] if i else [])
        for (op, name), graphs in CASES.items()
        for i, graph in enumerate(graphs)
    ],
)
def test_numbers(op: str, name: str, graph: FrozenGraph, check: Check) -> None:
    with scope(compiler_strategies=f"{op}={name}"):
        check(graph)


@pytest.mark.parametrize("strategy", ["direct_nhwc", "blocked", "row_im2col", "per_group"])
@pytest.mark.parametrize("last", [False, True])
def test_what_is_infinite_in_one_group_stays_there(strategy: str, *, last: bool) -> None:
    graph = Graph("conv", io_data_type="float")
    x = image(graph, (2, 6, 9, 7), "x", last)
    w = graph.tensor(dims=(6, 2, 3, 3), name="w")
    y = graph.conv_fprop(x, w, padding=1).set_output()
    rng = np.random.default_rng(3)
    given = {each.uid: rng.standard_normal(each.dims, dtype=np.float32) for each in (x, w)}
    given[x.uid][:, 2:4] = np.inf
    with scope(compiler_strategies=f"conv_fprop={strategy}"):
        found = np.asarray(graph.build("cpu").run(given, copy=True)[y.uid])
    assert np.isfinite(found[:, [0, 1, 4, 5]]).all()
    assert not np.isfinite(found[:, [2, 3]]).all()


@pytest.mark.parametrize(
    ("dx", "w", "stride", "padding"),
    [
        ((2, 18, 7, 1), (6, 9, 1, 1), (3, 2), (1, 0)),
        ((1, 27, 1, 1, 14), (6, 9, 1, 1, 1), (2, 1, 1), (2, 2, 0)),
        ((1, 10, 7), (5, 2, 1), (2,), (0,)),
    ],
)
def test_phases_of_one_position(
    dx: tuple[int, ...],
    w: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    check: Check,
) -> None:
    """A slice of the filter with a step made code that the compiler refused."""
    graph = Graph("dgrad", io_data_type="half", compute_data_type="float")
    sizes = zip(dx[2:], stride, padding, strict=True)
    out = [(n + 2 * pad - 1) // step + 1 for n, step, pad in sizes]
    dy = graph.tensor(dims=(dx[0], w[0], *out), name="dy")
    filter = graph.tensor(dims=w, name="w")
    graph.conv_dgrad(dy, filter, dx_dims=dx, stride=stride, padding=padding).set_output()
    assert choose(graph.freeze(), CPU) == ("phases",)
    check(graph.freeze())


@pytest.mark.parametrize("groups", [2, 5])
def test_rows_of_groups_of_one_square_image(groups: int, check: Check) -> None:
    """Most elements were wrong where the patches were gathered while they are packed (W-098)."""
    graph = Graph("square", io_data_type="float")
    x = graph.tensor(dims=(1, 7 * groups, 7, 7), name="x")
    w = graph.tensor(dims=(6 * groups, 7, 5, 5), name="w")
    graph.conv_fprop(x, w, padding=2).set_output()
    with scope(compiler_strategies="conv_fprop=row_im2col"):
        check(graph.freeze())


def test_norms_between_products_compile(check: Check) -> None:
    """Fused with the packing of tiles, rows of 512 made vectors that are refused (W-011)."""
    graph = Graph("norm", io_data_type="float")
    x, w = graph.tensor(dims=(64, 96), name="x"), graph.tensor(dims=(96, 512), name="w")
    scale, bias = (graph.tensor(dims=(1, 512), name=name) for name in ("scale", "bias"))
    y = graph.layernorm(graph.matmul(x, w), scale, bias).y
    graph.matmul(y, graph.tensor(dims=(512, 64), name="v")).set_output()
    check(graph.freeze())


@pytest.mark.parametrize("strategy", ["blocked", "dots", "rows"])
def test_weights_that_are_transposed_by_a_node(strategy: str, check: Check) -> None:
    graph = Graph("linear", io_data_type="float")
    w = graph.transpose(graph.tensor(dims=(49, 68), name="w"), permutation=(1, 0))
    y = graph.matmul(graph.tensor(dims=(3, 68), name="x"), w)
    graph.relu(graph.add(y, graph.tensor(dims=(1, 49), name="b"))).set_output()
    with scope(compiler_strategies=f"matmul={strategy}"):
        check(graph.freeze())


def test_samples_are_side_by_side_in_one_matmul(check: Check) -> None:
    """Odd channels, filters of one position, what follows and a sum along the channels."""
    graph = Graph("side by side", io_data_type="float")
    x, w = graph.tensor(dims=(3, 37, 5, 9), name="x"), graph.tensor(dims=(21, 37, 1, 1), name="w")
    y = graph.conv_fprop(x, w, stride=(1, 2), padding=(0, 1))
    y = graph.relu(graph.add(y, graph.tensor(dims=(1, 21, 1, 1), name="b")))
    y.set_output()
    graph.reduction(y, mode="add", axes=[1]).set_output()
    with scope(compiler_strategies="conv_fprop=im2col_gemm"):
        assert samples_side_by_side(CPU, 21, 37)
        check(graph.freeze())


@pytest.mark.full
@pytest.mark.parametrize("strategy", ["row_im2col", "blocked", "kn2row"])
def test_images_are_computed_one_by_one_when_there_is_much_to_join(
    strategy: str, check: Check
) -> None:
    graph = Graph("many", io_data_type="float")
    x = graph.tensor(dims=(3, 16, 70, 70), name="x")
    graph.conv_fprop(x, graph.tensor(dims=(8, 16, 3, 3), name="w"), stride=1).set_output()
    with scope(compiler_strategies=f"conv_fprop={strategy}"):
        check(graph.freeze())


@pytest.mark.parametrize("strategy", sorted(REVERSING))
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("groups", [1, 2])
def test_patches_are_gathered_in_reverse_for_a_reversed_filter(
    strategy: str, groups: int, check: Check, *, last: bool
) -> None:
    if groups > 1 and strategy in ("im2col_gemm", "kn2row"):
        pytest.skip("of one group")
    more = {"padding": (1, 2), "dilation": (2, 1), "stride": (1, 2), "conv_mode": "convolution"}
    graph = conv(groups=groups, filters=10, last=last, taps=(3, 4), **more)
    assert "aten.flip" not in lowered(graph, f"conv_fprop={strategy}")
    assert "aten.flip" in lowered(graph, "conv_fprop=direct")
    with scope(compiler_strategies=f"conv_fprop={strategy}"):
        check(graph)


@pytest.mark.parametrize("strategy", [*sorted(REVERSING), "direct"])
@pytest.mark.parametrize("mode", ["cross_correlation", "convolution"])
@pytest.mark.parametrize("last", [False, True])
def test_data_gradients_gather_patches_in_reverse(
    strategy: str,
    mode: str,
    check: Check,
    monkeypatch: pytest.MonkeyPatch,
    *,
    last: bool,
) -> None:
    """Whatever the rule would choose for the convolution of dy."""
    monkeypatch.setattr(dgrad_flipped, "forward_strategy", lambda _: strategy)
    graph = dgrad(last=last, stride=(1, 2), dilation=(2, 1), conv_mode=mode)
    with scope(compiler_strategies="conv_dgrad=flipped", cache_mode="off"):
        reversed_copy = strategy == "direct" and mode == "cross_correlation"
        assert ("aten.flip" in lowered(graph, "conv_dgrad=flipped")) == reversed_copy
        check(graph)


@pytest.mark.parametrize("rows", [1, 37, 64])
def test_attention_between_matmuls_that_have_tiles(rows: int, check: Check) -> None:
    """Tiled batches beside the division of their rows mixed up heads (W-005)."""
    graph = Graph("block", io_data_type="float")
    x = graph.tensor(dims=(rows, 96), name="x")
    q, k, v = (graph.matmul(x, graph.tensor(dims=(96, 96), name=f"w{n}")) for n in "qkv")
    heads = [
        graph.transpose(graph.reshape(y, dim=(1, rows, 6, 16)), permutation=(0, 2, 1, 3))
        for y in (q, k, v)
    ]
    o = graph.sdpa(*heads).o
    o = graph.reshape(graph.transpose(o, permutation=(0, 2, 1, 3)), dim=(rows, 96))
    graph.matmul(o, graph.tensor(dims=(96, 96), name="wo")).set_output()
    with scope(compiler_strategies="sdpa=blocked,matmul=gemm"):
        check(graph.freeze())


@pytest.mark.parametrize("strategy", ["gemm", "untiled", "blocked", "dots", "rows"])
@pytest.mark.parametrize("kind", ["bfloat16", "float"])
@pytest.mark.parametrize(("first", "second"), [("rows", "columns"), ("columns", "rows")])
def test_operands_that_are_converted_first_have_every_strategy(
    strategy: str, kind: str, first: str, second: str, check: Check
) -> None:
    """On a CPU without instructions for bfloat16, whose products are those of float32 (W-151).

    With them every one but `untiled`, whose flag is the whole graph's: our own tiles are float32.
    """
    graph = product(2, 19, 33, 20, first=first, second=second, kind=kind)
    assert strategy in choices(graph, Target.parse("cpu:znver3"))["matmul"].names
    assert (strategy in choices(graph, Target.parse("cpu:znver5"))["matmul"].names) == (
        kind == "float" or strategy != "untiled"
    )
    if strategy in choices(graph, CPU)["matmul"].names:
        with scope(compiler_strategies=f"matmul={strategy}"):
            check(graph)


def test_what_float32_does_not_hold_is_not_multiplied_in_it() -> None:
    for kind in ("double", "int8", "fp8_e4m3", "half"):
        graph = product(1, 9, 16, 24, kind=kind)
        assert "blocked" not in choices(graph, Target.parse("cpu:znver3"))["matmul"].names, kind
