# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategies: what fits, what is chosen by rule or by name, and that the cache knows it."""

from __future__ import annotations

from typing import Any

import pytest
from here_and_now import engine
from hipdnn_iree import Graph, Target
from hipdnn_iree.graph_api.constants import hold
from hipdnn_iree.graph_api.errors import SettingError
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.graph_api.layout import channels_last_strides
from hipdnn_iree.jit.code_plan import plan_code
from hipdnn_iree.jit.cpu_machine import cpu_machine
from hipdnn_iree.jit.node_context import GraphContext, NodeContext
from hipdnn_iree.jit.ops.conv_cost import samples_side_by_side
from hipdnn_iree.jit.ops.rows import rows
from hipdnn_iree.jit.ops.split_k import split_of
from hipdnn_iree.jit.settings import scope, settings
from hipdnn_iree.jit.strategies import choices, choose, merged, tables
from under_settings import cache_key, flags, target_flags

CPU, GPU = Target.parse("cpu"), Target.parse("gfx942")
XEON, ZEN5, ZEN3 = (Target.parse(f"cpu:{cpu}") for cpu in ("sapphirerapids", "znver5", "znver3"))


def conv(
    c: int = 32,
    k: int = 32,
    size: int = 32,
    taps: int = 3,
    groups: int = 1,
    n: int = 1,
    last: bool = False,
    **more: Any,
) -> FrozenGraph:
    graph = Graph("conv", io_data_type="float")
    dims = (n, c, size, size)
    x = graph.tensor(dims=dims, strides=channels_last_strides(dims) if last else None, name="x")
    w = graph.tensor(dims=(k, c // groups, taps, taps), name="w")
    graph.conv_fprop(x, w, padding=taps // 2, **more).set_output()
    return graph.freeze()


@pytest.mark.parametrize(
    ("graph", "strategy"),
    [
        (conv(), "direct_nhwc"),
        (conv(stride=2), "direct_nhwc"),
        (conv(c=3, k=64, size=64, taps=7, stride=2), "direct_nhwc"),
        (conv(c=16, k=64, size=64, taps=7, stride=2), "direct_nhwc"),
        (conv(c=300, k=2), "kn2row"),
        (conv(c=15, k=1024, taps=1, stride=2), "img2col"),
        (conv(taps=1), "blocked"),
        (conv(taps=1, n=2), "blocked"),
        (conv(c=512, k=2048, size=7, taps=1, last=True), "direct"),
        (conv(c=3, k=5, size=7, taps=1), "direct"),
        (conv(c=64, k=128, taps=1, stride=2), "im2col_gemm"),
        (conv(size=4), "img2col"),
        (conv(groups=32), "shifted_sum"),
        (conv(groups=4), "direct_nhwc"),
        (conv(compute_data_type="double"), "img2col"),
    ],
)
def test_rules_for_the_cpu(graph: FrozenGraph, strategy: str) -> None:
    assert choose(graph, ZEN5) == (strategy,)
    assert choose(graph, GPU) == ("direct",)
    assert choices(graph, ZEN5)["conv_fprop"].default == strategy


@pytest.mark.parametrize(
    ("groups", "stride", "target", "strategy"),
    [
        (4, 2, ZEN5, "phases"),
        (4, 2, GPU, "flipped"),
        (4, 1, ZEN5, "flipped"),
        (4, 4, ZEN5, "flipped"),  # 16 convolutions
        (32, 2, ZEN5, "channels_last"),
    ],
)
def test_strided_data_gradients_of_groups_are_convolved_by_phase(
    groups: int, stride: int, target: Target, strategy: str
) -> None:
    """32 groups of 4, 56x56, stride 2: 1.5 ms with zeros between the elements of dy, 0.9 (Xeon)."""
    graph = Graph("dgrad", io_data_type="float")
    dy = graph.tensor(dims=(1, 32, 56 // stride, 56 // stride))
    w = graph.tensor(dims=(32, 32 // groups, 3, 3))
    graph.conv_dgrad(dy, w, dx_dims=(1, 32, 56, 56), padding=1, stride=stride).set_output()
    assert choose(graph.freeze(), target) == (strategy,)


def test_large_filters_of_volumes_are_gathered() -> None:
    """One op took 103 ms on a Xeon, blocks 8 (3 channels of 16x56x56, 7x7x7, stride 2)."""
    graph = Graph("conv", io_data_type="float")
    x, w = graph.tensor(dims=(1, 3, 16, 56, 56)), graph.tensor(dims=(64, 3, 7, 7, 7))
    graph.conv_fprop(x, w, padding=3, stride=2).set_output()
    assert choose(graph.freeze(), XEON) == ("blocked",)


def matmul(m: int, n: int, k: int, *, columns: bool = False, kind: str = "float") -> Graph:
    """c = a · b; with ``columns`` the columns of b lie in one piece each, as a layer's weights."""
    graph = Graph("matmul", io_data_type=kind, compute_data_type="float")
    a = graph.tensor(dims=(m, k), name="a")
    b = graph.tensor(dims=(k, n), strides=(1, k) if columns else (n, 1), name="b")
    graph.matmul(a, b).set_output()
    return graph


@pytest.mark.parametrize(
    ("m", "n", "k", "columns", "strategy"),
    [
        (1, 4096, 4096, True, "untiled"),
        (1, 4096, 4097, True, "dots"),
        (1, 4096, 4096, False, "untiled"),
        (1, 1000, 512, True, "untiled"),
        (4096, 1, 4096, False, "rows"),
        (4, 4096, 1024, True, "dots"),
        (8, 1024, 1024, False, "rows"),
        (32, 1024, 1024, False, "blocked"),
        (2, 60, 2048, False, "rows"),
        (1, 64, 64, False, "untiled"),
        (16, 2048, 2048, True, "dots"),
        (1, 2333, 407, False, "rows"),
        (1, 82, 1968, True, "untiled"),
        (1, 1858, 494, True, "dots"),
        (1900, 1, 879, False, "rows"),
        (4, 851, 543, False, "rows"),  # 0.05 ms; 0.20 with tiles
        (5, 569, 453, True, "gemm"),
        (16, 2048, 2048, False, "rows"),  # 1.23 ms; 1.33 in blocks
        (16, 1000, 512, True, "dots"),
        (64, 768, 768, False, "blocked"),  # 0.83 ms; 0.88 with tiles
        (49, 512, 4608, False, "blocked"),
        (685, 32, 2227, True, "blocked"),
        (34, 606, 4096, True, "dots"),
        (34, 606, 4095, True, "blocked"),
        (431, 16, 160, True, "blocked"),
        (8, 3000, 4001, False, "rows"),
        (1024, 1024, 1024, True, "blocked"),
        (1024, 1024, 1024, False, "blocked"),  # 15.9 ms; 18.7 with tiles
    ],
)
def test_a_matmul_is_packed_where_that_pays(
    m: int, n: int, k: int, columns: bool, strategy: str
) -> None:
    graph = matmul(m, n, k, columns=columns).freeze()
    assert choose(graph, XEON) == (strategy,)
    assert choose(graph, GPU)[0] in ("gemm", "split_k")
    (node,) = plan_code(graph, XEON).nodes
    assert strategy == min(node.costs, key=lambda name: node.costs[name])
    off = "--iree-dispatch-creation-data-tiling=false"
    assert (off in plan_code(graph, XEON).flags) == (strategy == "untiled")


def test_blocks_are_of_rows_that_lie_in_one_piece() -> None:
    graph = matmul(128, 256, 4096).freeze()
    assert choose(graph, XEON) == ("blocked",)
    turned = Graph("turned", io_data_type="float")
    a = turned.tensor(dims=(128, 4096), strides=(1, 128), name="a")
    turned.matmul(a, turned.tensor(dims=(4096, 256), name="b")).set_output()
    lies, across = (plan_code(g, XEON).nodes[0].costs for g in (graph, turned.freeze()))
    assert lies["blocked"] < across["blocked"]
    assert lies["gemm"] > across["gemm"]


@pytest.mark.parametrize(("strategy", "columns"), [("blocked", False), ("dots", True)])
def test_rows_of_several_matrices_are_those_of_one(strategy: str, columns: bool) -> None:
    graph = Graph("batch", io_data_type="float")
    a, strides = graph.tensor(dims=(4, 64, 1680), name="a"), (67200, 40, 1)
    if columns:
        strides = (67200, 1, 1680)
    b = graph.tensor(dims=(1, 1680, 40), strides=strides, name="b")
    graph.matmul(a, b).set_output()
    once = matmul(256, 40, 1680, columns=columns).freeze()
    costs = [plan_code(g, XEON).nodes[0].costs[strategy] for g in (graph.freeze(), once)]
    assert costs[0] == costs[1]


def test_dot_products_are_of_what_lies_along_the_depth() -> None:
    """What does not is transposed for them, as is what a node computes."""

    def dots(graph: Graph, node: int = 0) -> float:
        return plan_code(graph.freeze(), XEON).nodes[node].costs["dots"]

    lies = dots(matmul(4, 1024, 1024, columns=True))
    assert 2 * lies < dots(matmul(4, 1024, 1024))
    assert dots(matmul(1024, 4, 1024)) > dots(matmul(1024, 4, 1024, columns=True))
    computed = Graph("computed", io_data_type="float")
    b = computed.relu(computed.tensor(dims=(1024, 1024), strides=(1, 1024), name="b"))
    computed.matmul(computed.tensor(dims=(4, 1024), name="a"), b).set_output()
    assert 2 * lies < dots(computed, 1)


def linear(m: int, n: int, k: int, *, scaled: bool = False) -> Graph:
    """c = a · wᵀ as frontends write it: the weights are transposed by a node of their own."""
    graph = Graph("linear", io_data_type="float", compute_data_type="float")
    a, w = graph.tensor(dims=(m, k), name="a"), graph.tensor(dims=(n, k), name="w")
    turned = graph.transpose(w, permutation=(1, 0))
    graph.matmul(a, graph.relu(turned) if scaled else turned).set_output()
    return graph


@pytest.mark.parametrize(
    ("m", "n", "k"),
    [(1, 1000, 512), (4, 1024, 1024), (16, 2048, 2048), (685, 32, 2227), (49, 512, 4609)],
)
def test_a_transposed_argument_is_read_as_it_lies(m: int, n: int, k: int) -> None:
    """What is chosen, and why, is what it is for columns that lie in one piece each."""
    columns, graph = matmul(m, n, k, columns=True).freeze(), linear(m, n, k).freeze()
    names = [node.op.NAME for node in graph.nodes]
    assert choose(graph, XEON)[names.index("matmul")] == choose(columns, XEON)[0]
    (costs,) = (node.costs for node in plan_code(graph, XEON).nodes if node.costs)
    assert costs == plan_code(columns, XEON).nodes[0].costs


def test_what_is_computed_of_a_transposed_argument_is_by_rows() -> None:
    graph = linear(4, 1024, 1024, scaled=True).freeze()
    assert "dots" not in choose(graph, XEON)
    plain = linear(4, 1024, 1024).freeze()
    assert choose(plain, XEON)[-1] == "dots"
    assert choose(hold(plain, [plain.nodes[0].inputs["x"]]), XEON)[-1] == "gemm"


@pytest.mark.parametrize("name", ["cpu:x86-64", "cpu:x86-64-v3", "cpu:sapphirerapids"])
def test_sums_of_rows_fit_the_compiler_and_the_registers(name: str) -> None:
    """512 vectors of sums are refused when the code is made."""
    machine = cpu_machine(Target.parse(name))
    for m, n, k in ((1, 1, 1), (1, 4096, 4096), (4, 1031, 7), (11, 2050, 100), (16, 65536, 3)):
        tiles = rows(Target.parse(name), m, n, k)
        assert 4 * tiles.rows * tiles.block < 512 * machine.vector_bytes
        assert tiles.rows <= m
        assert tiles.steps <= k
        assert tiles.block in (n, tiles.block // tiles.columns * tiles.columns)
        assert tiles.rows * tiles.columns <= machine.registers * machine.lanes


def attention(heads: int, rows: int, keys: int, features: int, kind: str) -> FrozenGraph:
    graph = Graph("attention", io_data_type=kind, compute_data_type="float")
    q, k, v = (graph.tensor(dims=(1, heads, n, features)) for n in (rows, keys, keys))
    graph.sdpa(q, k, v).o.set_output()
    return graph.freeze()


@pytest.mark.parametrize(
    ("heads", "rows", "keys", "features", "kind", "strategy"),
    [
        # Zen 3, microseconds: composite, blocked.
        (12, 197, 197, 64, "float", "blocked"),  # 13,977, 4,178
        (12, 128, 128, 64, "float", "blocked"),  # 936, 945
        (8, 1500, 1500, 64, "float", "blocked"),  # 114,302, 66,209
        (8, 4096, 77, 40, "bfloat16", "blocked"),  # in float32 20,141, 13,535
        (32, 1, 512, 128, "float", "composite"),  # of 8 key heads 729, 989
        (8, 100, 80, 64, "double", "composite"),
    ],
)
def test_attention_is_multiplied_in_blocks_where_they_cost_less(
    heads: int, rows: int, keys: int, features: int, kind: str, strategy: str
) -> None:
    graph = attention(heads, rows, keys, features, kind)
    assert choose(graph, ZEN3) == (strategy,)
    assert choose(graph, GPU)[0] in ("fused", "composite")
    (node,) = plan_code(graph, ZEN3).nodes
    assert not node.costs or strategy == min(node.costs, key=lambda name: node.costs[name])


def test_heads_of_one_query_are_a_batch() -> None:
    """By themselves their keys are packed (Whisper's cross attention: 673 us on a Xeon, 180)."""
    assert choose(attention(8, 1, 1500, 64, "float"), XEON) == ("composite",)


def test_attention_beside_matmuls_leaves_them_tiles() -> None:
    """A batch that is not in blocks has none, and then nothing in the graph has (W-005)."""
    alone = attention(8, 1, 64, 32, "float")
    assert choose(alone, ZEN3) == ("composite",)
    graph = Graph("both", io_data_type="float", compute_data_type="float")
    q, k, v = (graph.tensor(dims=(1, 8, n, 32)) for n in (1, 64, 64))
    graph.sdpa(q, k, v).o.set_output()
    x, w = graph.tensor(dims=(64, 100)), graph.tensor(dims=(100, 50))
    graph.matmul(x, w).set_output()
    assert "composite" not in choose(graph.freeze(), ZEN3)


def test_the_attention_of_a_graph_has_one_strategy() -> None:
    graph = Graph("two", io_data_type="float", compute_data_type="float")
    for heads, keys in ((6, 167), (32, 1)):
        q, k, v = (graph.tensor(dims=(1, heads, n, 88)) for n in (178, keys, keys))
        graph.sdpa(q, k, v).o.set_output()
    assert len(set(choose(graph.freeze(), ZEN3))) == 1


def test_blocks_beside_what_has_tiles() -> None:
    graph = matmul(49, 512, 4608)
    w = graph.tensor(dims=(64, 8, 3, 3), name="w")
    graph.conv_fprop(graph.tensor(dims=(1, 8, 15, 15), name="x"), w).set_output()
    assert choose(graph.freeze(), XEON) == ("blocked", "direct_nhwc")


def test_estimates_are_told_but_are_not_in_the_key() -> None:
    graph = matmul(1, 4096, 4096, columns=True).freeze()
    plan = plan_code(graph, XEON)
    (told,) = plan.as_dict(graph)["nodes"]
    assert told["estimates_us"].keys() == {"gemm", "blocked", "dots", "rows", "untiled"}
    estimates = ", ".join(f"{name} {us:,.1f} us" for name, us in plan.nodes[0].costs.items())
    assert f"  estimates for one core: {estimates}" in plan.lines(graph)
    assert "estimate" not in plan.text
    depthwise = conv(groups=32)
    assert plan_code(depthwise, XEON).as_dict(depthwise)["nodes"][0]["estimates_us"] == {}


def test_a_constant_is_packed_once() -> None:
    graph = matmul(4, 1024, 1024, columns=True).freeze()
    assert choose(graph, XEON) == ("dots",)
    assert choose(hold(graph, [graph.nodes[0].inputs["b"]]), XEON) == ("gemm",)


@pytest.mark.parametrize(
    ("filters", "channels", "packed"),
    [(512, 2048, True), (256, 1024, True), (256, 64, False), (128, 512, False), (323, 328, True)],
)
def test_samples_are_packed_where_that_pays(filters: int, channels: int, packed: bool) -> None:
    assert samples_side_by_side(XEON, filters, channels) == packed


def test_the_estimate_knows_the_machine() -> None:
    # 6 MiB: more than the second cache of the one, far more than that of the other.
    graph, small = matmul(16, 1024, 1536).freeze(), matmul(16, 768, 1024).freeze()
    here, there = (plan_code(graph, target).nodes[0].costs["untiled"] for target in (XEON, ZEN5))
    assert here == there
    here, there = (plan_code(small, target).nodes[0].costs["untiled"] for target in (XEON, ZEN5))
    assert here < there


def test_tiles_are_left_out_for_the_whole_graph_only() -> None:
    # With halves, or with a convolution, everything is tiled; blocks need no tiles.
    large = matmul(1, 1000, 512, columns=True)
    large.matmul(
        large.tensor(dims=(512, 512), name="d"), large.tensor(dims=(512, 512), name="e")
    ).set_output()
    assert "gemm" in plan_code(large.freeze(), XEON).nodes[0].costs
    assert sorted(choose(large.freeze(), XEON)) == ["blocked", "untiled"]
    both = matmul(1, 1000, 512, columns=True)
    both.matmul(
        both.tensor(dims=(2, 64), name="d"), both.tensor(dims=(64, 9), name="e")
    ).set_output()
    assert choose(both.freeze(), XEON) == ("untiled", "untiled")
    mixed = matmul(1, 2048, 2048)
    w = mixed.tensor(dims=(8, 8, 3, 3), name="w")
    mixed.conv_fprop(mixed.tensor(dims=(1, 8, 9, 9), name="x"), w).set_output()
    for graph in (mixed.freeze(), matmul(1, 2048, 2048, kind="half").freeze()):
        assert "untiled" not in choose(graph, XEON)
        assert "untiled" not in choices(graph, XEON)["matmul"].names
        with pytest.raises(SettingError, match=r"matmul=|'untiled' of matmul"):
            choose(graph, XEON, ["matmul=untiled"])


def row_times_matrix(k: int, n: int, kind: str = "half", rows: int = 1, **more: Any) -> FrozenGraph:
    graph = Graph(io_data_type=kind, compute_data_type="float")
    graph.matmul(graph.tensor(dims=(rows, k)), graph.tensor(dims=(k, n), **more)).set_output()
    return graph.freeze()


@pytest.mark.parametrize(
    ("graph", "strategy"),
    [
        (row_times_matrix(4096, 6144), "split_k"),
        (row_times_matrix(4096, 6144, "float"), "split_k"),
        (row_times_matrix(768, 1000), "split_k"),
        (row_times_matrix(4096, 6144, rows=2), "gemm"),
        (row_times_matrix(256, 128), "gemm"),  # small
        (row_times_matrix(4099, 6144), "gemm"),  # a prime number
        (row_times_matrix(4096, 6144, strides=(1, 4096)), "gemm"),  # lanes read along k as it is
    ],
)
def test_a_row_times_a_matrix_on_gfx9(graph: FrozenGraph, strategy: str) -> None:
    assert choose(graph, GPU) == (strategy,)
    assert choose(graph, CPU) != ("split_k",)


def test_a_row_times_a_transposed_argument_on_gfx9() -> None:
    """It is read as it lies: by columns of the matrix, unless it lies by columns itself."""
    for strides, strategy in (((4096, 1), "gemm"), ((1, 6144), "split_k")):
        graph = Graph(io_data_type="half", compute_data_type="float")
        weights = graph.tensor(dims=(6144, 4096), strides=strides)
        graph.matmul(
            graph.tensor(dims=(1, 4096)), graph.transpose(weights, permutation=(1, 0))
        ).set_output()
        assert choose(graph.freeze(), GPU)[1:] == (strategy,)


def test_how_k_is_split() -> None:
    assert split_of(4096) == (4, 32, 32)
    assert split_of(768) == (1, 24, 32)
    assert split_of(1000) == (2, 20, 25)
    assert split_of(256) == (1, 8, 32)
    assert split_of(4099) is split_of(128) is split_of(37 * 32) is None


def test_every_rule_chooses_what_fits() -> None:
    from hipdnn_iree.provider.sweep.samples import sample_problems

    seen = set()
    for sample in sample_problems():
        graph = sample.graph(sample.dtypes[0]).freeze()
        for target in (CPU, GPU):
            for node, name in zip(graph.nodes, choose(graph, target), strict=True):
                if name:
                    context = NodeContext(GraphContext(graph, target), node)
                    assert tables()[node.op.NAME].named(name).fits(context)
                    seen.add((node.op.NAME, name))
    assert {op for op, _ in seen} == set(tables())


def test_tables_are_well_formed() -> None:
    for op, known in tables().items():
        names = [one.name for one in known.table]
        assert len(set(names)) == len(names), op
        assert "plain" in names
        assert all(one.help and one.why for one in known.table)


def test_the_setting_is_in_the_key_and_adds_flags() -> None:
    graph = conv()
    plain, usual = cache_key(graph, CPU), cache_key(graph, CPU)
    assert plain == usual
    with scope(compiler_strategies="conv_fprop=img2col"):
        assert settings().compiler_strategies == ("conv_fprop=img2col",)
        key = cache_key(graph, CPU)
        assert key != usual
        extra = [f for f in flags(graph, CPU) if "img2col" in f]
    assert len(extra) == 1
    assert not any("img2col" in f for f in target_flags(CPU))
    with scope(compiler_strategies="plain"):
        assert settings().compiler_strategies == ("all=plain",)
        assert cache_key(graph, CPU) not in (key, usual)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("conv_fprop=fastest", "allowed: auto | direct | row_im2col"),
        ("convolution=direct", "names 'convolution'; ops with strategies are conv_dgrad"),
        ("fastest", "strategy 'fastest' of all; allowed: plain | auto"),
        ("conv_fprop=shifted_sum", "does not fit node 'conv_fprop_0' for cpu .*depthwise"),
        ("conv_fprop=shifted_sum,sdpa=no", "strategy 'no' of sdpa"),
    ],
)
def test_wrong_strategies(text: str, said: str) -> None:
    graph = conv()
    with (
        scope(compiler_strategies=text),
        pytest.raises(SettingError, match=said.replace("|", r"\|")),
    ):
        cache_key(graph, CPU)


@pytest.mark.parametrize("text", ["a=b=c", "conv_fprop=", "=x", "sdpa=a,sdpa=b", "a-b"])
def test_what_is_no_strategy(text: str) -> None:
    with scope(), pytest.raises(SettingError, match="STRATEG"), scope(compiler_strategies=text):
        pass


def test_several_nodes_and_auto() -> None:
    graph = Graph("two", io_data_type="float")
    x = graph.tensor(dims=(1, 32, 32, 32), name="x")
    y = graph.conv_fprop(x, graph.tensor(dims=(32, 32, 3, 3), name="w1"), padding=1)
    graph.conv_fprop(y, graph.tensor(dims=(32, 32, 1, 1), name="w2")).set_output()
    frozen = graph.freeze()
    assert choose(frozen, ZEN5) == ("direct_nhwc", "blocked")
    choice = choices(frozen, ZEN5)["conv_fprop"]
    assert choice.default == choice.names[0] == "auto"
    assert "winograd" not in choice.names
    assert choose(frozen, CPU, ["conv_fprop=im2col_gemm"]) == ("im2col_gemm", "im2col_gemm")
    assert choose(frozen, ZEN5, ["conv_fprop=auto", "all=plain"]) == ("direct_nhwc", "blocked")
    assert choose(frozen, CPU, ["all=plain"]) == ("plain", "plain")


def test_engine_knobs_are_the_strategies_that_fit() -> None:
    graph = conv()
    knob = {k.name: k for k in engine("iree").knobs(graph, ZEN5)}["conv_fprop.strategy"]
    assert knob.default == "direct_nhwc"
    assert knob.choices == (
        "direct",
        "row_im2col",
        "im2col_gemm",
        "blocked",
        "kn2row",
        "direct_nhwc",
        "winograd",
        "img2col",
        "plain",
    )
    assert "plain" not in knob.tried
    with scope(compiler_strategies="plain"):
        knob = {k.name: k for k in engine("iree").knobs(graph, CPU)}["conv_fprop.strategy"]
    assert knob.default == "plain"
    with pytest.raises(SettingError, match="allowed: direct"):
        engine("iree").build(graph, CPU, {"conv_fprop.strategy": "shifted_sum"})


def test_strategies_are_merged() -> None:
    assert merged(["all=plain", "sdpa=fused"], {"sdpa": "plain", "matmul": "auto"}) == (
        "all=plain",
        "matmul=auto",
        "sdpa=plain",
    )
