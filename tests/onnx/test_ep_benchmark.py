# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``benchmarks/onnx_runtime.py``: it compares, verifies, and tells figures of every part."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from ep_models import model, node, values

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "onnx_runtime.py"


def test_it_measures_and_verifies(tmp_path: Path) -> None:
    nodes = [
        node("Conv", "x w", "c", pads=[1] * 4),
        node("Relu", "c", "r"),
        node("GlobalAveragePool", "r", "p"),
        node("Flatten", "p", "f"),
        node("Gemm", "f v", "y", transB=1),
    ]
    weights = {"w": values((4, 3, 3, 3), 1), "v": values((5, 4), 2)}
    source = model(nodes, {"x": (1, 3, 8, 8)}, {"y": (1, 5)}, weights)
    (tmp_path / "m.onnx").write_bytes(source)
    words = [sys.executable, PROGRAM, "--model", tmp_path / "m.onnx", "--seconds", "0"]
    words += ["--rounds", "1", "--megabytes", "1", "--json", tmp_path / "found.json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode in (0, 1), done.stderr[-3000:]  # 1: a limit, on a busy machine
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["ok"] is (done.returncode == 0)
    (one,) = found["models"]
    assert one["verified"]
    assert one["declined"] == 0
    assert not one["apart"]
    assert {name for row in one["nodes"] for name in row["nodes"]} == {n.name for n in nodes}
    assert all(row["us"] > 0 < row["cpu_us"] for row in one["nodes"])
    assert one["worst"] in {row["name"] for row in one["nodes"]}
    assert found["binding"]["us"] > 0
    assert set(found["start"]["best"]) == {"cpu", "cached", "context"}
    assert found["memory"]["weights"] == 4 * 256 * 256 * 4
    assert found["memory"]["peak"]["cpu"] > 1 << 20
    assert f"{one['worst']}" in done.stdout


def test_a_part_that_does_not_exist() -> None:
    words = [sys.executable, PROGRAM, "speed"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2
    assert "there are models, binding, start, memory" in done.stderr
