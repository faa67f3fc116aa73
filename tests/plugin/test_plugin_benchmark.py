# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``benchmarks/plugin.py``: it runs the host of these tests, checks results, and tells figures."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "plugin.py"


def test_it_measures_and_verifies() -> None:
    words = [sys.executable, PROGRAM, "--rounds", "1", "--calls", "50", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(found) == {"machine", "limits", "graphs", "shapes"}
    assert len(found["graphs"]) == 2
    for figures in found["graphs"].values():
        assert set(found["limits"]) < set(figures)
        for row in figures.values():
            assert row["best"] <= row["median"] <= row["worst"]
        assert figures["start_ms"]["best"] > 0
        assert figures["total_ms"]["best"] > figures["start_ms"]["best"]
    assert all(ms > 0 for ms in found["shapes"].values())
