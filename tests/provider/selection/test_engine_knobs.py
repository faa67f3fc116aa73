# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The knob contract: what engines name, what they refuse, and what a plan remembers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from here_and_now import engine, engines
from hipdnn_iree import Graph, Target
from hipdnn_iree.graph_api.errors import NotSupportedError, SettingError
from hipdnn_iree.jit.settings import scope

CPU = Target.parse("cpu")


def product(m: int = 8) -> tuple[Graph, Any, Any, Any]:
    g = Graph("product", io_data_type="float")
    a, b = g.tensor(dims=(m, 16), name="a"), g.tensor(dims=(16, 8), name="b")
    return g, a, b, g.output(g.matmul(a, b), name="c")


def test_the_knobs_of_engines_have_defaults_that_are_choices() -> None:
    graph = product()[0].freeze()
    for target in ("cpu", "gfx942"):
        for entry in engines().values():
            found = entry.load().knobs(graph, Target.parse(target))
            assert len({k.name for k in found}) == len(found)
            for knob in found:
                assert knob.default in knob.choices, knob
                assert set(knob.tried) <= set(knob.choices), knob
                assert knob.help


def test_defaults_follow_the_settings_and_the_graph() -> None:
    graph = product()[0].freeze()
    found = {k.name: k.default for k in engine("iree").knobs(graph, CPU)}
    assert found["driver"] == "local-sync"
    assert found["data_tiling"] == "auto"
    with scope(runtime_driver="local-task", compiler_opt_level="O1"):
        found = {k.name: k.default for k in engine("iree").knobs(graph, CPU)}
    assert (found["driver"], found["opt_level"]) == ("local-task", "O1")


def test_a_plan_remembers_what_was_chosen() -> None:
    g, a, b, c = product()
    plan = g.build("cpu", engine="iree", knobs={"driver": "local-task", "data_tiling": "off"})
    assert plan.knobs == {"driver": "local-task", "data_tiling": "off"}
    assert plan.policy == "pinned"
    assert plan.driver == "local-task"  # type: ignore[attr-defined]
    other = plan.with_shapes({a: (5, 16)})
    assert (other.knobs, other.policy) == (plan.knobs, "pinned")
    assert other.driver == "local-task"  # type: ignore[attr-defined]
    given = np.ones((5, 16), np.float32), np.ones((16, 8), np.float32)
    np.testing.assert_array_equal(other.run({a: given[0], b: given[1]})[c.uid], 16.0)
    plain = g.build("cpu")
    assert (plain.knobs, plain.engine) == ({}, "IREE_JIT_ENGINE")


def test_dynamic_plans_keep_engine_and_knobs() -> None:
    g = Graph(io_data_type="float")
    x = g.tensor(dims=(g.dynamic("n", range=(2, 64)), 4), name="x")
    y = g.relu(x).set_output()
    for exact in (False, True):
        plan = g.build("cpu", engine="iree", knobs={"driver": "local-task"}, exact=exact)
        sized = plan.with_sizes({"n": 3})
        assert (sized.knobs, sized.policy) == ({"driver": "local-task"}, "pinned")
        assert sized.driver == "local-task"  # type: ignore[attr-defined]
        np.testing.assert_array_equal(sized.run({x: np.ones((3, 4), np.float32)})[y.uid], 1.0)


def test_a_plan_says_what_the_choice_of_its_engine_rests_on() -> None:
    g, a, _, _ = product()
    chosen = ("order", "the fixed order of engines")
    plan = g.build("cpu")
    assert (plan.policy, plan.why) == (plan.with_shapes({a: (5, 16)}).policy, plan.why) == chosen
    pinned = g.build("cpu", engine="iree")
    assert (pinned.policy, pinned.why) == ("pinned", "pinned")
    preferred = g.build("cpu", prefer="reference")
    assert (preferred.policy, preferred.why) == ("preferred", "asked for")
    sized = Graph(io_data_type="float")
    sized.relu(sized.tensor(dims=(sized.dynamic("n", range=(2, 64)), 4), name="x")).set_output()
    for how in ({}, {"exact": True}, {"buckets": (8, 64)}):
        whole = sized.build("cpu", **how)  # type: ignore[arg-type]
        for one in (whole, whole.with_sizes({"n": 3})):
            assert (one.policy, one.why) == chosen


@pytest.mark.parametrize(
    ("name", "knobs", "words"),
    [
        ("iree", {"color": "red"}, ("IREE_JIT_ENGINE", "'color'", "opt_level", "driver")),
        ("iree", {"driver": "hip"}, ("'driver'", "'hip'", "local-sync | local-task")),
        ("iree", {"driver": "local-tsk"}, ("'local-tsk'; did you mean 'local-task'?", "allowed: ")),
        ("iree", {"a": "1", "driver": "x"}, ("'a'", "'x'")),
        ("reference", {"driver": "local-sync"}, ("REFERENCE_ENGINE", "none for this graph")),
    ],
)
def test_unknown_knobs_are_refused(name: str, knobs: dict[str, str], words: tuple[str]) -> None:
    graph = product()[0].freeze()
    with pytest.raises(SettingError) as direct:
        engine(name).build(graph, CPU, knobs)
    with pytest.raises(SettingError) as pinned:
        product()[0].build("cpu", engine=name, knobs=knobs)
    for word in words:
        assert word in str(direct.value)
        assert word in str(pinned.value)


def test_knobs_that_no_engine_has() -> None:
    with pytest.raises(SettingError, match="no engine that serves the graph has the knobs"):
        product()[0].build("cpu", knobs={"color": "red"})


def test_pinning_is_strict_and_preferring_is_not() -> None:
    graph = product()[0]
    with pytest.raises(NotSupportedError, match="was pinned and declines"):
        graph.build("gfx942", engine="reference")
    preferred = graph.build("gfx942", prefer="reference")
    assert (preferred.engine, preferred.policy) == ("IREE_JIT_ENGINE", "order")
    served = graph.build("cpu", prefer=["reference"])
    assert (served.engine, served.policy) == ("REFERENCE_ENGINE", "preferred")
    with pytest.raises(SettingError, match="unknown engine 'nobody'"):
        graph.build("cpu", prefer="nobody")


def test_engines_are_found_by_alias_name_and_id() -> None:
    iree = engine("iree")
    number = iree.id
    assert engine("IREE_JIT_ENGINE") is iree
    assert engine(str(number)) is iree
    assert engine(f"0x{number % 2**64:016X}") is iree
    for name in ("", "0", "IREE", "0x"):
        with pytest.raises(SettingError, match="unknown engine"):
            engine(name)


def test_candidates_in_python() -> None:
    found = {c.engine.ALIAS: c for c in product()[0].plans("gfx942")}
    assert found["iree"].served
    assert not found["reference"].served
    assert {r.problem.rule for r in found["reference"].reasons} == {"REFERENCE-01"}
    assert found["reference"].knobs == ()
    with pytest.raises(NotSupportedError):
        found["reference"].build()
    plan = {c.engine.ALIAS: c for c in product()[0].plans()}["reference"].build()
    assert (plan.engine, plan.policy) == ("REFERENCE_ENGINE", "pinned")
