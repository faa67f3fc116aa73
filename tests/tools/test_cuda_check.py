# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The check on GPUs, as far as a machine without one goes: the same calls on the host."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hipdnn_iree.jit.settings import scope
from hipdnn_iree.jit.target import Target

from tools.gpu.gpu_calls import CHECKS, Bench, check_calls
from tools.gpu.gpu_memory import HostMemory

ROOT = Path(__file__).resolve().parents[2]
CPU = Target.parse("cpu")


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with scope(runtime_driver="local-task"):
        yield Bench.make(CPU, HostMemory(), rows=32, repeat=6)


def test_every_call_on_the_host(bench: Bench) -> None:
    rows = {row["check"]: row for row in check_calls(bench)}
    assert [row for row in rows.values() if not row["ok"]] == []
    assert len(rows) == len(CHECKS) - 2  # the host has no streams
    assert {"many_us", "loop_us", "ratio"} <= rows["many_sets"].keys()


def test_a_wrong_result_is_seen(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = HostMemory.get

    def lies(self: Any, buffer: Any) -> Any:
        return honest(self, buffer) + 1e-2

    monkeypatch.setattr(HostMemory, "get", lies)
    rows = list(check_calls(bench))
    assert {"through_dlpack", "raw_pointers", "started_runs", "many_sets"} <= {
        row["check"] for row in rows if not row["ok"] and "AssertionError: off by" in row["error"]
    }


def test_without_a_gpu_it_says_so_and_checks_nothing(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "cuda_check", "--json", report],
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode in (0, 1):  # there is one
        assert json.loads(report.read_text())["machine"]["gpu"]
        return
    assert done.returncode == 3
    assert "no cuda device here; it needs an NVIDIA GPU" in done.stderr
    assert "nothing was checked" in done.stderr
    assert done.stdout == ""
    assert not report.exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--target", "gfx942"], "gfx942 is no CUDA target"),
        (["--target", "sm_7"], "unknown target"),
    ],
)
def test_bad_arguments(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "cuda_check"), run_name="cuda_check")
    with pytest.raises(SystemExit) as caught:
        script["main"](words)
    assert caught.value.code == 2
    assert told in capsys.readouterr().err
