# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Engine details and configurations: what is offered, and what a choice does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hipdnn_iree import precompile
from hipdnn_iree.graph_api.errors import (
    FormatError,
    NotPrecompiledError,
    NotSupportedError,
    SettingError,
)
from hipdnn_iree.graph_api.formats.flatbuffer.engine_messages import (
    EngineConfig,
    decode_details,
    encode_config,
)
from hipdnn_iree.hipdnn_plugin import messages, serving
from hipdnn_iree.hipdnn_plugin.abi import PluginError, status_of
from hipdnn_iree.hipdnn_plugin.execution import workspace_bytes
from hipdnn_iree.jit.settings import scope, settings
from hipdnn_iree.jit.settings_table import with_values
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider.engines.iree.iree_plan import IreePlan
from hipdnn_iree.provider.plugin_abi import Status

GRAPHS = Path(__file__).parents[1] / "data" / "opgraphs"
CPU = Target.parse("cpu")


def config(**knobs: Any) -> bytes:
    named = {name.replace("__", "."): value for name, value in knobs.items()}
    return encode_config(EngineConfig(engine_id=serving.ENGINE_ID, knobs=named))


def read(config: bytes) -> messages.Config:
    return messages.read_config(config, settings())


def built(config: bytes, graph: bytes, target: Target) -> IreePlan:
    return serving.build(read(config), graph, target)


def data(name: str) -> bytes:
    return (GRAPHS / f"{name}.bin").read_bytes()


def test_details() -> None:
    found = decode_details(serving.details(serving.ENGINE_ID, settings()))
    assert found.engine_id == serving.ENGINE_ID
    assert found.behavior_notes == (0, 3, 4)
    knobs = {knob.id: knob for knob in found.knobs}
    assert set(knobs) == set(messages.KNOBS)
    assert knobs["hipdnn_iree.compiler.opt_level"].range.values == ("O0", "O1", "O2", "O3")
    assert knobs[messages.WORKSPACE_LIMIT].default == 2**63 - 1
    with scope(compiler_opt_level="O1"):
        again = decode_details(serving.details(0, settings()))
    assert {k.id: k.default for k in again.knobs}["hipdnn_iree.compiler.opt_level"] == "O1"


def test_knobs_stand_for_settings() -> None:
    fields = vars(settings())
    assert set(messages.SETTINGS) <= set(messages.KNOBS)
    assert set(messages.SETTINGS.values()) <= set(fields)
    for knob, name in messages.SETTINGS.items():
        for value in messages.KNOBS[knob].range.values:  # type: ignore[union-attr]
            with scope(**{name: value}):
                assert getattr(settings(), name) == value


def test_config_of_any_era() -> None:
    recorded = (GRAPHS / "engine_config_4242001.cfg").read_bytes()
    assert read(recorded).engine_id == 4242001
    found = read(config(hipdnn_iree__compiler__opt_level="O1", other__knob=3))
    assert found.settings == with_values(settings(), compiler_opt_level="O1")
    assert found.knobs == {"opt_level": "O1"}


@pytest.mark.parametrize(
    "knobs",
    [
        {"hipdnn_iree__compiler__opt_level": "O9"},
        {"hipdnn_iree__compiler__opt_level": 3},
        {"hipdnn_iree__compiler__data_tiling": "on"},
        {"hipdnn_iree__runtime__driver": "gpu"},
        {"global__workspace_size_limit": -1},
        {"global__workspace_size_limit": "much"},
        {"global__deterministic": 2},
        {"global__deterministic": 0.5},
    ],
)
def test_bad_knob(knobs: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match="allowed: ") as caught:
        read(config(**knobs))
    assert status_of(caught.value) is Status.INVALID_VALUE


def test_strategies_of_a_graphs_ops_are_knobs() -> None:
    graph = data("fused_conv_bias_relu_f32_nchw")
    knobs = {k.id: k for k in decode_details(serving.details(0, settings(), graph, CPU)).knobs}
    strategy = knobs["hipdnn_iree.conv_fprop.strategy"]
    assert strategy.range is not None
    assert {"auto", "direct", "plain", strategy.default} <= set(strategy.range.values)
    assert "shifted_sum" not in strategy.range.values  # which is for depthwise convolutions
    assert "hipdnn_iree.sdpa.strategy" not in knobs
    gfx = decode_details(serving.details(0, settings(), graph, Target.parse("gfx942"))).knobs
    strategy = next(k for k in gfx if k.id == "hipdnn_iree.conv_fprop.strategy")
    assert strategy.range is not None
    assert strategy.range.values == ("auto", "direct", "plain")


def test_a_chosen_strategy_is_a_setting_beside_those_that_are_set() -> None:
    with scope(compiler_strategies="matmul=plain"):
        found = read(config(hipdnn_iree__conv_fprop__strategy="plain"))
    assert found.settings.compiler_strategies == ("conv_fprop=plain", "matmul=plain")
    assert found.knobs == {"conv_fprop.strategy": "plain"}
    graph = data("fused_conv_bias_relu_f32_nchw")
    with pytest.raises(SettingError, match="does not fit node"):
        built(config(hipdnn_iree__conv_fprop__strategy="shifted_sum"), graph, CPU)
    with pytest.raises(SettingError, match="allowed: auto, direct"):
        read(config(hipdnn_iree__conv_fprop__strategy="quick"))


def test_damaged_config() -> None:
    with pytest.raises(FormatError):
        read(b"no configuration")


def test_workspace_guess_is_exact_once_compiled_and_can_be_limited() -> None:
    graph = data("bn_train_running_epsval_f32_nchw")
    with scope(compiler_opt_level="O2"):  # not compiled by any other test
        before = serving.workspace_guess(read(config()), graph, CPU)
        plan = built(config(), graph, CPU)
        wanted = workspace_bytes(plan.workspace_bytes)
        assert serving.workspace_guess(read(config()), graph, CPU) == wanted
    assert before >= 0
    if wanted:
        with pytest.raises(PluginError, match="bytes of workspace") as caught:
            built(config(global__workspace_size_limit=wanted - 1), graph, CPU)
        assert caught.value.status is Status.NOT_APPLICABLE
    assert built(config(global__workspace_size_limit=wanted), graph, CPU) is not None


def test_knob_decides_how_it_is_compiled_and_run() -> None:
    from under_settings import cache_key, store

    graph = data("fused_conv_bias_relu_f32_nchw")
    built(config(hipdnn_iree__compiler__opt_level="O1"), graph, CPU)
    with scope(compiler_opt_level="O1"):
        assert store().get(cache_key(messages.graph(graph), CPU)) is not None
    built(config(hipdnn_iree__compiler__data_tiling="off"), graph, CPU)
    with scope(compiler_data_tiling="off"):
        assert store().get(cache_key(messages.graph(graph), CPU)) is not None
    for driver in ("local-sync", "local-task"):
        assert built(config(hipdnn_iree__runtime__driver=driver), graph, CPU).driver == driver


def test_a_graph_that_is_not_precompiled_is_left_to_others(
    tmp_path: Path, monkeypatch: Any
) -> None:
    graph = data("pw_relu_all")
    monkeypatch.setenv("HIPDNN_IREE_CACHE_DIR", str(tmp_path))
    assert serving.reasons(graph, CPU, settings()) == ()
    monkeypatch.setenv("HIPDNN_IREE_REQUIRE_PRECOMPILED", "on")
    (why,) = serving.reasons(graph, CPU, settings())
    assert why.rule == "PRECOMPILED-01"
    assert str(tmp_path) in why.got
    with pytest.raises(NotPrecompiledError) as caught:  # a host that asks all the same
        built(config(), graph, CPU)
    assert status_of(caught.value) is Status.NOT_APPLICABLE
    with pytest.raises(NotSupportedError, match="PRECOMPILED-01"):  # it knew a size of workspace
        serving.workspace_guess(read(config()), graph, CPU)
    precompile([messages.graph(graph)])
    assert serving.reasons(graph, CPU, settings()) == ()
    assert serving.workspace_guess(read(config()), graph, CPU) == 0
    assert built(config(), graph, CPU) is not None


def test_a_graph_without_code_and_compiler_is_refused_by_that_rule(
    tmp_path: Path, monkeypatch: Any
) -> None:
    """Also for a host that plans without asking: it got an error of an import in Python."""
    graph = data("pw_relu_all")
    monkeypatch.setenv("HIPDNN_IREE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(serving, "compiles", lambda _: False)
    with pytest.raises(
        NotSupportedError, match=r"PRECOMPILED-01.*the compiler is missing"
    ) as caught:
        built(config(), graph, CPU)
    assert status_of(caught.value) is Status.NOT_APPLICABLE


def test_foreign_engine() -> None:
    other = encode_config(EngineConfig(engine_id=1))
    with pytest.raises(PluginError, match="engine 1 is not of this plugin"):
        built(other, data("pw_relu_all"), CPU)


def test_unsupported_graph_is_no_error() -> None:
    from hipdnn_iree import Graph
    from hipdnn_iree.graph_api.formats.flatbuffer.encode import encode

    g = Graph("declined", io_data_type="float")
    x = g.tensor(dims=(4, 4), name="x")
    x.ragged_offset_uid = g.tensor(dims=(5, 1, 1, 1), data_type="int32", name="rows").uid
    g.relu(x).set_output()
    reasons = serving.reasons(encode(g.freeze()), CPU, settings())
    assert reasons
    assert all(reason.rule for reason in reasons)
