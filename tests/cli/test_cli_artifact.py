# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree artifact``, and the commands that take an artifact like a graph file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hipdnn_iree.graph_api.errors import CompileError
from hipdnn_iree.jit import pipeline
from hipdnn_iree.provider.cli import artifact as artifact_module
from hipdnn_iree.provider.cli import probes

Cli = Callable[..., Any]


@pytest.fixture
def file(cli: Cli, graphs: Path, tmp_path: Path) -> Path:
    made = tmp_path / "add.hipdnn-iree"
    found = cli("artifact", "create", graphs / "add.json", "--target", "cpu,gfx90a", "-o", made)
    assert found.code == 0, found.err
    assert found.err.endswith(f"wrote {made}\n")  # behind progress, where it takes long
    return made


def test_create_show_verify(cli: Cli, graphs: Path, file: Path) -> None:
    about = cli("artifact", "show", file, "--json").json()
    assert set(about) == {
        *("path", "nbytes", "format", "version", "made_by", "graph", "plans", "parts")
    }
    assert [p["target"] for p in about["plans"]] == ["cpu", "gfx90a"]
    here = [(p["runs_here"], p["why_not_here"]) for p in about["plans"]]
    assert here == [(True, ""), (False, "there is no AMD GPU here")]
    assert "there is no AMD GPU here" in cli("artifact", "show", file).out
    assert about["nbytes"] == file.stat().st_size
    again = cli("artifact", "create", graphs / "add.json", "--target", "cpu", "-o", file, "--json")
    assert [p["target"] for p in again.json()["plans"]] == ["cpu"]
    assert "cpu" in cli("artifact", "show", file).out
    found = cli("artifact", "verify", file, "--json")
    assert found.json() == {"path": str(file), "ok": True, "parts": 3, "plans": 1}
    assert set(found.json()) == set(artifact_module.JSON["verify"])
    assert "3 parts and 1 plan, sound" in cli("artifact", "verify", file).out


def test_damaged_or_missing(cli: Cli, file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    found = cli("artifact", "verify", file, "--json")
    assert found.code == 1
    assert found.json()["error"]["code"] == "E500"
    assert "SHA-256" in found.err
    found = cli("artifact", "show", file.with_name("none"))
    assert found.code == 2
    assert "[FILE-01]" in found.err


def test_run_show_explain(cli: Cli, graphs: Path, file: Path, own_cache: Path) -> None:
    about = cli("run", file, "--verify", "--json").json()
    assert (about["cache"], about["verified"]) == ("artifact", True)
    assert not own_cache.exists()
    shown = cli("show", file, "--json")
    assert shown.json() == cli("show", graphs / "add.json", "--json").json()
    assert cli("explain", file, "--json").json()["cache"]["state"] == "miss"
    other = cli("run", file, "--engine", "reference", "--json").json()
    assert other["engine"] == "REFERENCE_ENGINE"
    found = cli("run", file, "--target", "gfx950")
    assert found.code == 3
    assert "has no plan for gfx950; it has: cpu by" in found.err
    assert cli("run", "-", stdin=file.read_bytes()).code == 0


def test_nothing_is_written_when_a_target_fails(
    cli: Cli, graphs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(graph: Any, target: Any, options: Any) -> Any:
        if target.is_gfx9:
            raise CompileError("crashed", stage="crash")
        return real(graph, target, options)

    real = pipeline.compile_source
    monkeypatch.setattr(pipeline, "compile_source", refuse)
    made = tmp_path / "x"
    words = ["artifact", "create", graphs / "add.json", "--target", "cpu,gfx908", "-o", made]
    found = cli(*words, "--json")
    assert found.code == 4
    assert found.json()["error"]["stage"] == "crash"
    assert "gfx908: crashed" in found.err
    assert not made.exists()
    words[-3:] = ["cpu", "-o", tmp_path / "no" / "x"]
    found = cli(*words)
    assert found.code == 2
    assert "cannot write" in found.err


def test_what_runs_here_depends_on_the_gpus(
    cli: Cli, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ROCm's library is asked in another process; all of its answers are told."""

    def gpu(**about: Any) -> dict[str, Any]:
        whole = {"gpus": ["gfx90a"], "libraries": ["/x"], "probe": {"devices": 1}, **about}
        monkeypatch.setattr(probes, "rocm", lambda *, probe: whole)
        plan: dict[str, Any] = cli("artifact", "show", file, "--json").json()["plans"][1]
        assert plan["runs_here"] == (not plan["why_not_here"])
        return plan

    assert gpu()["runs_here"]
    assert gpu(gpus=["gfx942"])["why_not_here"] == "the GPUs here are gfx942"
    assert gpu(gpus={"error": "x"})["why_not_here"] == "there is no AMD GPU here"
    assert "libamdhip64.so is not found" in gpu(libraries=[])["why_not_here"]
    assert "it crashed" in gpu(probe={"error": "it crashed"})["why_not_here"]
    assert "it finds no device" in gpu(probe={"devices": 0})["why_not_here"]
    monkeypatch.setenv("HIPDNN_IREE_EMULATE", "gfx90a")
    assert gpu(gpus=[])["runs_here"]
    monkeypatch.setenv("HIPDNN_IREE_EMULATE", "gfx942")
    assert gpu()["why_not_here"] == "the emulated GPUs are gfx942"
