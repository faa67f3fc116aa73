# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The support table as a picture: a cell for each entry, by what stands behind it."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from tools.survey.heat_map import STATES, heat_map, state_of
from tools.survey.table import loads

PATH = Path(__file__).parents[2] / "docs" / "reference" / "support.json"


def entry(**changes: Any) -> dict[str, Any]:
    emulated = {"ok": 0, "wrong": [], "not": {}}
    return {"samples": 4, "served": 4, "declined": {}, "compiled": 2, "failed": {},
            "emulated": emulated, **changes}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "target", "expected"),
    [
        ({}, "cpu", "ran"),
        ({}, "gfx942", "compiled"),
        ({"emulated": {"ok": 1, "wrong": [], "not": {}}}, "gfx942", "emulated"),
        ({"emulated": {"ok": 1, "wrong": ["a"], "not": {}}}, "gfx942", "failed"),
        ({"failed": {"a": "crash"}}, "cpu", "failed"),
        ({"served": 0, "compiled": 0}, "cpu", "declined"),
        ({"compiled": 0}, "cpu", "served"),
    ],
)
def test_what_stands_behind_an_entry(changes: dict[str, Any], target: str, expected: str) -> None:
    assert state_of(entry(**changes), target) == expected


def test_every_entry_of_the_table_has_a_cell() -> None:
    ops = loads(PATH.read_text(encoding="utf-8"))["ops"]
    text = heat_map(ops)
    root = ET.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    shown = {}
    for path in root.iter(f"{space}path"):
        title = path.find(f"{space}title")
        if title is not None and title.text:  # not of the legend
            shown[title.text.partition(":")[0]] = path.get("class")
    expected = {
        f"{op}, {kind}, {target}": state_of(found, target)
        for op, types in ops.items()
        for kind, by in types.items()
        for target, found in by.items()
    }
    assert shown == expected
    assert set(shown.values()) <= set(STATES)
    assert len(text) < 2_000_000


def test_a_cut_corner_says_that_samples_are_declined() -> None:
    ops = {"op": {"half": {"cpu": entry(declined={"X-01": 2}), "gfx942": entry()}}}
    paths = [e for e in ET.fromstring(heat_map(ops)).iter() if e.tag.endswith("}path")]
    cut, whole = paths[:2]
    assert "l4 4" in str(cut.get("d"))
    assert "l4 4" not in str(whole.get("d"))
    assert "declined by X-01 (2)" in "".join(cut.itertext())
