# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Many graphs compiled ahead: order, failures, sharing, workers; builds that must not compile."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import under_settings
from here_and_now import build
from hipdnn_iree import Graph, precompile
from hipdnn_iree.graph_api.errors import CompileError, NotPrecompiledError, SettingError
from hipdnn_iree.jit import pipeline
from hipdnn_iree.jit.cache import CacheKey
from hipdnn_iree.jit.cache.locks import key_lock
from hipdnn_iree.jit.compiler import client
from hipdnn_iree.jit.settings import scope
from hipdnn_iree.jit.target import Target

ROOT = Path(__file__).resolve().parents[2]


def relu(rows: int = 4, name: str = "relu") -> Graph:
    graph = Graph(name, io_data_type="float")
    graph.relu(graph.tensor(dims=(rows, 4), name="x")).set_output()
    return graph


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("HIPDNN_IREE_CACHE_DIR", str(folder))
    return folder


def test_pairs_in_order_with_failures_between(own_cache: Path, monkeypatch) -> None:
    real, calls = pipeline.compile_source, []

    def counted(graph, target, options):
        calls.append((graph.name, str(target)))
        if graph.name == "crashes":
            raise CompileError("crashed", stage="crash")
        if graph.name == "bug":
            raise ZeroDivisionError("oops")
        return real(graph, target, options)

    monkeypatch.setattr(pipeline, "compile_source", counted)
    broken = Graph("broken", io_data_type="float")
    broken.checks_calls = False
    broken.add(broken.tensor(dims=(2, 3)), broken.tensor(dims=(4, 5))).set_output()
    graphs = [relu(), broken, relu(3, "crashes"), relu(4, "again"), relu(5, "bug"), relu().freeze()]
    seen = []
    found = precompile(graphs, ["cpu", "cpu"], jobs=2, progress=seen.append)
    assert [(p.index, p.name) for p in found] == list(
        enumerate(["relu", "broken", "crashes", "again", "bug", "relu"])
    )
    assert [p.cache for p in found] == ["miss", "", "", "same", "", "same"]
    assert [type(p.error).__name__ for p in found] == [
        *("NoneType", "GraphError", "CompileError", "NoneType", "CompileError", "NoneType"),
    ]
    assert "internal error: ZeroDivisionError: oops" in str(found[4].error)
    assert found[3].compiled is found[0].compiled
    assert sorted(p.index for p in seen) == list(range(6))
    assert sorted(calls) == [("bug", "cpu"), ("crashes", "cpu"), ("relu", "cpu")]
    assert all(p.graph is None for p in found[1:2])
    (again,) = precompile([relu(4, "third")])
    assert again.cache == "hit"


def test_an_unknown_target_and_an_unknown_knob(own_cache: Path) -> None:
    with pytest.raises(SettingError, match="unknown target"):
        precompile([relu()], "gfx1")
    (found,) = precompile([relu()], knobs={"no.such": "x"})
    assert isinstance(found.error, SettingError)
    assert precompile([]) == []


def test_extra_workers_leave_and_shared_ones_stay(own_cache: Path, monkeypatch) -> None:
    monkeypatch.setenv("HIPDNN_IREE_COMPILER_JOBS", "1")
    shared = under_settings.default_compiler().pool
    made = []
    real = client.WorkerPool.__init__

    def noted(self, jobs):
        real(self, jobs)
        made.append(self)

    monkeypatch.setattr(client.WorkerPool, "__init__", noted)
    monkeypatch.setattr(pipeline, "compile_source", lambda *_: SimpleNamespace(cache="miss"))
    precompile([relu(7)], jobs=3)
    assert [(c.jobs, c.closed) for c in made] == [(3, True)]
    precompile([relu(8)])
    assert len(made) == 1
    assert under_settings.default_compiler().pool is shared
    assert not shared.closed


def test_an_exception_in_progress_ends_it(own_cache: Path) -> None:
    def stop(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        precompile([relu(n) for n in range(20, 30)], jobs=1, progress=stop)
    assert under_settings.store().info().entries < 10
    (found,) = precompile([relu(31)])  # and the next one works
    assert found.cache == "miss"


def test_processes_share_the_work(own_cache: Path) -> None:
    """Two processes with the same list compile each graph once in all."""
    code = (
        "import sys, json; from hipdnn_iree import Graph, precompile\n"
        "graphs = []\n"
        "for n in range(2):\n"
        "    g = Graph(io_data_type='float'); g.relu(g.tensor(dims=(n + 40, 4))).set_output()\n"
        "    graphs.append(g)\n"
        "print(json.dumps([p.cache for p in precompile(graphs, jobs=1)]))\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    children = [
        subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    states = [json.loads(child.communicate(timeout=300)[0]) for child in children]
    assert sorted([*states[0], *states[1]]) == ["hit"] * 2 + ["miss"] * 2


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_does_not_wait_for_another_process(own_cache: Path, until, users_of) -> None:
    """The lock of the graph's entry is held here, as if this process compiled it."""
    graph = relu(50)
    key = under_settings.cache_key(graph.freeze(), Target.parse("cpu"))
    under_settings.store().put(CacheKey({"a": "makes the folders"}), {"x": b""}, {})
    code = (
        "from hipdnn_iree import Graph, precompile\n"
        "g = Graph(io_data_type='float'); g.relu(g.tensor(dims=(50, 4))).set_output()\n"
        "precompile([g])\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with key_lock(str(own_cache / "v2" / "locks" / key.digest), 1) as held:
        assert held
        child = subprocess.Popen(
            [sys.executable, "-c", code], env=env, stderr=subprocess.PIPE, text=True
        )
        until(lambda: users_of(own_cache / "v2" / "locks", child.pid))  # it waits
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=300)
    assert "KeyboardInterrupt" in err
    assert under_settings.store().get(key) is None


# --- require_precompiled ---------------------------------------------------------------------


def test_require_precompiled_says_what_is_missing_and_how_to_make_it(own_cache: Path) -> None:
    graph = relu(6, "my graph")
    with pytest.raises(
        NotPrecompiledError, match="'my graph' is not precompiled for cpu"
    ) as caught:
        graph.build(require_precompiled=True)
    error = caught.value
    assert error.key == under_settings.cache_key(graph.freeze(), Target.parse("cpu")).digest
    assert error.cache == str(own_cache)
    assert "the cache is empty" in error.nearest
    assert "hipdnn-iree compile GRAPH --target cpu" in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert error.as_dict()["code"] == "E310"
    precompile([graph])
    with scope(compiler_opt_level="O2"), pytest.raises(NotPrecompiledError) as caught:
        graph.build(require_precompiled=True)
    assert "knob:compiler.opt_level: 'O3' -> 'O2'" in caught.value.nearest
    plan = graph.build(require_precompiled=True)
    assert plan.cache == "hit"
    (result,) = plan.run({"x": np.full((6, 4), -1, np.float32)}).values()
    assert not result.any()
    with pytest.raises(NotPrecompiledError):  # other shapes of this plan are not compiled either
        plan.with_shapes({"x": (9, 4)})


@pytest.mark.parametrize("word", ["on", "TRUE", "1"])
def test_require_precompiled_as_a_setting(own_cache: Path, monkeypatch, word: str) -> None:
    monkeypatch.setenv("HIPDNN_IREE_REQUIRE_PRECOMPILED", word)
    with pytest.raises(NotPrecompiledError, match="the cache is empty"):
        build(relu().freeze(), "cpu")
    with scope(cache_mode="off"), pytest.raises(NotPrecompiledError, match="switched off"):
        build(relu().freeze(), "cpu")
    (made,) = precompile([relu()])  # which is what precompiles
    assert made.cache == "miss"
    assert build(relu().freeze(), "cpu").cache == "hit"
    with scope(cache_mode="verify"):
        assert build(relu().freeze(), "cpu").cache == "hit"


def test_require_precompiled_is_off_or_on(monkeypatch) -> None:
    monkeypatch.setenv("HIPDNN_IREE_REQUIRE_PRECOMPILED", "maybe")
    with pytest.raises(SettingError, match=r"on \| off"):
        relu().build()


def test_hipdnn_asks_the_next_engine_then() -> None:
    from hipdnn_iree.hipdnn_plugin.abi import status_of
    from hipdnn_iree.provider.plugin_abi import Status

    error = NotPrecompiledError("no", graph="", target="cpu", key="", cache="", nearest="")
    assert status_of(error) is Status.NOT_APPLICABLE
