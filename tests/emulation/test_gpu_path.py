# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What runs on an AMD GPU, run on emulated ones: commands, plans, plugin, foreign engines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hipdnn_iree import Graph

HERE = Path(__file__).resolve().parent


@pytest.mark.slow
def test_all_of_it() -> None:
    """In a process of its own, as a process has one library of HIP."""
    pytest.importorskip("hip")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(
        [*words, "--tb=short", str(HERE / "on_a_gpu.py")],
        env={k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")},
        cwd=HERE.parents[1],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert not done.returncode, f"{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("how", ["option", "variable"])
def test_a_command_of_its_own(how: str, tmp_path: Path) -> None:
    """As a user types it; on the second of two GPUs."""
    g = Graph("three", io_data_type="float")
    g.exp(g.tensor(dims=(3, 5), name="x")).set_output()
    g.save(tmp_path / "graph.json")
    words = ["run", str(tmp_path / "graph.json"), "--target", "gfx942", "--device", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "hipdnn_iree", *words, "--verify", "--json"]
        + ["--emulate"] * (how == "option"),
        env={**os.environ} | ({"HIPDNN_IREE_EMULATE": "gfx942,gfx942"} if how != "option" else {}),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert not done.returncode, done.stderr
    found = json.loads(done.stdout)
    assert (found["verified"], found["emulated"]) == (True, True)


def test_compiled_code_is_checked(tmp_path: Path) -> None:
    """For two GPUs at once, and at the sizes of the examples where they are open."""
    g = Graph("rows", io_data_type="half", compute_data_type="float")
    x = g.tensor(dims=(g.dynamic("n", range=(1, 64), example=5), 24), name="x")
    g.relu(g.mul(x, g.tensor(dims=(1, 24), name="w"))).set_output()
    g.save(tmp_path / "graph.json")
    words = ["compile", str(tmp_path / "graph.json"), "--target", "gfx942,gfx90a", "--check"]
    done = subprocess.run(
        [sys.executable, "-m", "hipdnn_iree", *words, "--json"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert not done.returncode, done.stderr
    found = json.loads(done.stdout)
    assert found["summary"]["wrong"] == 0
    for row, target in zip(found["targets"], ("gfx942", "gfx90a"), strict=True):
        assert (row["target"], row["emulated"], row["verified"]) == (target, True, True)
        assert row["max_rel_error"] < 2.0**-10
