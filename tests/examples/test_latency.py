# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``benchmarks/latency.py``: it measures what it says, and prints it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

FILE = Path(__file__).resolve().parents[2] / "benchmarks" / "latency.py"


@pytest.fixture
def latency() -> ModuleType:
    spec = importlib.util.spec_from_file_location("latency", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_first_results(
    latency: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.setenv("HIPDNN_IREE_CACHE_DIR", "restored after the test")
    monkeypatch.setattr(latency, "WAYS", ("floor", "again, artifact"))
    found = latency.first_results(1, tmp_path)
    assert set(found) == {"floor", "again, artifact"}
    for row in found.values():
        assert 0 < row["cpu"]["best"] <= row["cpu"]["median"]
        assert row["wall"]["best"] > 0
    assert len(latency.mixed(3)) == 3
    latency.print_tables({"first_result_ms": found})
    assert "again, artifact" in capsys.readouterr().out


def test_a_summary(latency: ModuleType) -> None:
    assert latency.summary([0.003, 0.001, 0.002]) == {
        "best": 1.0,
        "median": 2.0,
        "quartile_1": 1.0,
        "quartile_3": 3.0,
    }
    assert latency.summary([0.5], 1)["quartile_3"] == 0.5
