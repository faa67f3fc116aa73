# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree plugin``: where the library is, installing it, and the diagnosis."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hipdnn_iree.graph_api.errors import NotSupportedError
from hipdnn_iree.hipdnn_plugin import doctor, library
from hipdnn_iree.hipdnn_plugin.doctor import Finding
from hipdnn_iree.jit.settings import scope, settings
from hipdnn_iree.provider.engines.foreign import discovery
from hipdnn_iree.provider.native.library import read_record


def command(*words: object, env: dict[str, str] | None = None) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "hipdnn_iree", "plugin", *map(str, words)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.returncode, done.stdout, done.stderr


def states(findings: list[Finding], check: str) -> dict[str, str]:
    return {f.text: f.state for f in findings if f.check == check}


def test_path() -> None:
    code, out, err = command("path", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    path = Path(found["library"])
    assert path.is_file()
    assert [p.name for p in Path(found["folder"]).glob("*.so")] == [path.name]
    assert command("path")[1] == f"{path}\n"


def test_install_and_run(host: Any, tmp_path: Path) -> None:
    folder = tmp_path / "hipdnn_plugins" / "engines"
    code, out, err = command("install", folder)
    assert (code, err) == (0, "")
    copy = folder / library.NAME
    assert str(copy) in out
    assert copy.is_file()
    assert not copy.is_symlink()
    assert {p.name for p in folder.iterdir()} == {library.NAME, f"{library.NAME}.python"}
    assert Path(read_record(copy)["python"]).samefile(sys.executable)
    assert host.run("start", library=copy)["status"] == "0"
    assert command("install", folder)[0] == 0  # again, over itself
    assert host.run("start", library=copy, era="n25")["status"] == "0"
    (tmp_path / "file").write_text("")
    assert command("install", tmp_path / "file" / "folder")[0] == 2


PLANTED = b"\x7fELF planted by somebody else"


def planted(cache: Path) -> Path:
    """Put something else into the place where the library is built in a cache folder."""
    path = library.LIBRARY.build(cache / "plugin", settings())
    path.write_bytes(PLANTED)
    return path


@pytest.fixture
def not_shipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(library, "LIBRARY", replace(library.LIBRARY, shipped=tmp_path / "none"))


@pytest.mark.usefixtures("not_shipped")
def test_what_somebody_planted_in_the_cache_is_not_installed(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    planted(tmp_path / "cache")
    (tmp_path / "cache").chmod(0o777)
    with scope(cache_dir=tmp_path / "cache"):
        copy = library.LIBRARY.install(tmp_path / "engines", settings())
    assert copy.read_bytes() != PLANTED


@pytest.mark.usefixtures("not_shipped")
@pytest.mark.parametrize("open_to_all", [".", "plugin", "plugin/hash"])
def test_a_library_is_not_taken_from_where_everybody_may_write(
    tmp_path: Path, open_to_all: str
) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    path = planted(cache)
    folder = path.parent if open_to_all == "plugin/hash" else cache / open_to_all
    folder.chmod(0o777)
    with scope(cache_dir=cache), pytest.raises(OSError, match="everybody may write"):
        library.LIBRARY.find(settings())
    code, out, err = command("path", env={"HIPDNN_IREE_CACHE_DIR": str(cache)})
    if code:  # 0 where the library is shipped
        assert "everybody may write" in err
        assert out == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.usefixtures("not_shipped")
@pytest.mark.parametrize("what", ["library", "record", "folder"])
def test_a_library_of_another_user_is_not_taken(tmp_path: Path, what: str) -> None:
    path = planted(tmp_path)
    given = {"library": path, "record": Path(f"{path}.python"), "folder": path.parent}[what]
    os.chown(given, 12345, 12345)
    with scope(cache_dir=tmp_path):
        if what == "folder":
            with pytest.raises(OSError, match="user 12345"):
                library.LIBRARY.find(settings())
        else:  # it is built anew in a folder of our own
            assert library.LIBRARY.find(settings()).read_bytes() != PLANTED
            assert given.stat().st_uid == 0


def test_installing_where_everybody_may_write_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    copy = library.LIBRARY.install(tmp_path / "open", settings())
    assert "everybody may write" in caplog.text
    found = [f for f in doctor.examine(settings(), copy.parent) if f.check == "file"]
    assert [(f.state, f.cause) for f in found] == [("problem", "DEPLOY-04")]
    assert "everybody may write" in found[0].text


def test_doctor_of_a_good_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROCM_PATH", raising=False)
    copy = library.LIBRARY.install(tmp_path, settings())
    findings = doctor.examine(settings(), tmp_path)
    assert list(states(findings, "file").values()) == ["ok"]
    assert set(states(findings, "packages").values()) == {"ok"}
    assert "folder" not in {f.check for f in findings}
    twin = Path(shutil.copy(copy, tmp_path / "zz.so"))
    shutil.copy(f"{copy}.python", f"{twin}.python")
    (clash,) = states(doctor.examine(settings(), tmp_path), "engine id").items()
    assert clash[1] == "problem"
    assert str(twin) in clash[0]


def test_doctor_tells_what_is_wrong_with_a_folder(tmp_path: Path) -> None:
    def only(check: str) -> tuple[str, str]:
        (found,) = states(doctor.examine(settings(), tmp_path), check).items()
        return found

    assert "is not in" in only("folder")[0]
    built = library.LIBRARY.find(settings())
    versioned = Path(shutil.copy(built, tmp_path / f"{library.NAME}.1"))
    text, state = only("file")
    assert (state, "DEPLOY-02" in text) == ("problem", True)
    link = tmp_path / library.NAME
    link.symlink_to(versioned)
    found = states(doctor.examine(settings(), tmp_path), "file")
    assert any(str(link) in text and state == "problem" for text, state in found.items())
    link.unlink()
    versioned.unlink()
    copy = Path(shutil.copy(built, tmp_path))
    text, state = only("file")
    assert (state, "DEPLOY-08" in text) == ("problem", True)
    record = Path(f"{copy}.python")
    record.write_text("python = /nowhere/bin/python3\nversion = 3.11\n")
    text, state = only("file")
    assert (state, "DEPLOY-11" in text) == ("problem", True)
    copy.write_bytes(b"no library at all")
    text, state = only("file")
    assert (state, "DEPLOY-03" in text) == ("problem", True)
    assert "No such file" in next(
        iter(states(doctor.examine(settings(), tmp_path / "nowhere"), "folder"))
    )


def test_doctor_command(tmp_path: Path) -> None:
    code, out, err = command("doctor", tmp_path, "--json")
    assert (code, err) == (1, "")
    found = json.loads(out)
    assert not found["ok"]
    assert {"check", "state", "text", "cause"} == set(found["findings"][0])
    words = command("doctor", env={"HIPDNN_PLUGIN_DIR": str(tmp_path)})
    assert words[0] == 1
    assert f"hipdnn-iree plugin install {tmp_path}" in words[1]


def test_doctor_finds_backends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lib").mkdir()
    backend = tmp_path / "lib" / doctor.BACKEND
    backend.write_bytes(b"")
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    monkeypatch.delenv("HIPDNN_PLUGIN_DIR", raising=False)
    assert backend in discovery.backends(settings())
    assert tmp_path / "lib" / "hipdnn_plugins" / "engines" in discovery.folders(
        settings(), every=True
    )


def test_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(NotSupportedError, match="no C compiler"):
        library.LIBRARY.build(tmp_path / "cache", settings())
    cc = tmp_path / "cc"
    cc.write_text("#!/bin/sh\necho broken compiler >&2\nexit 3\n")
    cc.chmod(0o755)
    with pytest.raises(NotSupportedError, match="broken compiler"):
        library.LIBRARY.build(tmp_path / "cache", settings())
    assert not list((tmp_path / "cache").rglob("*.so"))


def test_built_once_for_all_processes(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from hipdnn_iree.hipdnn_plugin import library;"
        "from hipdnn_iree.jit.settings import settings;"
        "print(library.LIBRARY.build(Path(sys.argv[1]), settings()))"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "cache")]
    running = [
        subprocess.Popen(words, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    found = {process.communicate(timeout=300)[0] for process in running}
    assert len(found) == 1
    assert all(process.returncode == 0 for process in running)
    assert len(list((tmp_path / "cache").rglob("*.so"))) == 1
