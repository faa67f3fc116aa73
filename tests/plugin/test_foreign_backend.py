# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""hipDNN itself as an engine, with a stand-in for its library over the plugins of the tests."""

from __future__ import annotations

import ctypes
import gc
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from here_and_now import engine, engines
from hipdnn_iree import Graph, Target
from hipdnn_iree.graph_api.errors import CompileError, DeviceError, NotSupportedError
from hipdnn_iree.provider.engines.foreign import backend_engine as backend

from tools.host.driver import build_backend

CPU = Target.parse("cpu")
NAIVE = -3881685492516736198


@pytest.fixture(scope="session")
def standin(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function that compiles the stand-in with some flags, once."""
    folder, built = tmp_path_factory.mktemp("backend"), dict[tuple[str, ...], Path]()

    def build(*flags: str) -> Path:
        if flags not in built:
            era = "n25" if "-DN25" in flags else "new"
            built[flags] = build_backend(folder / f"{len(built)}.so", era)
        return built[flags]

    return build


@pytest.fixture
def rocm(
    standin: Callable[..., Path],
    naive_library: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., Path]:
    """Return a function that installs the stand-in with plugins in its folder."""

    def install(*plugins: str, flags: tuple[str, ...] = ()) -> Path:
        folder = tmp_path / "lib" / "hipdnn_plugins" / "engines"
        folder.mkdir(parents=True)
        for name in plugins:
            shutil.copy(naive_library(*flags), folder / f"{name}.so")
        library = shutil.copy(standin(*flags), tmp_path / "lib" / "libhipdnn_backend.so")
        monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "lib"))
        monkeypatch.setenv("HIPDNN_IREE_PLUGINS_MODE", "absolute")  # through hipDNN only
        monkeypatch.setenv("HIPDNN_IREE_CACHE_DIR", str(tmp_path / "cache"))
        return Path(library)

    return install


def graph(op: str = "relu") -> Any:
    g = Graph(op, io_data_type="float")
    x, b = g.tensor(dims=(3, 8), name="x"), g.tensor(dims=(1, 8), name="b")
    getattr(g, op)(g.add(x, b)).set_output().set_name("y")
    return g


def check(plan: Any) -> None:
    rng = np.random.default_rng(1)
    x, b = (rng.standard_normal(d).astype(np.float32) for d in ((3, 8), (1, 8)))
    (y,) = plan.run({"x": x, "b": b}).values()
    np.testing.assert_array_equal(y, np.maximum(x + b, 0))


def test_absent_backend_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HIPDNN_IREE_HIPDNN_BACKEND", str(tmp_path / "none.so"))
    found = engine("hipdnn")
    assert (found.NAME, found.BY_DEFAULT, found.targets(), found.ops()) == (
        *("HIPDNN_BACKEND", False),
        *((), ()),
    )
    with pytest.raises(NotSupportedError, match=r"BACKEND-01.*HIPDNN_IREE_HIPDNN_BACKEND"):
        graph().build("cpu", engine="hipdnn")
    assert graph().build("cpu").engine == "IREE_JIT_ENGINE"


@pytest.mark.parametrize("flags", [(), ("-DN25",)])
def test_graphs_run_through_hipdnn(flags: tuple[str, ...], rocm: Callable[..., Path]) -> None:
    """Its own choice and each of its engines; everything is destroyed in order."""
    path = rocm("naive", flags=flags)
    id = 4242 if flags else NAIVE
    names = [e.name for e in engines().values() if e.name.lower().startswith("hipdnn")]
    assert names == ["HIPDNN_BACKEND", *([] if flags else ["hipdnn:TEST_NAIVE_ENGINE"])]
    plan = graph().build("cpu", engine="hipdnn")
    assert (plan.engine, plan.engine_id) == ("HIPDNN_BACKEND", id)
    assert plan.statistics["hipdnn_engine"] == (hex(4242) if flags else "TEST_NAIVE_ENGINE")
    assert plan.workspace_bytes == 128  # of the sum, which is virtual
    check(plan)
    x, b = np.ones((3, 8), np.float32), np.zeros((1, 8), np.float32)
    y = np.full((3, 8), np.nan, np.float32)
    call = plan.bind({"x": x, "b": b, "y": y})
    call()
    assert (y == 1).all()
    if not flags:
        pinned = graph().build("cpu", engine="hipdnn:test_naive")
        assert (pinned.engine, pinned.engine_id) == ("hipdnn:TEST_NAIVE_ENGINE", NAIVE)
        check(pinned)
        check(plan.with_shapes({}))
        other = plan.with_shapes({"x": (5, 8)})
        assert other.run({"x": np.zeros((5, 8), np.float32), "b": b})
        del pinned, other
    ((_, loaded),) = [
        pair for pair in backend._loaded_ones.items() if pair[0][0] == str(path.resolve())
    ]
    left = loaded.handle.hipdnn._so.standin_descriptors
    left.argtypes = (ctypes.c_void_p,)
    assert left(loaded.handle.address) > 0
    del plan, call
    gc.collect()
    assert left(loaded.handle.address) == 0
    loaded.handle.close()
    del backend._loaded_ones[str(path.resolve()), -1]


def test_override_shapes_through_hipdnn(rocm: Callable[..., Path]) -> None:
    rocm("naive")
    g = Graph("overridable", io_data_type="float")
    g.relu(g.tensor(dims=(3, 4), name="x")).set_output().set_name("y")
    g.is_override_shape_enabled = True
    plan = g.build("cpu", engine="hipdnn")
    x = np.arange(-15, 15, dtype=np.float32).reshape(5, 6)
    (y,) = plan.with_shapes({"x": (5, 6)}).run({"x": x}).values()
    np.testing.assert_array_equal(y, np.maximum(x, 0))


def test_reasons_of_hipdnn(rocm: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    rocm("naive")
    found, one = engine("hipdnn"), engine("hipdnn:test_naive")
    for each in (found, one):
        (reason,) = each.declines(graph("exp").freeze(), CPU)
        assert (reason.problem.rule, reason.problem.got) == ("BACKEND-03", "no engine")
        (reason,) = each.declines(graph().freeze(), Target.parse("gfx942"))
        assert reason.problem.rule == "FOREIGN-08"
    preferring = graph()
    preferring.preferred_engine_id = NAIVE
    assert preferring.build("cpu", engine="hipdnn").engine_id == NAIVE
    monkeypatch.setenv("HIPDNN_STANDIN", "no_engines")
    (reason,) = one.declines(graph("sigmoid").freeze(), CPU)
    assert reason.problem.wanted == "0xca217b9c50c0b33a"


def test_failures_inside_hipdnn(rocm: Callable[..., Path]) -> None:
    """The text of the plugin comes through; nothing is left behind."""
    rocm("build_fails")
    with pytest.raises(CompileError, match=r"PLUGIN_ERROR.*the loops are tangled"):
        graph().build("cpu", engine="hipdnn")


def test_failing_execution(rocm: Callable[..., Path]) -> None:
    rocm("execute_fails")
    plan = graph().build("cpu", engine="hipdnn")
    with pytest.raises(DeviceError, match=r"PLUGIN_ERROR.*a loop did not end"):
        check(plan)


@pytest.mark.parametrize(
    ("way", "rule", "text"),
    [
        ("crash", "FOREIGN-04", "hipdnnCreate: .*SIGSEGV"),
        ("hang", "FOREIGN-04", "hipdnnCreate: .*no answer within"),
        ("null", "BACKEND-04", "null handle"),
        ("none", "BACKEND-04", "no device was found"),
    ],
)
def test_misbehaving_backend_is_found_out(
    way: str, rule: str, text: str, rocm: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    rocm("naive")
    monkeypatch.setenv("HIPDNN_STANDIN", way)
    monkeypatch.setenv("HIPDNN_IREE_FOREIGN_TIMEOUT_S", "2" if way == "hang" else "30")
    with pytest.raises(NotSupportedError, match=text) as caught:
        graph().build("cpu", engine="hipdnn")
    assert caught.value.declines[0].problem.rule == rule


def test_a_backend_that_others_may_exchange_is_not_loaded(
    rocm: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rocm("naive")
    monkeypatch.setenv("HIPDNN_STANDIN", "crash")  # would be told if it were asked
    (tmp_path / "lib").chmod(0o777)
    with pytest.raises(NotSupportedError, match="everybody may write") as caught:
        graph().build("cpu", engine="hipdnn")
    assert caught.value.declines[0].problem.rule == "BACKEND-05"


def test_plugin_that_crashes_inside_hipdnn(rocm: Callable[..., Path]) -> None:
    rocm("crash_on_create")
    with pytest.raises(NotSupportedError, match=r"FOREIGN-04.*SIGSEGV"):
        graph().build("cpu", engine="hipdnn")


def test_library_that_is_no_hipdnn(
    naive_library: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIPDNN_IREE_HIPDNN_BACKEND", str(naive_library()))
    with pytest.raises(NotSupportedError, match=r"BACKEND-02.*no hipdnnCreate, "):
        graph().build("cpu", engine="hipdnn")
    (tmp_path / "text.so").write_text("no library")
    monkeypatch.setenv("HIPDNN_IREE_HIPDNN_BACKEND", str(tmp_path / "text.so"))
    with pytest.raises(NotSupportedError, match=r"BACKEND-01.*dlopen|dlopen.*BACKEND-01"):
        graph().build("cpu", engine="hipdnn")
