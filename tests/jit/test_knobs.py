# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Settings: defaults, variables, scopes, errors, and what the table says."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hipdnn_iree.graph_api.errors import SettingError
from hipdnn_iree.jit import settings as knobs
from hipdnn_iree.jit.settings import KNOBS, Settings, describe, scope, settings, unknown_variables
from under_settings import key_ingredients


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith((knobs.PREFIX, knobs.HIPDNN_PREFIX)):
            monkeypatch.delenv(name)


def test_defaults(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    now = settings()
    assert now.cache_dir == tmp_path / ".cache" / "hipdnn-iree"
    assert now.reproducers_dir == now.cache_dir / "reproducers"
    assert now.cache_mode == "on"
    assert now.cache_max_bytes == 2 << 30
    assert now.compiler_mode == "worker"
    assert now.compiler_timeout_s == 300.0
    assert now.compiler_extra_flags == ()
    assert now.compiler_opt_level == "O3"
    assert now.compiler_tuning_spec is None
    assert now.compiler_python is None
    assert now.runtime_driver == "auto"
    assert now.runtime_threads == 0
    assert now.log_level == "WARNING"


@pytest.mark.parametrize("home", ["relative/home", "~", "", None])
def test_without_a_home_nothing_is_relative(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, home: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", home or "")
    if home is None:
        monkeypatch.delenv("HOME")
        monkeypatch.setattr(os.path, "expanduser", lambda text: text)  # of a user without entry
    monkeypatch.setattr("tempfile.tempdir", "/tmp/somewhere")
    assert settings().cache_dir == Path(f"/tmp/somewhere/hipdnn-iree-{os.getuid()}")
    monkeypatch.setenv("HIPDNN_IREE_CACHE_DIR", "~no such user/x")
    with pytest.raises(SettingError, match="HIPDNN_IREE_CACHE_DIR is '~no such user/x'"):
        settings()


def test_cache_home_follows_the_xdg_rule(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert settings().cache_dir == tmp_path / "xdg" / "hipdnn-iree"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert settings().cache_dir == tmp_path / ".cache" / "hipdnn-iree"


GOOD = [
    ("CACHE_DIR", "/x/y", "cache_dir", Path("/x/y")),
    ("CACHE_DIR", "~/c", "cache_dir", Path(os.path.expanduser("~/c"))),
    ("CACHE_DIR", "rel", "cache_dir", Path.cwd() / "rel"),
    ("CACHE", "Verify", "cache_mode", "verify"),
    ("CACHE", "", "cache_mode", "on"),
    ("CACHE_MAX_BYTES", "123", "cache_max_bytes", 123),
    ("CACHE_MAX_BYTES", "4k", "cache_max_bytes", 4096),
    ("CACHE_MAX_BYTES", "5M", "cache_max_bytes", 5 << 20),
    ("CACHE_MAX_BYTES", "6GiB", "cache_max_bytes", 6 << 30),
    ("CACHE_MAX_BYTES", "1TB", "cache_max_bytes", 1 << 40),
    ("COMPILER_TIMEOUT_S", "0.5", "compiler_timeout_s", 0.5),
    ("COMPILER_TIMEOUT_S", " 1e3 ", "compiler_timeout_s", 1000.0),
    ("COMPILER_MODE", "cli", "compiler_mode", "cli"),
    ("COMPILER_JOBS", "3", "compiler_jobs", 3),
    ("EXTRA_FLAGS", "--a=1 '--b=x y' --c", "compiler_extra_flags", ("--a=1", "--b=x y", "--c")),
    ("OPT_LEVEL", "o1", "compiler_opt_level", "O1"),
    ("DATA_TILING", "OFF", "compiler_data_tiling", "off"),
    ("STRATEGIES", "plain", "compiler_strategies", ("all=plain",)),
    (
        "STRATEGIES",
        "sdpa=fused, matmul=plain",
        "compiler_strategies",
        ("matmul=plain", "sdpa=fused"),
    ),
    ("TUNING_SPEC", "/t.mlir", "compiler_tuning_spec", Path("/t.mlir")),
    ("REPRODUCERS_DIR", "/r", "reproducers_dir", Path("/r")),
    ("REPRODUCERS_KEEP", "0", "reproducers_keep", 0),
    ("LOG_LEVEL", "debug", "log_level", "DEBUG"),
    ("DRIVER", "local-task", "runtime_driver", "local-task"),
    ("THREADS", "7", "runtime_threads", 7),
    ("PYTHON", "/usr/bin/python3", "compiler_python", Path("/usr/bin/python3")),
]


@pytest.mark.parametrize(("variable", "text", "name", "value"), GOOD)
def test_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str, text: str, name: str, value: object
) -> None:
    monkeypatch.setenv(knobs.PREFIX + variable, text)
    assert getattr(settings(), name) == value
    monkeypatch.delenv(knobs.PREFIX + variable)
    with scope(**{name: text}) as inside:
        assert getattr(inside, name) == value
    with scope(**{name: value}):
        assert getattr(settings(), name) == value


BAD = [
    ("CACHE", "maybe", "on | off | verify"),
    ("CACHE_MAX_BYTES", "-1", "positive"),
    ("CACHE_MAX_BYTES", "0", "positive"),
    ("CACHE_MAX_BYTES", "2X", "positive"),
    ("CACHE_MAX_BYTES", "G", "positive"),
    ("COMPILER_TIMEOUT_S", "0", "positive"),
    ("COMPILER_TIMEOUT_S", "nan", "positive"),
    ("COMPILER_TIMEOUT_S", "inf", "positive"),
    ("COMPILER_TIMEOUT_S", "soon", "positive"),
    ("COMPILER_MODE", "thread", "worker | cli"),
    ("COMPILER_JOBS", "-1", "from 0"),
    ("EXTRA_FLAGS", "--a 'open", "quoted"),
    ("EXTRA_FLAGS", "-o /tmp/x", "--name"),
    ("EXTRA_FLAGS", "word", "--name"),
    ("OPT_LEVEL", "O9", "O0 | O1 | O2 | O3"),
    ("LOG_LEVEL", "loud", "DEBUG"),
    ("DRIVER", "hip", "local-sync"),
    ("THREADS", "1.5", "integer"),
]


@pytest.mark.parametrize(("variable", "text", "allowed"), BAD)
def test_bad_value_names_variable_value_and_what_is_allowed(
    monkeypatch: pytest.MonkeyPatch, variable: str, text: str, allowed: str
) -> None:
    monkeypatch.setenv(knobs.PREFIX + variable, text)
    with pytest.raises(SettingError) as caught:
        settings()
    message = str(caught.value)
    assert knobs.PREFIX + variable in message
    assert repr(text) in message
    assert allowed in message


def test_all_bad_variables_are_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPDNN_IREE_CACHE", "x")
    monkeypatch.setenv("HIPDNN_IREE_THREADS", "y")
    with pytest.raises(SettingError, match=r"(?s)HIPDNN_IREE_CACHE is.*HIPDNN_IREE_THREADS is"):
        settings()
    with scope(cache_mode="on", runtime_threads=1) as good:  # a scope outdoes the environment
        assert good.runtime_threads == 1


def test_scope_nests_and_restores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPDNN_IREE_THREADS", "5")
    with scope(runtime_threads=1, cache_dir="/a"):
        assert settings().reproducers_dir == Path("/a/reproducers")
        with scope(runtime_threads=2):
            assert (settings().runtime_threads, settings().cache_dir) == (2, Path("/a"))
        with scope(runtime_threads=None):
            assert settings().runtime_threads == 0
        assert settings().runtime_threads == 1
    assert settings().runtime_threads == 5
    with pytest.raises(ZeroDivisionError), scope(runtime_threads=9):
        raise ZeroDivisionError
    assert settings().runtime_threads == 5


def test_scope_rejects_unknown_names_and_bad_values() -> None:
    with pytest.raises(SettingError, match="did you mean cache_mode"), scope(cache_mod="on"):
        pass
    with pytest.raises(SettingError, match="setting runtime_threads is 'x'"):
        scope(runtime_threads="x").__enter__()
    assert settings().runtime_threads == 0


def test_scope_belongs_to_its_thread() -> None:
    seen = []
    with scope(runtime_threads=3):
        thread = threading.Thread(target=lambda: seen.append(settings().runtime_threads))
        thread.start()
        thread.join()
    assert seen == [0]


def test_table_matches_the_class_and_its_names() -> None:
    assert [knob.field for knob in KNOBS] == [f.name for f in dataclasses.fields(Settings)]
    assert len({knob.env for knob in KNOBS}) == len(KNOBS)
    for knob in KNOBS:
        assert knob.env.startswith((knobs.PREFIX, knobs.HIPDNN_PREFIX))
        assert knob.name.replace(".", "_", 1) == knob.field
        assert knob.help.endswith(".")
        assert len(knob.help) < 100 + 20
        knob.parse(knob.default)
    assert {k.name for k in KNOBS if k.in_cache_key} == {
        "compiler.data_tiling",
        "compiler.extra_flags",
        "compiler.strategies",
        "compiler.opt_level",
        "compiler.tuning_dir",
        "compiler.tuning_spec",
    }


def test_key_ingredients_follow_what_changes_code(tmp_path: Path) -> None:
    spec = tmp_path / "spec.mlir"
    spec.write_text("one")
    base = key_ingredients()
    with scope(compiler_tuning_spec=spec):
        one = key_ingredients()
        spec.write_text("two")
        two = key_ingredients()
    assert len({d["compiler.tuning_spec"] for d in (base, one, two)}) == 3
    with scope(compiler_extra_flags=["--x=a b"], compiler_opt_level="O1", compiler_timeout_s=1):
        changed = key_ingredients()
    assert changed == {**base, "compiler.extra_flags": "'--x=a b'", "compiler.opt_level": "O1"}
    with (
        scope(compiler_tuning_spec=tmp_path / "gone"),
        pytest.raises(SettingError, match="HIPDNN_IREE_TUNING_SPEC"),
    ):
        key_ingredients()


def test_describe_tells_where_values_come_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPDNN_IREE_THREADS", "5")
    with scope(compiler_opt_level="O0"):
        rows = {row["name"]: row for row in describe()}
    assert len(rows) == len(KNOBS)
    assert rows["runtime.threads"]["origin"] == "environment"
    assert rows["runtime.threads"]["value"] == "5"
    assert rows["compiler.opt_level"]["origin"] == "scope"
    assert rows["cache.mode"]["origin"] == "default"
    assert rows["cache.mode"]["env"] == "HIPDNN_IREE_CACHE"


def test_unknown_variables_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert unknown_variables() == {}
    monkeypatch.setenv("HIPDNN_IREE_CACHE_DIRS", "/x")
    assert unknown_variables() == {"HIPDNN_IREE_CACHE_DIRS": "HIPDNN_IREE_CACHE_DIR"}


def test_settings_follow_the_environment_and_are_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    before = settings()
    assert settings() is before
    monkeypatch.setenv("HIPDNN_IREE_THREADS", "2")
    assert settings().runtime_threads == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        before.runtime_threads = 3  # type: ignore[misc]


def test_any_mapping_may_stand_in_for_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPDNN_IREE_EXTRA_FLAGS", "--a=\udcff")
    monkeypatch.setenv("HIPDNN_IREE_THREADS", "3")
    usual = settings()
    assert (usual.compiler_extra_flags, usual.runtime_threads) == (("--a=\udcff",), 3)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    assert settings() == usual
    os.environ["HIPDNN_IREE_THREADS"] = "4"
    assert settings().runtime_threads == 4
    del os.environ["HIPDNN_IREE_THREADS"]
    assert settings().runtime_threads == 0


def test_import_is_light() -> None:
    code = "import sys, hipdnn_iree.jit.settings, hipdnn_iree.jit.target; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"numpy", "iree", "torch_mlir", "shlex", "subprocess", "hashlib", "difflib"}
