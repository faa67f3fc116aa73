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
from hipdnn_iree.provider.sweep.row import InstructionFacts, Row, Status
from sweep_runs import row as row_of

from tools.survey.coverage import coverage, dumps

PATH = Path(__file__).parents[2] / "docs" / "reference" / "instructions.json"
SUFFIXES = ("_e32", "_e64", "_sdwa", "_dpp")


def row(case: str, status: Status = "ok", code: InstructionFacts | None = None) -> Row:
    """Return a row for gfx942; what says what was missed was emulated."""
    emulated = status != "ok" or (code is not None and code.missed is not None)
    return row_of(case, status=status, target="gfx942", emulated=emulated, instructions=code)


def code(
    met: dict[str, int], missed: dict[str, int] | None = None, **different: int
) -> InstructionFacts:
    launched = None if missed is None else 1
    return InstructionFacts(
        kernels=1, met=met, different=different, launched=launched, missed=missed
    )


def test_what_is_right_and_was_reached_counts() -> None:
    race = row("d", "crash")
    race.log = "main_0 at 0x1904, ds_read_b32: race on LDS byte 0x10"
    (entry,) = coverage(
        [
            row("a", "ok", code({"s_nop": 3, "v_a": 2}, {"s_nop": 1})),
            row("b", "wrong", code({"v_a": 5, "v_b": 1}, {})),
            row("c", "ok", code({"v_a": 7}, order=1)),
            race,
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
    rows = [row("a", "ok", code({"v_a": 2})), row("a", "ok", code({"v_a": 2}, {"v_a": 1}))]
    (entry,) = coverage(rows[::order])["targets"].values()
    assert (entry["cases"], entry["mnemonics"]) == (1, {"v_a": [2, 1]})


@pytest.fixture(scope="module")
def recorded() -> Any:
    return json.loads(PATH.read_text(encoding="utf-8"))


def test_the_record_is_of_these_versions_and_instructions(recorded: Any) -> None:
    assert dumps(recorded) == PATH.read_text(encoding="utf-8")
    assert recorded["about"] == versions(), "sweep the samples, then run scripts/support"
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
