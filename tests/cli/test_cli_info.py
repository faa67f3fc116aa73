# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``engines``, ``targets``, ``env`` and ``cache``: what is here."""

from __future__ import annotations

import os
import re
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hipdnn_iree import Target, __version__, load
from hipdnn_iree.graph_api.ops import OPS
from hipdnn_iree.jit.settings import KNOBS
from hipdnn_iree.provider.cli import cache as cache_module
from hipdnn_iree.provider.cli import env as env_module
from hipdnn_iree.provider.cli import probes
from hipdnn_iree.provider.engine_ids import engine_id
from hipdnn_iree.provider.engines.torch.torch_engine import TorchEngine

Cli = Callable[..., Any]


def test_engines(cli: Cli) -> None:
    found = cli("engines", "--json")
    assert (found.code, found.err) == (0, "")
    iree, torch, split, hipdnn, reference = found.json()["engines"]
    for row, name, alias in (
        (iree, "IREE_JIT_ENGINE", "iree"),
        (reference, "REFERENCE_ENGINE", "reference"),
    ):
        assert (row["name"], row["alias"], row["version"]) == (name, alias, __version__)
        assert row["id"] == str(engine_id(name))
        assert row["id_hex"] == f"0x{engine_id(name) % 2**64:016X}"
        assert Path(row["source"]).name == f"{alias}_engine.py"
        assert Path(row["source"]).is_file()
        assert set(row["ops"]) == set(OPS)
    assert (torch["name"], torch["alias"]) == ("TORCH_CPU_ENGINE", "torch")
    assert (hipdnn["name"], hipdnn["alias"]) == ("HIPDNN_BACKEND", "hipdnn")
    rows = (iree, torch, split, hipdnn, reference)
    assert [row["default"] for row in rows] == [True] + [False] * 4
    assert iree["targets"] == list(Target.known())
    assert reference["targets"] == ["cpu"]
    table = cli("engines").out
    assert table.startswith("name ")
    assert iree["id_hex"] in table
    assert "on request" in table
    assert iree["source"] in table
    assert max(map(len, table.partition("\n\n")[0].splitlines())) <= 120
    assert f"{len(OPS)} of {len(OPS)}" in table
    missing = sorted(set(OPS) - set(torch["ops"]))
    assert f"serves all ops but {', '.join(missing)}" in table


def test_targets(cli: Cli) -> None:
    rows = cli("targets", "--json").json()["targets"]
    assert [row["target"] for row in rows] == list(Target.known())
    found = {row["target"]: row for row in rows}
    assert found["mi300x"] == {
        "target": "mi300x",
        "arch": "gfx942",
        "family": "cdna3",
        "backend": "rocm",
        "drivers": ["hip"],
    }
    assert len(cli("targets").out.splitlines()) == len(rows) + 3


# ---------------------------------------------------------------------------- env


def test_env(cli: Cli, monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> None:
    monkeypatch.setenv("HIPDNN_IREE_THREADS", "2")
    monkeypatch.setenv("HIPDNN_IREE_CACHEDIR", "/x")
    found = cli("env", "--json")
    assert found.code == 0
    assert "HIPDNN_IREE_CACHEDIR is no setting; did you mean HIPDNN_IREE_CACHE_DIR?" in found.err
    about = found.json()
    assert set(about) == set(env_module.JSON)
    assert about["hipdnn_iree"]["version"] == __version__
    assert about["python"]["executable"] == sys.executable
    assert about["packages"]["numpy"]
    settings = {row["name"]: row for row in about["settings"]}
    assert set(settings) == {knob.name for knob in KNOBS}
    assert settings["runtime.threads"]["value"] == "2"
    assert settings["runtime.threads"]["origin"] == "environment"
    assert settings["runtime.driver"]["origin"] == "default"
    assert about["unknown_variables"] == {
        "HIPDNN_IREE_CACHEDIR": "did you mean HIPDNN_IREE_CACHE_DIR?"
    }
    assert (about["cache"]["root"], about["cache"]["entries"]) == (str(own_cache), 0)
    assert about["cpu"]["processors"] >= about["cpu"]["usable"] >= 1
    assert isinstance(about["rocm"]["libraries"], list)
    assert isinstance(about["torch"]["present"], bool)
    text = cli("env").out
    assert "runtime.threads" in text
    assert all(section.replace("_", " ") in text for section in about)


def test_env_prints_when_everything_is_broken(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPDNN_IREE_THREADS", "many")
    found = cli("env", "--json")
    assert found.code == 0
    about = found.json()
    assert "HIPDNN_IREE_THREADS is 'many'" in about["settings"]["error"]
    assert about["cpu"]["processors"] >= 1

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("broken")

    for name in ("os.uname", "os.sched_getaffinity", "importlib.util.find_spec"):
        monkeypatch.setattr(name, broken)
    monkeypatch.setattr("importlib.metadata.version", broken)
    monkeypatch.setattr("subprocess.run", broken)
    about = cli("env", "--json").json()
    for section in ("platform", "cpu", "torch"):
        assert about[section] == {"error": "RuntimeError: broken"}
    assert about["packages"]["numpy"] == "unreadable: broken"
    assert about["rocm"]["kernel_driver"] in (True, False)
    assert "RuntimeError: broken" in cli("env").out


def test_rocm_is_found_and_asked_in_another_process(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "libamdhip64.so").write_bytes(b"no library")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere:{tmp_path}")
    monkeypatch.setenv("IREE_HIP_DYLIB_PATH", str(tmp_path / "libamdhip64.so"))
    about = cli("env", "--json").json()["rocm"]
    assert about["libraries"][0] == str(tmp_path / "libamdhip64.so")
    assert "probe" not in about
    about = cli("env", "--json", "--probe").json()["rocm"]
    assert "it ended with status 1: OSError" in about["probe"]["error"]


def test_gpus_are_read_from_the_kernel_driver(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for i, version in enumerate((0, 90402, 90010)):
        (tmp_path / str(i)).mkdir()
        text = f"cpu_cores_count 4\ngfx_target_version {version}\n"
        (tmp_path / str(i) / "properties").write_text(text)
    monkeypatch.setattr(
        probes, "Path", lambda *parts: tmp_path if "kfd" in parts[0] else Path(*parts)
    )
    assert probes._gpus() == ["gfx942", "gfx90a"]


# ---------------------------------------------------------------------------- cache


@pytest.fixture
def filled(own_cache: Path, graphs: Path) -> Path:
    """A cache with one real entry."""
    load(graphs / "add.json").build("cpu")
    return own_cache


def entries_of(root: Path) -> list[Path]:
    return list(root.glob("v2/??/*"))


def entry_of(root: Path) -> Path:
    (path,) = entries_of(root)
    return path


def test_info(cli: Cli, filled: Path) -> None:
    about = cli("cache", "info", "--json").json()
    assert set(about) == set(cache_module.JSON["info"])
    assert (about["root"], about["mode"], about["off"]) == (str(filled), "on", "")
    assert about["entries"] == 1
    assert about["nbytes"] == entry_of(filled).stat().st_size
    assert about["newest"] == pytest.approx(time.time(), abs=60)
    text = cli("cache", "info").out
    assert f"folder       {filled}" in text
    assert "entries      1" in text
    # A cache that is switched off can be looked after all the same.
    off = cli("cache", "info", "--json", "--cache-dir", filled).json()
    assert off["entries"] == 1
    empty = cli("cache", "info", "--cache-dir", filled / "nothing")
    assert "used         never" in empty.out


def test_clear_asks(cli: Cli, filled: Path) -> None:
    found = cli("cache", "clear")
    assert found.code == 2
    assert "give --yes" in found.err
    assert cli("cache", "clear", "--json").json()["error"]["exit_code"] == 2
    assert entry_of(filled).exists()
    found = cli("cache", "clear", "--yes", "--json")
    assert found.code == 0
    about = found.json()
    assert set(about) == set(cache_module.JSON["clear"])
    assert (about["root"], about["entries"], about["nbytes_left"]) == (str(filled), 1, 0)
    assert not entries_of(filled)
    assert cli("cache", "clear", "-y").out.startswith("removed 0 entries (0 bytes)")


@pytest.mark.parametrize(
    ("answer", "said", "left"), [("y\n", "removed 1 entry", 0), ("n\n", "nothing was removed", 1)]
)
def test_clear_on_a_terminal(
    cli: Cli, filled: Path, answer: str, said: str, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_module, "_can_ask", lambda: True)
    found = cli("cache", "clear", stdin=answer)
    assert found.code == 0
    assert "remove 1 entry (" in found.err
    assert said in found.out + found.err
    assert str(filled) in found.err
    assert len(entries_of(filled)) == left


def test_trim(cli: Cli, filled: Path) -> None:
    about = cli("cache", "trim", "--json").json()
    assert set(about) == set(cache_module.JSON["trim"])
    assert about["entries"] == 0
    assert about["nbytes_left"] > 0
    assert cli("cache", "trim", "--max-bytes", "1G", "--json").json()["entries"] == 0
    assert cli("cache", "trim", "--max-bytes", "100", "--json").json()["entries"] == 1
    for bad in ("many", "0", "-1"):
        found = cli("cache", "trim", "--max-bytes", bad)
        assert found.code == 2
        assert "a positive number of bytes" in found.err


def test_verify(cli: Cli, filled: Path) -> None:
    found = cli("cache", "verify", "--json")
    assert found.code == 0
    about = found.json()
    assert set(about) == set(cache_module.JSON["verify"])
    assert (about["ok"], about["entries"], about["findings"]) == (True, 1, [])
    with zipfile.ZipFile(entry_of(filled)) as archive:
        part = archive.read("module.vmfb")
    data = entry_of(filled).read_bytes()
    entry_of(filled).write_bytes(data.replace(part, part[:-1] + bytes([part[-1] ^ 1])))
    found = cli("cache", "verify")
    assert found.code == 1
    assert f"{entry_of(filled).name}: module.vmfb its bytes do not have the SHA-256" in found.out
    found = cli("cache", "verify", "--json")
    assert found.code == 1
    (finding,) = found.json()["findings"]
    assert (finding["file"], finding["removed"]) == ("module.vmfb", False)
    found = cli("cache", "verify", "--repair", "--json")
    assert found.code == 1
    assert found.json()["findings"][0]["removed"] is True
    assert cli("cache", "verify").code == 0
    assert not entries_of(filled)


@pytest.mark.parametrize("name", ["shard", "tmp", "entry"])
def test_no_command_deletes_through_a_link_in_the_cache(
    cli: Cli, filled: Path, tmp_path: Path, name: str
) -> None:
    """Each was a link to a folder of the user, whose content was deleted."""
    entry = entry_of(filled)
    path = {"shard": entry.parent, "tmp": filled / "v2/tmp", "entry": entry}[name]
    precious = tmp_path / "precious"
    precious.mkdir()
    for file in ("notes.txt", entry.name):
        (precious / file).write_bytes(b"mine")
        os.utime(precious / file, (1e9, 1e9))
    path.rename(tmp_path / "away")
    path.symlink_to(precious)
    found = cli("cache", "verify", "--json")
    assert found.code == 1
    for words in (
        ("cache", "trim", "--max-bytes", "1"),
        ("cache", "clear", "--yes"),
        ("cache", "verify", "--repair"),
        ("cache", "trim", "--max-bytes", "1"),
    ):
        cli(*words)
        assert {p.name for p in precious.iterdir()} == {"notes.txt", entry.name}, words
    assert cli("cache", "verify").code == 0
    assert [p.readlink() for p in path.parent.glob("aside-*")] == [precious]


def test_a_cache_folder_that_cannot_be_trusted(cli: Cli, own_cache: Path) -> None:
    own_cache.mkdir()
    own_cache.chmod(0o777)
    about = cli("cache", "info", "--json").json()
    assert "everybody may write into it" in about["off"]
    found = cli("cache", "verify")
    assert "everybody may write into it" in found.err
    assert "everybody may write into it" in cli("cache", "clear", "--yes", "--json").json()["off"]


def test_options_of_a_command_stand_apart_from_settings(cli: Cli) -> None:
    text = cli("run", "--help").out
    parts = re.split(r"^(\S.*):$", text, flags=re.MULTILINE)
    options = {
        title: re.findall(r"^  (?:-\w, )?(--[\w-]+)", part, re.MULTILINE)
        for title, part in zip(parts[1::2], parts[2::2], strict=True)
    }
    assert list(options) == ["Options", "Settings, for this call", "Options of every command"]
    own, settings, shared = options.values()
    assert {"--shape", "--target", "--verify"} <= set(own)
    assert {"--cache", "--threads"} <= set(settings)
    assert "GRAPH" not in text.partition("Options:")[2].split()
    assert set(shared) == {"--json", "--verbose", "--quiet", "--traceback", "--help"}


def test_an_engine_that_is_not_installed_says_so(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TorchEngine, "version", lambda self: "")
    lines = cli("engines").out.splitlines()
    assert lines[2].split()[3] == "absent"
    assert any(line.endswith("; it needs the extra hipdnn-iree[torch]") for line in lines)


def test_why_the_cache_is_off(cli: Cli) -> None:
    (line,) = [x for x in cli("env").out.splitlines() if x.startswith("  off ")]
    assert line.split() == ["off", "no"]
