# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Policies: who ranks the engines, in what order, and what a pin and a preference do."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from here_and_now import choose, engine, own_engines, policy_names, ranking
from hipdnn_iree import Graph, Target
from hipdnn_iree.graph_api.errors import CompileError, GraphError, NotSupportedError, SettingError
from hipdnn_iree.jit.settings import scope, settings
from hipdnn_iree.provider.engine_ids import engine_id
from hipdnn_iree.provider.selection.cost import estimate
from hipdnn_iree.provider.selection.engine_rules import read_rules
from hipdnn_iree.provider.selection.match_key import match_keys
from hipdnn_iree.provider.selection.policies import HIPDNN_NAMES, POLICIES

pytestmark = pytest.mark.usefixtures("own_winners")

IREE = "IREE_JIT_ENGINE"


def conv() -> Graph:
    g = Graph("conv", io_data_type="float")
    x = g.tensor(dims=(1, 4, 8, 8), strides=(256, 1, 32, 4), name="x")
    w = g.tensor(dims=(8, 4, 3, 3), name="w")
    g.relu(g.conv_fprop(x, w, padding=(1, 1))).set_output()
    return g


def names(graph: Graph, **more: Any) -> list[str]:
    return [c.name for c in ranking(graph.freeze(), "cpu", **more)]


# ---------------------------------------------------------------------------- the list


def test_the_default_and_hipdnns_names() -> None:
    assert policy_names() == ("config", "tuned", "order")
    assert policy_names("autotune, order") == ("autotune", "order")
    assert policy_names("StaticOrdering") == ("order",)
    with scope(engine_policy="heuristic"):
        assert policy_names() == ("heuristic",)
    with pytest.raises(SettingError, match="no policy; known: config, tuned"):
        policy_names("fastest")
    with scope(engine_policy="fastest"), pytest.raises(SettingError, match="HIPDNN_IREE_POLICY"):
        policy_names()


def test_hipdnns_list_of_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    variable = "HIPDNN_HEUR_POLICY_ORDER"
    monkeypatch.setenv(variable, "SelectionHeuristic::StaticOrdering, Config")
    assert policy_names() == ("order", "config")
    monkeypatch.setenv(variable, "8780545043193714113,SomePlugin::Policy")  # Config's id
    assert policy_names() == ("config",)
    monkeypatch.setenv("HIPDNN_IREE_POLICY", "tuned,order")  # ours comes first
    assert policy_names() == ("tuned", "order")
    assert set(HIPDNN_NAMES.values()) <= set(POLICIES)


def test_no_policy_has_an_opinion() -> None:
    with pytest.raises(NotSupportedError, match="no policy of tuned,config chooses one"):
        choose(conv().freeze(), "cpu", policy="tuned,config")


# ---------------------------------------------------------------------------- order


def test_order(install: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    install(
        install.Engine("MIOPEN_ENGINE_DETERMINISTIC"),
        install.Engine("A_ENGINE"),
        install.Engine("MIOPEN_ENGINE"),
    )
    last = "MIOPEN_ENGINE_DETERMINISTIC"
    assert names(conv()) == ["MIOPEN_ENGINE", IREE, "A_ENGINE", last]
    hexadecimal = f"0x{engine_id(last) % 2**64:016X}"
    monkeypatch.setenv("HIPDNN_HEUR_FALLBACK_ENGINE_ORDER", f"{hexadecimal}, iree,NOBODY")
    assert names(conv()) == [last, IREE]
    monkeypatch.setenv("HIPDNN_HEUR_FALLBACK_ENGINE_ORDER", "NOBODY")
    with pytest.raises(NotSupportedError, match="SELECT-01") as caught:
        names(conv())
    assert {d.problem.rule for d in caught.value.declines} == {"SELECT-01"}
    assert names(conv(), engine_name="iree") == [IREE]  # a pin is stronger


def test_deselected_engines(install: Any) -> None:
    install(install.Engine("A_ENGINE"))
    with scope(engine_deselect="iree"):
        assert names(conv()) == ["A_ENGINE"]
        assert names(conv(), engine_name="iree") == [IREE]
    with (
        scope(engine_deselect=f"iree,{engine_id('A_ENGINE')}"),
        pytest.raises(NotSupportedError, match="without iree"),
    ):
        names(conv())


def test_the_reference_is_never_among_them() -> None:
    assert names(conv()) == [IREE]
    assert "REFERENCE_ENGINE" not in names(conv(), policy="heuristic")


# ---------------------------------------------------------------------------- standing in


def sized_conv() -> Graph:
    """Return a convolution along a dim that is known at execution: IREE has code for each size."""
    g = Graph("sized", io_data_type="float")
    n = g.dynamic("n", range=(3, 64), example=8)
    x, w = g.tensor(dims=(1, 4, n, 8), name="x"), g.tensor(dims=(8, 4, 3, 3), name="w")
    g.conv_fprop(x, w, padding=(1, 1)).set_output()
    return g


def test_an_engine_on_request_does_not_stand_in_for_code_of_all_sizes(install: Any) -> None:
    """The usual engine serves each size by itself, so that nothing depends on what is installed."""
    install(install.Engine("A_ENGINE", by_default=False))
    with pytest.raises(NotSupportedError, match=r"IREE-DYN-0\d.*exact=True") as caught:
        choose(sized_conv().freeze(), "cpu")
    assert {d.engine for d in caught.value.declines} == {IREE}
    assert sized_conv().build("cpu", exact=True).engine == IREE
    assert names(sized_conv(), prefer="A_ENGINE") == ["A_ENGINE"]


def test_an_engine_on_request_stands_in_where_no_usual_one_serves_any_size(install: Any) -> None:
    install(install.Engine("A_ENGINE", by_default=False))
    with scope(engine_deselect="iree"):
        (found,) = ranking(sized_conv().freeze(), "cpu")
    assert (found.name, found.why) == ("A_ENGINE", "none of the usual engines serves the graph")


# ---------------------------------------------------------------------------- preferring


def preferring(number: int) -> Graph:
    g = conv()
    g.preferred_engine_id = number
    return g


def test_preferred_by_the_graph(install: Any) -> None:
    install(install.Engine("A_ENGINE", serves=("conv_fprop", "pointwise")))
    g = preferring(engine_id("A_ENGINE"))
    found = ranking(g.freeze(), "cpu")
    assert [(c.name, c.policy) for c in found] == [("A_ENGINE", "preferred"), (IREE, "order")]
    assert "preferred_engine_id" in found[0].why
    assert names(g, prefer="iree") == [IREE, "A_ENGINE"]
    with scope(engine_deselect="A_ENGINE"):
        assert names(g) == [IREE]
    with pytest.raises(GraphError, match="GRAPH-07"):  # too late to be heard
        g.preferred_engine_id = 7
    assert names(preferring(7)) == [IREE, "A_ENGINE"]  # nobody: as in hipDNN, nothing happens


def test_a_chosen_engine_that_fails_gives_way_but_a_pinned_one_does_not(
    install: Any, caplog: pytest.LogCaptureFixture
) -> None:
    install(install.Engine("MIOPEN_ENGINE", spoil=install.crash))
    with caplog.at_level(logging.WARNING, logger="hipdnn_iree"):
        plan = conv().build("cpu")
    assert plan.engine == IREE
    (record,) = [r for r in caplog.records if "takes its place" in r.message]
    assert "MIOPEN_ENGINE" in record.message
    with pytest.raises(CompileError, match="died"):
        conv().build("cpu", engine="MIOPEN_ENGINE")


# ---------------------------------------------------------------------------- config


def rule(**more: Any) -> dict[str, Any]:
    return {
        "op": "conv_fprop",
        "engine_name": "A_ENGINE",
        "tensors": [
            {"tensor_id": "w_tensor_uid", "dim": [8, 4, 3, 3]},
            {"tensor_id": "x_tensor_uid", "dim": [-1, 4, 8, 8], "stride": [256, 1, 32, 4]},
        ],
        **more,
    }


def write(path: Path, *rules: Any, version: int = 2) -> None:
    path.write_text(json.dumps({"version": version, "engine_overrides": rules}))


def test_config_rules(install: Any, tmp_path: Path) -> None:
    install(install.Engine("A_ENGINE", knobs=(install.FORM,)))
    path = tmp_path / "rules.json"
    with scope(engine_config=path):
        assert names(conv()) == [IREE, "A_ENGINE"]  # no file: no opinion
        write(path, rule())
        found = ranking(conv().freeze(), "cpu")
        assert [(c.name, c.policy) for c in found] == [("A_ENGINE", "config"), (IREE, "config")]
        assert str(path) in found[0].why
        # The first rule that matches decides, also by an id in place of a name.
        hexadecimal = f"0x{engine_id('A_ENGINE') % 2**64:016X}"
        write(path, rule(op="matmul"), rule(engine_name=hexadecimal), rule(engine_name=IREE))
        assert names(conv())[0] == "A_ENGINE"
        # Its knobs apply where the engine has them, and are a note otherwise.
        noted = {"knobs": [{"knob_id": "form", "type": "string", "value": "b"}]}
        write(path, rule(autotune_metadata=noted))
        assert dict(choose(conv().freeze(), "cpu").choice) == {"form": "b"}
        noted["knobs"][0]["value"] = "gone"
        write(path, rule(autotune_metadata=noted))
        assert dict(choose(conv().freeze(), "cpu").choice) == {}


@pytest.mark.parametrize(
    "changed",
    [
        rule(op="matmul"),
        rule(criteria={"pointwise_mode": 1}),
        rule(tensors=rule()["tensors"][:1]),
        rule(tensors=[rule()["tensors"][0], {"tensor_id": "x_tensor_uid", "dim": [2, 4, 8, 8]}]),
        rule(
            tensors=[
                rule()["tensors"][0],
                {"tensor_id": "x_tensor_uid", "dim": [1, 4, 8, 8], "stride": [256, 64, 8, 1]},
            ]
        ),
        rule(engine_name="NOBODY"),
    ],
)
def test_rules_that_do_not_match(changed: dict[str, Any], install: Any, tmp_path: Path) -> None:
    install(install.Engine("A_ENGINE"))
    write(tmp_path / "rules.json", changed)
    with scope(engine_config=tmp_path / "rules.json"):
        assert choose(conv().freeze(), "cpu").policy == "order"


def test_rules_of_version_1_go_by_position(install: Any, tmp_path: Path) -> None:
    install(install.Engine("A_ENGINE"))
    path = tmp_path / "rules.json"
    dims = [{"dim": [1, 4, 8, 8]}, {"dim": [8, 4, 3, 3]}]
    with scope(engine_config=path):
        write(path, rule(tensors=dims), version=1)
        assert names(conv())[0] == "A_ENGINE"
        write(path, rule(tensors=dims[::-1]), version=1)
        assert names(conv())[0] == IREE


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"engine_overrides": {}}',
        '{"version": "2", "engine_overrides": []}',
        '{"version": 2, "engine_overrides": [1]}',
        json.dumps({"version": 2, "engine_overrides": [rule(op=1)]}),
        json.dumps({"version": 2, "engine_overrides": [rule(criteria=[])]}),
        json.dumps({"version": 2, "engine_overrides": [rule(criteria={"a": True})]}),
        json.dumps({"version": 2, "engine_overrides": [rule(tensors={})]}),
        json.dumps({"version": 2, "engine_overrides": [rule(tensors=[{"dim": [1]}])]}),
        json.dumps({"version": 2, "engine_overrides": [rule(tensors=rule()["tensors"][:1] * 2)]}),
        json.dumps({"engine_overrides": [rule(tensors=[{"dim": "x"}])]}),
        json.dumps({"version": 2, "engine_overrides": [rule(criteria={"a": 2**63})]}),
        json.dumps({"version": 2, "engine_overrides": [rule(criteria={"a": 1.0})]}),
        json.dumps({"version": 10**30, "engine_overrides": []}),
        json.dumps({"version": float("nan"), "engine_overrides": []}),
        json.dumps({"version": 2, "engine_overrides": [rule(autotune_metadata=float("inf"))]}),
        json.dumps({"version": 2, "engine_overrides": [rule(tensors=[{"dim": [-(10**400)]}])]}),
        '{"version": 1' + "0" * 5000 + ', "engine_overrides": []}',
        '{"version": 2, "engine_overrides": ' + "[" * 100_000,
        '{"engine_overrides": [], "more": ' + '{"a":' * 100_000,
    ],
)
def test_damaged_rules_are_ignored_with_one_warning(
    text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ValueError):
        read_rules(text)
    path = tmp_path / "rules.json"
    path.write_text(text)
    with scope(engine_config=path), caplog.at_level(logging.WARNING, logger="hipdnn_iree"):
        for _ in range(3):
            assert choose(conv().freeze(), "cpu").policy == "order"
            assert choose(conv().freeze(), "cpu", prefer="nobody" * 0 or None).name == IREE
    assert len([r for r in caplog.records if "are ignored" in r.message]) == 1


def test_knobs_that_are_not_understood_are_notes() -> None:
    noted = [{"knob_id": "a", "value": 1}, {"knob_id": "b"}, 3, {"knob_id": "c", "value": [[]]}]
    for notes, knobs in ((noted, {"a": "1"}), ({}, {}), (None, {})):
        text = json.dumps({"engine_overrides": [rule(autotune_metadata={"knobs": notes})]})
        assert read_rules(text).engine_overrides[0].knobs == knobs
    (one,) = read_rules(
        json.dumps({"engine_overrides": [rule(autotune_metadata=[])]})
    ).engine_overrides
    assert one.knobs == {}


def test_files_that_are_not_there_cost_no_import(tmp_path: Path) -> None:
    code = """
import sys
from hipdnn_iree import Graph
g = Graph(io_data_type="float")
g.relu(g.tensor(dims=(2, 3))).set_output()
from hipdnn_iree.jit.settings import settings
from hipdnn_iree.provider.selection.select import choose
choose(g.freeze(), "cpu", settings())
print("msgspec" in sys.modules)
"""
    path = str(tmp_path / "winners.json")
    env = {**os.environ, "HIPDNN_IREE_WINNERS": path}
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=env)
    assert done.stdout.strip() == "False"


def test_criteria_are_hipdnns_numbers() -> None:
    g = Graph(io_data_type="float")
    a, b = g.tensor(dims=(1, 3, 4, 4)), g.tensor(dims=(1, 3, 4, 4))
    g.add(a, b).set_output()
    (key,) = match_keys(g.freeze())
    assert (key.op, key.criteria) == ("pointwise", (("pointwise_mode", 2),))
    assert [t.id for t in key.tensors] == ["in_0_tensor_uid", "in_1_tensor_uid"]
    (key,) = match_keys(conv().freeze())  # the convolution stands for the whole graph
    assert (key.op, key.criteria) == ("conv_fprop", ())
    g = Graph(io_data_type="float")
    g.reduction(g.tensor(dims=(2, 8)), mode="add", axes=(1,)).set_output()
    (key,) = match_keys(g.freeze())
    assert (key.criteria, key.tensors[0].id) == ((("reduction_mode", 1),), "in_tensor_uid")


def test_the_table_of_ops_names_ports_and_parameters_that_exist() -> None:
    from hipdnn_iree.graph_api.ops import OPS

    for name, op in OPS.items():
        if op.MATCH is not None:
            assert set(op.MATCH.ports) <= {port.name for port in op.INPUTS}, name
            assert all(field in op.__dataclass_fields__ for _, field in op.MATCH.criteria)
    assert sum(op.MATCH is not None for op in OPS.values()) == 16


# ---------------------------------------------------------------------------- heuristic


def test_estimates_grow_with_the_work_and_say_what_they_rest_on() -> None:
    def product(n: int, kind: str = "float") -> Any:
        g = Graph(io_data_type=kind, compute_data_type="float")
        g.matmul(g.tensor(dims=(n, n)), g.tensor(dims=(n, n))).set_output()
        return g.freeze()

    cpu, iree = Target.parse("cpu"), engine("iree")
    times = [estimate(product(n), cpu, iree).us for n in (8, 256, 1024)]
    assert times == sorted(times)
    assert times[2] > 20 * times[1]
    found = estimate(product(256), cpu, iree).as_dict()
    assert found["matrix_flops"] == 2 * 256**3
    assert found["terms_us"]["matrix"] == pytest.approx(
        1e6 * 2 * 256**3 / (found["peaks"]["matrix32"] * found["engine"]["matrix"])
    )
    assert (found["calibration"], found["measurements"]) == (1.0, 0)
    gpu = Target.parse("mi300x")
    assert estimate(product(4096, "half"), gpu, iree).us < estimate(product(4096), gpu, iree).us
    assert estimate(product(64), cpu, engine("reference")).us > times[0]


def test_heuristic_takes_the_lowest_estimate() -> None:
    found = ranking(conv().freeze(), "cpu", prefer=None, policy="heuristic")
    assert found[0].policy == "heuristic"
    assert found[0].estimated_us is not None
    assert "estimated" in found[0].why


# ---------------------------------------------------------------------------- remembering


def test_choosing_again_takes_few_steps(steps: Callable[[Callable[[], object]], int]) -> None:
    """It looks into the environment and a table; ``benchmarks/overhead.py`` measures the time."""
    graph, other = conv().freeze(), conv().freeze()
    first = choose(graph, "cpu")
    for asked in (graph, other, graph):
        found = choose(asked, "cpu")
        assert found.graph is asked
        assert found.engine is first.engine
    assert steps(lambda: choose(graph, "cpu")) < 600  # 272 as counted


def test_what_was_concluded_follows_what_it_rests_on(install: Any, tmp_path: Path) -> None:
    graph = conv().freeze()
    assert names(conv()) == [IREE]
    install(install.Engine("MIOPEN_ENGINE"))
    assert choose(graph, "cpu").name == "MIOPEN_ENGINE"
    with scope(engine_deselect="MIOPEN_ENGINE"):
        assert choose(graph, "cpu").name == IREE
    assert choose(graph, "cpu").name == "MIOPEN_ENGINE"
    path = tmp_path / "rules.json"
    with scope(engine_config=path):
        assert choose(graph, "cpu").policy == "order"
        write(path, rule(engine_name=IREE))
        assert (choose(graph, "cpu").name, choose(graph, "cpu").policy) == (IREE, "config")
    preferring = replace(graph, preferred_engine_id=engine_id(IREE))
    assert choose(preferring, "cpu").name == IREE
    assert settings().engine_policy == ()


def test_the_table_of_engines_says_of_each_what_its_class_says() -> None:
    for alias, entry in own_engines().items():
        found = entry.load()
        assert (alias, entry.name, entry.by_default) == (found.ALIAS, found.NAME, found.BY_DEFAULT)


def test_a_default_is_chosen_without_importing_other_engines() -> None:
    code = """
import sys
from hipdnn_iree import Graph
from hipdnn_iree.jit.settings import settings
from hipdnn_iree.provider.selection.select import choose
g = Graph(io_data_type="float")
g.relu(g.tensor(dims=(2, 3))).set_output()
assert choose(g.freeze(), "cpu", settings()).engine.ALIAS == "iree"
made = [m for m in sys.modules if m.startswith("hipdnn_iree.provider.engines.")]
print([m for m in made if "engine" in m.rpartition(".")[2]])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['hipdnn_iree.provider.engines.iree.iree_engine']"
