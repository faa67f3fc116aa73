# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The attack with red zones: a few graphs, and the same ones again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tools.soak import red_zones
from tools.soak.attack import Box, BrokenError, Budget

CASE = json.dumps(
    {"seed": 756915334201, "nodes": 1, "era": "new", "how": "plain", "skews": [0, 16, 0]}
).encode()


@pytest.fixture
def budget(tmp_path: Path) -> Budget:
    return Budget(0, tmp_path, Box(tmp_path / "box"))


@pytest.fixture
def zones(tmp_path: Path) -> Iterator[red_zones.Zones]:
    found = red_zones.Zones(tmp_path)
    yield found
    assert found.close() == ""


def test_a_few_graphs(zones: red_zones.Zones) -> None:
    """Each in all of its ways; the attack does the same for as long as it may."""
    rng, executed = Random(1), 0
    while executed < 5:
        executed += list(zones.judge(red_zones.draw(rng)))[-1].startswith("ok")


def test_a_case_can_be_tried_again(budget: Budget) -> None:
    found = red_zones.replay(budget, CASE)
    assert found.counts == {"ok": 1}, found.failures


def test_what_the_reference_does_not_allow_is_a_failure(
    zones: red_zones.Zones, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(job: object) -> None:
        raise AssertionError("3 of 7 elements")

    monkeypatch.setattr(red_zones.Job, "verify", wrong)
    with pytest.raises(BrokenError, match="3 of 7"):
        list(zones.judge(CASE))
