# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree doctor`` names what is broken, and is stopped by none of it."""

from __future__ import annotations

import importlib.metadata
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hipdnn_iree
import pytest
from hipdnn_iree import load
from hipdnn_iree.provider.cli import diagnosis, probes

Cli = Callable[..., Any]
ROOT = Path(hipdnn_iree.__file__).resolve().parent.parent

Findings = dict[str, list[dict[str, str]]]


@pytest.fixture
def doctor(cli: Cli) -> Callable[..., tuple[int, Findings]]:
    def call(*words: str) -> tuple[int, Findings]:
        found = cli("doctor", *(words or ("--no-run",)), "--json")
        about = found.json()
        assert about["ok"] == (found.code == 0)
        by_check: Findings = {}
        for one in about["findings"]:
            assert (one["state"] == "ok") == (not one["remedy"]), one
            by_check.setdefault(one["check"], []).append(one)
        return found.code, by_check

    return call


def problem(findings: Findings, check: str) -> dict[str, str]:
    (one,) = (f for f in findings[check] if f["state"] == "problem")
    return one


def rocm(monkeypatch: pytest.MonkeyPatch, **about: Any) -> None:
    """Have a machine with one GPU of gfx942, but for what is given."""
    whole = {
        "libraries": ["/opt/rocm/lib/libamdhip64.so"],
        "kernel_driver": True,
        "gpus": ["gfx942"],
        "probe": {"runtime_version": 70000000, "devices": 1, "errors": [0, 0]},
    }
    monkeypatch.setattr(probes, "rocm", lambda *, probe: {**whole, **about})
    monkeypatch.setattr(diagnosis, "_DRIVER", "/dev/null")


def test_nothing_is_broken_here(cli: Cli, doctor: Any, own_cache: Path) -> None:
    code, found = doctor("--run")
    assert code == 0, found
    assert set(found) == set(diagnosis.CHECKS)
    assert "run, and right" in found["graph"][0]["found"]
    text = cli("doctor", "--no-run").out
    assert text.endswith("nothing is broken\n")
    assert "graph" not in doctor()[1]


# ---------------------------------------------------------------------------- packages


@pytest.mark.parametrize(
    ("found", "wanted", "right"),
    [
        ("3.13.0", ">=3.13.0,<3.14", True),
        ("3.13.9", "<3.14,>=3.13.0", True),
        ("3.14.0", ">=3.13.0,<3.14", False),
        ("3.14", ">=3.13.0,<3.14.0", False),
        ("3.12.9", ">=3.13.0", False),
        ("20261001", ">=20261001,<20261101", True),
        ("2.0", ">=2", True),
        ("10.0.0.0.1.2", ">=7.0,<10.1", True),
        ("3.13.0rc1", ">=3.13", True),  # a candidate passes for the release
    ],
)
def test_versions_are_compared(found: str, wanted: str, right: bool) -> None:
    assert diagnosis.fits(found, wanted) == right


def test_the_ranges_of_all_dependencies_can_be_read() -> None:
    """A range in another form than ``>=`` and ``<`` would never be told."""
    for line in importlib.metadata.requires("hipdnn-iree") or []:
        match = diagnosis._REQUIREMENT.match(line)
        assert match, line
        clauses = [part.strip() for part in (match[2] or "").strip(" ()").split(",") if part]
        assert all(diagnosis._CLAUSE.fullmatch(clause) for clause in clauses), line


def test_packages_that_are_wrong(doctor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.metadata.version
    versions = {
        "iree-base-compiler": "3.14.0",
        "torch-mlir": None,
        "onnx": "0.1",
        "mlir-python-bindings": "0.0",
    }

    def version(name: str) -> str:
        found = versions[name] if name in versions else real(name)
        if found is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return found

    monkeypatch.setattr(diagnosis, "version", version)
    code, found = doctor()
    assert code == 1
    texts = {one["found"]: one for one in found["packages"]}
    told = " | ".join(texts)
    assert "iree-base-compiler 3.14.0; wanted <3.14,>=3.13.0" in told
    assert "torch-mlir is missing; wanted <20261101,>=20261001" in told
    assert "the compiler is of version 3.14.0, the runtime of" in told
    (lacking,) = [one for text, one in texts.items() if text.startswith("torch-mlir is missing")]
    assert lacking["remedy"] == "pip install 'torch-mlir<20261101,>=20261001'"
    assert texts["onnx 0.1; wanted <1.24,>=1.19"]["state"] == "note"  # of an extra
    bindings = next(one for text, one in texts.items() if text.startswith("mlir-python-bindings"))
    assert bindings["state"] == "note"
    assert "inside torch-mlir's wheel" in bindings["found"]


def test_not_installed_at_all(doctor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def requires(name: str) -> list[str]:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(diagnosis, "requires", requires)
    code, found = doctor()
    assert code == 0
    assert "runs from a folder" in found["packages"][0]["found"]


@pytest.mark.parametrize("module", ["torch_mlir", "numpy"])
def test_a_package_that_cannot_be_imported(
    module: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, doctor: Any, own_cache: Path
) -> None:
    """The graph cannot be run then, and what it said is told."""
    package = tmp_path / "broken" / module
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('its library is damaged')\n")
    monkeypatch.syspath_prepend(str(package.parent))
    code, found = doctor("--run")
    assert code == 1
    said = problem(found, "graph")["found"]
    assert "its library is damaged" in said or f"{module}._core.umath failed to import" in said


def test_a_compiler_that_crashes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, doctor: Any, own_cache: Path
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nkill -SEGV $$\n")
    python.chmod(0o755)
    monkeypatch.setenv("HIPDNN_IREE_PYTHON", str(python))
    code, found = doctor("--run")
    assert code == 1
    assert found["graph"][0]["state"] == "problem"


def test_a_process_that_says_nothing(monkeypatch: pytest.MonkeyPatch, doctor: Any) -> None:
    monkeypatch.setattr(diagnosis, "_MAIN", "import os; os.abort()")
    code, found = doctor("--run")
    assert code == 1
    assert "it ended with status -6 and said: nothing" in problem(found, "graph")["found"]


def test_without_click() -> None:
    code = (
        "import sys; sys.modules['click'] = None\n"
        "from hipdnn_iree.provider.cli.main import main\n"
        "main(['doctor'])\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-c", code]
    found = subprocess.run(words, env=env, capture_output=True, text=True, timeout=300)
    assert found.returncode == 1
    assert {one["check"] for one in json.loads(found.stdout)["findings"]} == set(diagnosis.CHECKS)


# ---------------------------------------------------------------------------- settings, cache


def test_settings_that_are_wrong(doctor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPDNN_IREE_THREADS", "many")
    monkeypatch.setenv("HIPDNN_IREE_CACHEDIR", "/x")
    code, found = doctor()
    assert code == 1
    assert "HIPDNN_IREE_THREADS is 'many'" in problem(found, "settings")["found"]
    (note,) = (f for f in found["settings"] if f["state"] == "note")
    assert note["remedy"] == "set HIPDNN_IREE_CACHE_DIR, or unset it"
    for check in ("cache", "hipdnn"):  # which need settings, and are told all the same
        assert found[check][0]["state"] == "problem"


def test_a_cache_that_is_damaged(doctor: Any, own_cache: Path, graphs: Path) -> None:
    load(graphs / "add.json").build("cpu")
    (entry,) = own_cache.glob("v2/??/*")
    entry.write_bytes(entry.read_bytes()[:-100])
    code, found = doctor()
    assert code == 1
    assert problem(found, "cache")["remedy"] == "hipdnn-iree cache verify --repair"


def test_a_cache_that_cannot_be_used(
    doctor: Any, own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_cache.mkdir()
    own_cache.chmod(0o777)
    assert "everybody may write into it" in problem(doctor()[1], "cache")["found"]
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("HIPDNN_IREE_CACHE_DIR", str(file / "inside"))
    code, found = doctor()
    assert code == 1
    assert f"{file} is no folder" in problem(found, "cache")["found"]
    monkeypatch.setenv("HIPDNN_IREE_CACHE", "off")
    code, found = doctor()
    assert code == 0
    assert "switched off" in found["cache"][0]["found"]


def test_a_scratch_folder_that_is_wrong(
    doctor: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spaced = tmp_path / "my files"
    spaced.mkdir()
    for place, text in ((spaced, "has a space"), (tmp_path / "none", "FileNotFoundError")):
        monkeypatch.setattr("tempfile.tempdir", str(place))
        code, found = doctor()
        assert code == 1
        assert text in problem(found, "scratch")["found"]


# ---------------------------------------------------------------------------- GPU, hipDNN


@pytest.mark.parametrize(
    ("about", "state", "text", "remedy"),
    [
        ({}, "ok", "gfx942; HIP 70000000, /opt/rocm", ""),
        ({"kernel_driver": False, "gpus": []}, "note", "the CPU serves", "driver amdgpu"),
        ({"libraries": []}, "problem", "libamdhip64.so is not found", "install ROCm"),
        (
            {"probe": {"runtime_version": 1, "devices": 0, "errors": [0, 100]}},
            "problem",
            "HIP finds 0 devices (errors [0, 100])",
            "HIP_VISIBLE_DEVICES",
        ),
        ({"probe": {"error": "it crashed"}}, "problem", "it crashed", "reinstall ROCm"),
        ({"gpus": {"error": "OSError"}}, "problem", "the kernel's list", "rocminfo"),
        ({"gpus": ["gfx1100"]}, "note", "gfx1100: no code is made", "served are gfx908"),
    ],
)
def test_gpus(
    doctor: Any,
    monkeypatch: pytest.MonkeyPatch,
    about: dict[str, Any],
    state: str,
    text: str,
    remedy: str,
) -> None:
    rocm(monkeypatch, **about)
    code, found = doctor()
    assert code == (state == "problem")
    one = next(f for f in found["gpu"] if f["state"] == state)
    assert text in one["found"]
    assert remedy in one["remedy"]


def test_a_gpu_that_the_user_may_not_use(
    doctor: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rocm(monkeypatch)
    monkeypatch.setattr(diagnosis, "_DRIVER", str(tmp_path / "kfd"))
    code, found = doctor()
    assert code == 1
    assert "groups render and video" in problem(found, "gpu")["remedy"]
    real = diagnosis._installed
    monkeypatch.setattr(diagnosis, "_DRIVER", "/dev/null")
    monkeypatch.setattr(
        diagnosis, "_installed", lambda name: None if name == "hip-python" else real(name)
    )
    assert "hip-python is missing" in problem(doctor()[1], "gpu")["found"]


def test_a_hipdnn_that_cannot_use_the_engine(
    doctor: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "libhipdnn_backend.so").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    said = {"ok": False, "findings": [{"check": "folder", "state": "problem", "text": "empty"}]}
    monkeypatch.setattr(diagnosis, "_ourselves", lambda *words: (1, said))
    code, found = doctor()
    assert code == 1
    assert problem(found, "hipdnn")["found"] == "folder: empty"
    monkeypatch.setattr(diagnosis, "_ourselves", lambda *words: (0, {"ok": True, "findings": []}))
    code, found = doctor()
    assert (code, found["hipdnn"][0]["state"]) == (0, "ok")
    broken = (5, {"error": {"message": "a bug"}})
    monkeypatch.setattr(diagnosis, "_ourselves", lambda *words: broken)
    assert "a bug" in problem(doctor()[1], "hipdnn")["found"]


def test_a_check_that_fails_is_a_problem_and_stops_no_other(
    doctor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(probes, "rocm", broken)
    monkeypatch.setattr("platform.machine", broken)
    monkeypatch.setattr(diagnosis, "requires", broken)
    code, found = doctor()
    assert code == 1
    for check in ("python", "packages", "gpu"):
        assert "this cannot be looked at: RuntimeError: broken" in problem(found, check)["found"]
    assert found["settings"][0]["state"] == "ok"


def test_no_compiler_for_c(doctor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    code, found = doctor()
    assert code == 0
    if not (ROOT / "hipdnn_plugin" / "engines").is_dir():
        assert "no no-such-compiler" in found["compiler"][0]["found"]


def test_another_python(doctor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.python_implementation", lambda: "PyPy")
    assert "CPython 3.11" in problem(doctor()[1], "python")["remedy"]
    monkeypatch.undo()
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert "Linux on x86-64" in problem(doctor()[1], "python")["remedy"]


def test_the_text_has_what_to_do_below_each_problem(cli: Cli, own_cache: Path) -> None:
    own_cache.mkdir()
    own_cache.chmod(stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO)
    found = cli("doctor", "--no-run")
    assert found.code == 1
    lines = found.out.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("problem  cache "))
    assert "HIPDNN_IREE_CACHE_DIR names another folder" in lines[at + 1]
    assert lines[-1] == "1 problem"
