# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The soak (``scripts/soak``): its driver survives what it attacks, and its short form holds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tools.soak import driver
from tools.soak.attack import Result, watch_memory

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def attacked(monkeypatch: pytest.MonkeyPatch) -> None:
    row = driver.Attack(1, "what goes wrong", silence_s=6, module="soak_attacks")
    monkeypatch.setattr(driver, "ATTACKS", {"fake": row})
    monkeypatch.setattr(driver, "_MOST_CRASHES", 1)


def drive(seed: int) -> Result:
    found = driver.drive(["fake"], 0.2, seed, 1, lambda *_: None)
    return found["fake"][0]


@pytest.mark.usefixtures("attacked")
def test_what_holds_is_counted() -> None:
    found = drive(0)
    assert found.counts["good"] > 1
    assert not found.failures


def test_so_many_inputs_are_tried_though_the_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = driver.Attack(1, "slow machines", silence_s=60, module="soak_attacks", least=7)
    monkeypatch.setattr(driver, "ATTACKS", {"fake": row})
    found = driver.drive(["fake"], 0, 0, 1, lambda *_: None)
    assert found["fake"][0].counts["good"] == 7


@pytest.mark.parametrize(
    ("seed", "case", "what"),
    [
        (1, b"broken", "a promise"),
        (2, b"foreign", "ZeroDivisionError at soak_attacks.py"),
        (3, b"crash", "the attacked process ended: SIGABRT"),
        (4, b"hang", "no answer for 6 s"),
    ],
)
@pytest.mark.usefixtures("attacked")
def test_every_failure_is_kept_and_can_be_tried_again(
    seed: int, case: bytes, what: str, tmp_path: Path
) -> None:
    found = drive(seed)
    failure = found.failures[0]
    assert what in failure.what
    assert failure.case == case
    (row,) = driver.report({"fake": (found, 1.0)}, tmp_path)["fake"]["failures"][:1]
    saved = Path(row["replay"].rpartition(" ")[2])
    assert saved.read_bytes() == case
    if case != b"hang":
        assert what in driver.replay(saved).failures[0].what


def test_growth_is_what_comes_after_the_start() -> None:
    flat, growing = Result(), Result()
    with watch_memory(flat) as note:
        for size in [10.0, *[500.0] * 99]:
            note(size)
    with watch_memory(growing) as note:
        for size in range(200):
            note(float(size))
    assert (flat.growth_mib, flat.peak_mib, flat.failures) == (0, 500, [])
    assert growing.growth_mib == 100
    assert "memory grows: 100 MiB" in growing.failures[0].what


def soak(tmp_path: Path, *options: str) -> dict[str, Any]:
    """Run the script, and return its report."""
    report = tmp_path / "report.json"
    words = [ROOT / "scripts" / "soak", "--json", report, "--out", tmp_path / "out", *options]
    done = subprocess.run(
        [sys.executable, *map(str, words)], capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "everything held" in done.stdout
    found: dict[str, Any] = json.loads(report.read_text())
    return found


@pytest.mark.slow
def test_a_minute_of_every_attack(tmp_path: Path) -> None:
    found = soak(tmp_path, "--seconds", "60", "--seed", "1")["attacks"]
    assert set(found) == set(driver.known())
    for name in ("graph_bytes", "graph_json", "plugin"):
        assert found[name]["total"] > 100, found[name]
