# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree tune``: rows, the stored winner, and what happens to it afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hipdnn_iree.provider.cli import tune as tune_module

Cli = Callable[..., Any]


def test_tune_explain_run_and_carry_away(
    cli: Cli, graphs: Path, own_cache: Path, tmp_path: Path
) -> None:
    graph = graphs / "add.json"
    rules = tmp_path / "rules.json"
    words = ["--budget", "0.05", "--engines", "iree,reference", "--json"]
    more = ["--export", rules, "--format", "hipdnn"]
    found = cli("tune", graph, graphs / "declined.json", *words, *more)
    assert found.code == 3  # the second graph
    about = found.json()
    assert set(about) == set(tune_module.JSON)
    assert about["winners"] == str(own_cache / "winners.json")
    tuned, declined = about["graphs"]
    assert declined["error"]["exit_code"] == about["error"]["exit_code"] == 3
    assert {r["engine"] for r in tuned["rows"]} == {"IREE_JIT_ENGINE", "REFERENCE_ENGINE"}
    assert {r["status"] for r in tuned["rows"]} <= {"ok", "same"}
    winner = tuned["winner"]
    assert winner["engine"] == "IREE_JIT_ENGINE"
    assert 0 < winner["low_us"] <= winner["median_us"] <= winner["high_us"]
    assert "computing the reference" in found.err
    assert f"{graph}: " in found.err

    chosen = cli("explain", graph, "--json").json()
    assert chosen["chosen"]["policy"] == "tuned"
    assert chosen["chosen"]["knobs"] == winner["knobs"]
    iree = chosen["candidates"][0]
    assert iree["measured"][0]["knobs"] == winner["knobs"]
    assert iree["measured_us"] == winner["median_us"]
    assert iree["estimate"]["measurements"] == 1
    ran = cli("run", graph, "--verify", "--json").json()
    assert (ran["policy"], ran["knobs"], ran["verified"]) == ("tuned", winner["knobs"], True)
    pinned = cli("run", graph, "--engine", "iree", "--json").json()
    assert (pinned["policy"], pinned["knobs"]) == ("pinned", {})
    other = cli("run", graph, "--prefer", "reference", "--policy", "order", "--json").json()
    assert (other["policy"], other["engine"]) == ("preferred", "REFERENCE_ENGINE")

    assert json.loads(rules.read_text())["engine_overrides"][0]["op"] == "pointwise"
    away = tmp_path / "away.json"
    assert cli("tune", "--export", away).code == 0
    (own_cache / "winners.json").unlink()
    assert cli("explain", graph, "--json").json()["chosen"]["policy"] == "order"
    assert cli("tune", "--import", away, "--json").json()["imported"] >= 1
    assert cli("explain", graph, "--json").json()["chosen"]["policy"] == "tuned"
    text = cli("explain", graph).out
    assert "by tuned: measured" in text


def test_nothing_right_and_nothing_to_do(
    cli: Cli, graphs: Path, own_cache: Path, tmp_path: Path
) -> None:
    table = cli(
        "tune", graphs / "add.json", "--budget", "0.05", "--engines", "reference", "--no-store"
    )
    assert table.code == 0
    assert "winner" in table.out
    assert "not remembered" in table.out
    assert not (own_cache / "winners.json").exists()
    assert cli("tune").code == 2
    assert cli("tune", tmp_path / "none.json").code == 2
    assert cli("tune", graphs / "add.json", "--engines", "nobody").code == 2
    assert cli("tune", "--import", tmp_path / "none.json").code == 2
    assert cli("run", graphs / "add.json", "--policy", "fastest").code == 2
