# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The code plan: decided once per build, without torch-mlir, and the emitter follows it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hipdnn_iree import Graph, Target
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.graph_api.layout import channels_last_strides
from hipdnn_iree.jit import stages
from hipdnn_iree.jit.code_plan import CodePlan, plan_code
from hipdnn_iree.jit.lowering.module import lower_graph
from hipdnn_iree.jit.ops import info
from hipdnn_iree.jit.strategies import default_strategies
from under_settings import cache_key

CPU, GFX942 = Target.parse("cpu"), Target.parse("gfx942")


def mixed(name: str = "conv", **options: Any) -> FrozenGraph:
    """Return a channels-first input with a channels-last filter, and a ReLU."""
    graph = Graph(name, io_data_type="half", compute_data_type="float")
    x = graph.tensor(dims=(2, 8, 9, 7), name=f"{name} x")
    w = graph.tensor(dims=(6, 8, 3, 3), strides=channels_last_strides((6, 8, 3, 3)))
    graph.relu(graph.conv_fprop(x, w, **{"padding": 1, **options})).set_output()
    return graph.freeze()


def test_what_a_plan_says() -> None:
    plan = plan_code(mixed(stride=2), GFX942)
    assert plan.nodes[0].strategy == "direct"
    assert plan.nodes[0].workarounds == ("W-050",)
    assert plan.flags == ()
    flag = plan_code(mixed(), GFX942).flag_plans[0]
    assert (flag.flag, flag.reason) == (
        "--iree-codegen-llvmgpu-use-direct-convolution",
        "W-050",
    )
    asked = plan_code(mixed(), CPU, ["conv_fprop=img2col"])
    assert asked.flag_plans[-1].reason == "conv_fprop=img2col"


def test_the_text_has_no_name_of_the_users() -> None:
    first, second = (plan_code(mixed(name, stride=2), GFX942) for name in ("one", "two"))
    assert first.text == second.text == "n0 conv_fprop strategy=direct workarounds=W-050"
    assert "one" not in first.text


def test_the_plan_is_in_the_key() -> None:
    key = cache_key(mixed(stride=2), GFX942).ingredients
    assert key["plan"] == plan_code(mixed(stride=2), GFX942).text


def test_the_emitter_follows_the_plan() -> None:
    graph = mixed(stride=2)
    plan = plan_code(graph, GFX942)
    assert "aten.cat" in lower_graph(graph, GFX942, plan)
    bare = replace(plan, nodes=tuple(replace(node, workarounds=()) for node in plan.nodes))
    assert "aten.cat" not in lower_graph(graph, GFX942, bare)


def test_the_strategy_is_chosen_once_in_a_build(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Counter[str] = Counter()
    planned: list[CodePlan] = []
    known = info("conv_fprop")
    assert known.strategies is not None
    rule = known.strategies.rule

    def counted(context: Any) -> str:
        asked["rule"] += 1
        return rule(context)

    def plans(*args: Any) -> CodePlan:
        planned.append(plan_code(*args))
        return planned[-1]

    counting = replace(known, strategies=known.strategies._replace(rule=counted))
    monkeypatch.setattr(sys.modules["hipdnn_iree.jit.ops.conv_fprop"], "INFO", counting)
    monkeypatch.setattr(stages, "plan_code", plans)
    info.cache_clear()
    default_strategies.cache_clear()
    try:
        graph = Graph("once", io_data_type="float")
        x, w = graph.tensor(dims=(1, 3, 5, 5)), graph.tensor(dims=(2, 3, 3, 3))
        graph.conv_fprop(x, w).set_output()
        graph.build("cpu", engine="iree")
    finally:
        info.cache_clear()
        default_strategies.cache_clear()
    assert asked == {"rule": 1}
    assert len(planned) == 1


def test_planning_needs_neither_torch_mlir_nor_the_compiler() -> None:
    code = (
        "import sys, hipdnn_iree as h\n"
        "from hipdnn_iree.jit.code_plan import plan_code\n"
        "g = h.Graph('g', io_data_type='half', compute_data_type='float')\n"
        "x, w = g.tensor(dims=(2, 8, 9, 7)), g.tensor(dims=(6, 8, 3, 3))\n"
        "g.conv_fprop(x, w).set_output()\n"
        "for target in ('cpu', 'gfx950', 'cuda:sm_80'):\n"
        "    plan_code(g.freeze(), h.Target.parse(target))\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('torch_mlir', 'iree', 'numpy')])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_plan_as_json_and_in_words() -> None:
    graph = mixed(stride=2)
    plan = plan_code(graph, GFX942)
    about = json.loads(json.dumps(plan.as_dict(graph)))
    assert about["nodes"][0]["strategy"] == "direct"
    assert about["workarounds"][0]["id"] == "W-050"
    assert any("W-050" in line for line in plan.lines(graph))
