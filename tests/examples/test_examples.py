# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The examples run, and their JSON files are what their scripts build."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hipdnn_iree import load

FOLDER = Path(__file__).resolve().parents[2] / "examples"
SCRIPTS = sorted(p for p in FOLDER.glob("*.py") if p.name not in ("_common.py", "main_job.py"))
REQUIRED = {"conv_bias_relu", "conv_bias_relu_nhwc", "mlp", "residual_block", "int8_matmul"}


def run(*command: str) -> str:
    # The path makes the tests work in a bare checkout too.
    environment = {**os.environ, "PYTHONPATH": str(FOLDER.parent)}
    done = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        check=False,
        cwd=FOLDER.parent,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_examples_that_the_readme_promises_are_there() -> None:
    assert {p.stem for p in SCRIPTS} >= REQUIRED
    assert {p.stem for p in FOLDER.glob("*.json")} == {p.stem for p in SCRIPTS}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.stem)
def test_an_example_runs_and_verifies(script: Path) -> None:
    out = run(str(script), "gfx942")
    assert "; ok" in out
    assert "compiled for gfx942" in out


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.stem)
def test_the_json_file_is_the_graph_of_the_script(script: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, 'examples'); import importlib;"
        f"print(importlib.import_module({script.stem!r}).build().to_json())"
    )
    built = run("-c", code)
    stored = script.with_suffix(".json").read_text(encoding="utf-8")
    assert json.loads(stored) == json.loads(built), f"run {script.name} --json"
    load(script.with_suffix(".json")).freeze()


@pytest.mark.slow
def test_the_main_job() -> None:
    result = json.loads(run(str(FOLDER / "main_job.py"), "--json"))
    cpu, gfx9 = result["cpu"], result["gfx9"]
    assert cpu["verified"]
    assert (cpu["first"]["cache"], cpu["second"]["cache"]) == ("miss", "hit")
    assert (result["emulation"]["emulated"], result["emulation"]["verified"]) == (True, True)
    assert [row["target"] for row in gfx9] == ["gfx908", "gfx90a", "gfx942", "gfx950"]
    for row in gfx9:
        # One fused kernel with matrix instructions, nothing spilt, no memory in between.
        assert (row["dispatches"], row["fills"], row["transient_bytes"]) == (1, 0, 0), row
        assert row["mfma"] > 0, row
        assert row["spills"] == 0, row
