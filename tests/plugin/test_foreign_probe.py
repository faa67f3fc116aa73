# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plugins of others that misbehave: found out in a process of their own, told, and left out."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from here_and_now import choose, look, open_plugin
from here_and_now import plugin_engines as engines
from here_and_now import plugin_files as candidates
from here_and_now import plugin_reports as reports
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.errors import NotSupportedError
from hipdnn_iree.provider.engines.foreign import probe

Naive = Callable[..., Path]

# How a plugin misbehaves -> the rule that it breaks, and words of the text.
WAYS = {
    "crash_on_load": ("FOREIGN-04", "load: .*SIGSEGV"),
    "abort_on_load": ("FOREIGN-04", "load: .*SIGABRT"),
    "exit_on_load": ("FOREIGN-04", "load: .*status 3"),
    "hang_on_load": ("FOREIGN-04", "load: .*no answer within"),
    "other_type": ("FOREIGN-03", "GetType: .*got 2"),
    "api_2": ("FOREIGN-03", "GetApiVersion: .*got 2.0.0"),
    "api_garbage": ("FOREIGN-03", "GetApiVersion: .*got newest"),
    "null_name": ("FOREIGN-11", "GetName: .*null pointer"),
    "error_version": ("FOREIGN-11", "GetVersion: .*INTERNAL_ERROR.*the version is a secret"),
    "no_engines": ("FOREIGN-05", "got 0 engines"),
    "many_engines": ("FOREIGN-05", "got 4294967295 engines"),
    "twice_id": ("FOREIGN-05", "more than once"),
    "unstable_ids": ("FOREIGN-05", "1 engines, then 2"),
    "null_engine_name": ("FOREIGN-11", "GetEngineName: .*null pointer"),
    "wrong_engine_name": ("FOREIGN-06", "SOME_OTHER_ENGINE"),
    "crash_on_create": ("FOREIGN-04", "EnginePluginCreate: .*SIGSEGV"),
    "hang_on_create": ("FOREIGN-04", "EnginePluginCreate: .*no answer within"),
    "create_fails": ("FOREIGN-11", "ALLOC_FAILED.*there is no room for a handle"),
    "null_handle": ("FOREIGN-11", "null handle"),
    "crash_on_destroy": ("FOREIGN-04", "EnginePluginDestroy: .*SIGSEGV"),
    "crash_on_exit": ("FOREIGN-04", "exit: .*SIGSEGV"),
}


@pytest.fixture(autouse=True)
def own_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What plugins said before is forgotten; none of this machine is found."""
    monkeypatch.setenv("HIPDNN_IREE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("HIPDNN_PLUGIN_DIR", str(tmp_path / "none"))


@pytest.mark.parametrize("way", WAYS)
def test_misbehaving_plugin_is_found_out(
    way: str, fresh_naive: Naive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIPDNN_IREE_FOREIGN_TIMEOUT_S", "2" if "hang" in way else "30")
    rule, words = WAYS[way]
    report = look(fresh_naive(way))
    assert not report.usable
    first = report.problems[0]
    assert first.rule == rule
    assert re.search(words, str(first)), first


def test_library_that_is_no_plugin(fresh_naive: Naive, tmp_path: Path) -> None:
    report = look(fresh_naive("naive", "-DINCOMPLETE"))
    assert [p.rule for p in report.problems] == ["FOREIGN-02"]
    assert "hipdnnEnginePluginExecuteOpGraph" in report.problems[0].got
    broken = tmp_path / "broken.so"
    broken.write_bytes(b"no library")
    assert look(broken).problems[0].rule == "FOREIGN-02"


def test_harmless_oddities(fresh_naive: Naive, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that are no text are shown harmlessly; what is printed is no answer."""
    report = look(fresh_naive("garbage_name"))
    assert report.usable
    assert report.name == "\\xff\\xfe\x1b[2J \\x80"
    # It makes C's stdout unbuffered in the child, which must not depend on who asks.
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    report = look(fresh_naive("chatty"))
    assert report.usable
    assert any("noise 39999" in line for line in report.said)


def test_an_answer_is_remembered_until_the_file_changes(
    fresh_naive: Naive, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, asked = fresh_naive("naive"), []
    converse = probe._converse

    def counted(request: dict[str, Any], *more: Any) -> Any:
        asked.append(request)
        return converse(request, *more)

    monkeypatch.setattr(probe, "_converse", counted)
    first = look(path)
    assert look(path) == first
    assert len(asked) == 1
    look(path, again=True)
    assert len(asked) == 2
    os.utime(path, ns=(1, 1))
    look(path)
    assert len(asked) == 3
    for damage in (b"", b"{", b"[]", b'{"path": 1}'):
        for file in (path.parents[0] / "cache" / "foreign").iterdir():
            file.write_bytes(damage)
        assert look(path).usable
    monkeypatch.setenv("HIPDNN_IREE_CACHE", "off")
    look(path)
    assert len(asked) == 8


def test_answers_do_not_pile_up(
    fresh_naive: Naive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "_MOST_FILES", 3)
    folder = tmp_path / "cache" / "foreign"
    folder.mkdir(parents=True)
    for age in range(4):
        (folder / str(age)).touch()
        os.utime(folder / str(age), (age, age))
    report = look(fresh_naive())
    assert {f.name for f in folder.iterdir()} > {"2", "3"}
    assert len(list(folder.iterdir())) == 3
    monkeypatch.setattr(probe, "_converse", None)
    assert look(Path(report.path)) == report


def test_discovery(
    fresh_naive: Naive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """hipDNN's rules for files; bad ones are skipped with a reason, the first owner has an id."""
    folder = tmp_path / "plugins"
    folder.mkdir()
    real = fresh_naive("naive")
    first = real.rename(folder / "b_naive.so")
    fresh_naive("naive").rename(folder / "c_naive.so")
    fresh_naive("null_name").rename(folder / "null_name.so")
    (folder / "d.so.1").write_bytes(b"")
    (folder / "e.so").symlink_to(folder / "d.so.1")
    (folder / "f.so").symlink_to(first)
    (folder / "g.so").mkdir()
    (folder / "readme.txt").write_text("")
    monkeypatch.setenv("HIPDNN_PLUGIN_DIR", str(folder))
    found = {Path(c.path).name: c.problem and c.problem.rule for c in candidates()}
    assert found == {
        "b_naive.so": None,
        "c_naive.so": None,
        "d.so.1": "FOREIGN-01",
        "g.so": "FOREIGN-01",
        "null_name.so": None,
    }
    made = reports()
    assert [Path(r.path).name for r in made if r.usable] == ["b_naive.so"]
    assert {Path(r.path).name: r.problems[0].rule for r in made if r.problems} == {
        "null_name.so": "FOREIGN-11",
        "c_naive.so": "FOREIGN-07",
        "d.so.1": "FOREIGN-01",
        "g.so": "FOREIGN-01",
    }
    (one,) = engines()
    assert (one.NAME, one.ALIAS) == ("TEST_NAIVE_ENGINE", "test_naive")
    assert one.source() == str(first)
    assert engines()[0] is one
    assert "null_name.so is skipped" in caplog.text
    assert "c_naive.so is skipped" not in caplog.text
    # Named files come in addition, or alone; a name is completed as hipDNN does it.
    extra = fresh_naive("naive").rename(tmp_path / "libextra.so")
    monkeypatch.setenv("HIPDNN_IREE_PLUGINS", f"{tmp_path / 'extra'}:{tmp_path / 'missing.so'}")
    monkeypatch.setenv("HIPDNN_IREE_PLUGINS_MODE", "absolute")
    assert [c.path for c in candidates()] == [extra, tmp_path / "missing.so"]
    assert [e.source() for e in engines()] == [str(extra)]
    monkeypatch.setenv("HIPDNN_IREE_PLUGINS_MODE", "additive")
    assert [e.source() for e in engines()] == [str(extra)]  # before plugins/ in the order
    monkeypatch.setenv("HIPDNN_IREE_PLUGINS_MODE", "off")
    assert candidates() == []
    assert engines() == ()


@pytest.mark.parametrize("what", ["file", "folder", "owner"])
def test_a_plugin_that_others_may_write_is_not_loaded(
    what: str, fresh_naive: Naive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = fresh_naive("crash_on_load").replace(tmp_path / "plugins.so")
    (tmp_path / "plugins").mkdir()
    path = path.rename(tmp_path / "plugins" / "crash_on_load.so")
    if what == "owner":
        if os.geteuid():
            pytest.skip("only root can give a file away")
        os.chown(path, 12345, 12345)
    else:
        (path if what == "file" else path.parent).chmod(0o777)
    monkeypatch.setenv("HIPDNN_PLUGIN_DIR", str(path.parent))
    ((_, wrong),) = candidates()
    assert wrong is not None
    assert wrong.rule == "FOREIGN-12"
    assert ("12345" if what == "owner" else "everybody") in wrong.got
    (report,) = reports()
    assert (report.usable, report.problems) == (False, (wrong,))
    assert not list((tmp_path / "cache").rglob("*.json"))  # it was not asked
    with pytest.raises(NotSupportedError, match="FOREIGN-12"):
        open_plugin(path)


def test_answers_that_somebody_else_may_have_written_are_not_taken(
    fresh_naive: Naive, tmp_path: Path
) -> None:
    plugin = fresh_naive()
    look(plugin)
    (answer,) = (tmp_path / "cache/foreign").iterdir()
    forged = json.loads(answer.read_bytes()) | {"version": "forged"}
    answer.write_text(json.dumps(forged))
    assert look(plugin).version == "forged"
    answer.parent.chmod(0o777)
    assert look(plugin).version != "forged"


def test_default_folder_is_beside_the_backend(
    fresh_naive: Naive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lib = tmp_path / "rocm" / "lib"
    (lib / "hipdnn_plugins" / "engines").mkdir(parents=True)
    (lib / "libhipdnn_backend.so").write_bytes(b"")
    fresh_naive("naive").rename(lib / "hipdnn_plugins" / "engines" / "naive.so")
    monkeypatch.setenv("HIPDNN_PLUGIN_DIR", "")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(lib))
    assert [e.NAME for e in engines()] == ["TEST_NAIVE_ENGINE"]


def test_the_built_in_engines_keep_their_ids(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIPDNN_IREE_PLUGINS", str(library))
    (report,) = reports()
    assert (report.usable, report.problems[0].rule) == (False, "FOREIGN-07")
    assert engines() == ()


def test_open_plugin_says_why_not(fresh_naive: Naive, tmp_path: Path) -> None:
    with pytest.raises(NotSupportedError, match="FOREIGN-11"):
        open_plugin(fresh_naive("null_name"))
    with pytest.raises(NotSupportedError, match="FOREIGN-01"):
        open_plugin(tmp_path / "nothing.so")


def test_reports_are_json(fresh_naive: Naive) -> None:
    from hipdnn_iree.provider.engines.foreign.probe_report import Report

    report = look(fresh_naive("null_handle"))
    assert Report.from_dict(json.loads(json.dumps(report.as_dict()))) == report


@pytest.mark.parametrize(
    "damage",
    [
        lambda about: b"[" * 100_000,
        lambda about: b'{"problems": [5]}',
        lambda about: json.dumps({**about, "engines": [{"id": 1e999, "name": ""}]}).encode(),
        lambda about: json.dumps({**about, "engines": [{"id": None, "name": ""}]}).encode(),
        lambda about: json.dumps({**about, "problems": [{"rule": 5}]}).encode(),
        lambda about: json.dumps({**about, "said": {"a": 1}}).encode(),
        lambda about: b"9" * 5000,
    ],
)
def test_a_remembered_answer_that_is_damaged_is_asked_for_again(
    fresh_naive: Naive, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, damage: Any
) -> None:
    monkeypatch.setenv("HIPDNN_IREE_CACHE_DIR", str(tmp_path / "cache"))
    plugin = fresh_naive()
    sound = look(plugin)
    (file,) = (tmp_path / "cache" / "foreign").iterdir()
    file.write_bytes(damage(sound.as_dict()))
    assert look(plugin) == sound
    assert json.loads(file.read_bytes()) == sound.as_dict()


@pytest.mark.parametrize("variable", ["LD_LIBRARY_PATH", "ROCM_PATH", "HIPDNN_PLUGIN_DIR"])
@pytest.mark.parametrize("place", ["x" * 300, "loop", "x/" * 3000, "\udcff\udcfe"])
def test_places_that_cannot_be_looked_at(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, place: str
) -> None:
    """Folders that may not be entered are in the soak: they are open to root."""
    (tmp_path / "loop").symlink_to("loop")
    for value in (tmp_path / place, tmp_path / place / "lib"):
        monkeypatch.setenv(variable, str(value))
        candidates()
        assert reports() == []
        assert engines() == ()


def test_a_plugin_that_is_named_as_what_is_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPDNN_IREE_DESELECT", "\udcff")
    graph = Graph(io_data_type="float")
    graph.relu(graph.tensor(dims=(4,))).set_output()
    assert choose(graph.freeze(), "cpu").served
