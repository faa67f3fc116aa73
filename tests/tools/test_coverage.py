# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The record of executed instructions: made right, and of instructions that there are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hipdnn_iree.emulation.encodings import forms
from hipdnn_iree.emulation.instructions import BUILDERS
from hipdnn_iree.jit.cache import versions

from tools.survey.coverage import coverage, dumps

PATH = Path(__file__).parents[2] / "docs" / "reference" / "instructions.json"
SUFFIXES = ("_e32", "_e64", "_sdwa", "_dpp")


def row(case: str, status: str, **code: Any) -> dict[str, Any]:
    return {"case": case, "data_type": "half", "target": "gfx942", "status": status, "code": code}


def code(met: dict[str, int], missed: dict[str, int] | None = None, **more: Any) -> dict[str, Any]:
    executed = {} if missed is None else {"missed": missed, "launched": 1}
    found = {"kernels": 1, "instructions": sum(met.values()), "different": {}, "met": met}
    return {**found, **executed, **more}


def test_what_is_right_and_was_reached_counts() -> None:
    (entry,) = coverage(
        [
            row("a", "emulated-ok", **code({"s_nop": 3, "v_a": 2}, {"s_nop": 1})),
            row("b", "wrong", **code({"v_a": 5, "v_b": 1}, {})),
            row("c", "decoded", **code({"v_a": 7}, different={"order": 1})),
            row("d", "accused"),
            row("e", "declined"),
        ]
    )["targets"].values()
    assert entry == {
        "cases": 3,
        "right": 1,
        "kernels": 3,
        "launched": 2,
        "accused": 1,
        "instructions": 18,
        "different": {"order": 1},
        "mnemonics": {"s_nop": [3, 2], "v_a": [14, 2], "v_b": [1, 0]},
    }


@pytest.mark.parametrize("order", [1, -1])
def test_a_sample_counts_once(order: int) -> None:
    rows = [
        row("a", "decoded", **code({"v_a": 2})),
        row("a", "emulated-ok", **code({"v_a": 2}, {"v_a": 1})),
    ]
    (entry,) = coverage(rows[::order])["targets"].values()
    assert (entry["cases"], entry["mnemonics"]) == (1, {"v_a": [2, 1]})


@pytest.fixture(scope="module")
def recorded() -> Any:
    return json.loads(PATH.read_text(encoding="utf-8"))


def test_the_record_is_of_these_versions_and_instructions(recorded: Any) -> None:
    assert dumps(recorded) == PATH.read_text(encoding="utf-8")
    assert recorded["about"] == versions(), "run scripts/emulate and scripts/instructions"
    for target, entry in recorded["targets"].items():
        known = {form.mnemonic for table in forms(target).values() for form in table.values()}
        for name, (met, executed) in entry["mnemonics"].items():
            suffix = next((s for s in SUFFIXES if name.endswith(s)), "")
            mnemonic = name.removesuffix(suffix)
            assert mnemonic in known, f"{target} has no {name}"
            assert 0 <= executed <= met
            assert not executed or mnemonic in BUILDERS, f"{name} is executed by nothing"
        assert entry["instructions"] == sum(met for met, _ in entry["mnemonics"].values())
        assert entry["right"] <= entry["cases"]
        assert entry["launched"] <= entry["kernels"]


def test_most_of_what_is_met_was_executed(recorded: Any) -> None:
    for target in recorded["targets"].keys() - {"gfx908"}:  # which is decoded only
        counts = recorded["targets"][target]["mnemonics"].values()
        assert sum(executed > 0 for _, executed in counts) > 0.9 * len(counts), target
