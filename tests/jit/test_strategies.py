# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategies: what fits, what is chosen by rule or by name, and that the cache knows it."""

from __future__ import annotations

from typing import Any

import pytest
from here_and_now import engine
from hipdnn_iree import Graph, Target
from hipdnn_iree.graph_api.errors import SettingError
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.jit.node_context import GraphContext, NodeContext
from hipdnn_iree.jit.settings import scope, settings
from hipdnn_iree.jit.strategies import choices, choose, merged, tables
from under_settings import cache_key, flags, target_flags

CPU, GPU = Target.parse("cpu"), Target.parse("gfx942")


def conv(
    c: int = 32, k: int = 32, size: int = 32, taps: int = 3, groups: int = 1, **more: Any
) -> FrozenGraph:
    graph = Graph("conv", io_data_type="float")
    x = graph.tensor(dims=(1, c, size, size), name="x")
    w = graph.tensor(dims=(k, c // groups, taps, taps), name="w")
    graph.conv_fprop(x, w, padding=taps // 2, **more).set_output()
    return graph.freeze()


@pytest.mark.parametrize(
    ("graph", "strategy"),
    [
        (conv(), "row_im2col"),
        (conv(stride=2), "im2col_gemm"),
        (conv(c=3, k=64, size=64, taps=7, stride=2), "img2col"),
        (conv(c=16, k=64, size=64, taps=7, stride=2), "im2col_gemm"),
        (conv(c=15, k=1024, taps=1, stride=2), "im2col_gemm"),
        (conv(taps=1), "direct"),
        (conv(c=64, k=128, taps=1, stride=2), "im2col_gemm"),
        (conv(size=4), "direct"),
        (conv(groups=32), "shifted_sum"),
        (conv(groups=4), "per_group"),
        (conv(compute_data_type="double"), "direct"),
    ],
)
def test_rules_for_the_cpu(graph: FrozenGraph, strategy: str) -> None:
    assert choose(graph, CPU) == (strategy,)
    assert choose(graph, GPU) == ("direct",)
    assert choices(graph, CPU)["conv_fprop"].default == strategy


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
    assert choose(frozen, CPU) == ("row_im2col", "direct")
    choice = choices(frozen, CPU)["conv_fprop"]
    assert choice.default == choice.names[0] == "auto"
    assert "winograd" not in choice.names
    assert choose(frozen, CPU, ["conv_fprop=im2col_gemm"]) == ("im2col_gemm", "im2col_gemm")
    assert choose(frozen, CPU, ["conv_fprop=auto", "all=plain"]) == ("row_im2col", "direct")
    assert choose(frozen, CPU, ["all=plain"]) == ("plain", "plain")


def test_engine_knobs_are_the_strategies_that_fit() -> None:
    graph = conv()
    knob = {k.name: k for k in engine("iree").knobs(graph, CPU)}["conv_fprop.strategy"]
    assert knob.default == "row_im2col"
    assert knob.choices == ("direct", "row_im2col", "im2col_gemm", "winograd", "img2col", "plain")
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
