# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The table of what is served: made right, and not out of date."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
from hipdnn_iree.provider.sweep.samples import op_of, sample_problems

from tools.survey.table import (
    compiled_entry,
    dumps,
    emulated_entry,
    loads,
    stale,
    uncompiled,
)
from tools.survey.trials import few

PATH = Path(__file__).parents[2] / "docs" / "reference" / "support.json"
REPAIR = "run scripts/compile_matrix --rules-only (or -k OP, to compile), then scripts/gen_docs"


@pytest.fixture(scope="module")
def table() -> Any:
    return loads(PATH.read_text(encoding="utf-8"))


def test_the_table_says_what_the_rules_say(table: Any) -> None:
    found = list(stale(table))
    assert not found, f"{found}; {REPAIR}"


def test_nothing_in_the_table_is_wrong_or_fails(table: Any) -> None:
    for op, by_type in table["ops"].items():
        for data_type, by_target in by_type.items():
            for target, entry in by_target.items():
                where = f"{op} {data_type} {target}"
                assert not entry["failed"], where
                assert not entry.get("emulated", {}).get("wrong"), where
                assert (target == "cpu") <= ("emulated" not in entry or not entry["emulated"]["ok"])


def test_the_file_leaves_out_what_is_empty(table: Any) -> None:
    text = PATH.read_text(encoding="utf-8")
    assert dumps(table) == text
    assert loads(dumps(table)) == table
    assert not re.search(r"\{\}|\[\]|null", text)


def test_what_is_out_of_date_is_found(table: Any) -> None:
    broken = copy.deepcopy(table)
    ops = broken["ops"]
    ops["convolve"] = ops.pop("conv_fprop")
    del ops["matmul"]["half"]
    ops["reduction"]["float"]["gfx942"]["declined"] = {"IREE-04": 3}
    ops["sdpa"]["half"]["cpu"]["served"] = 0
    del ops["rmsnorm"]["float"]["gfx90a"]
    ops["rmsnorm"]["half"]["cpu"] |= {"compiled": 0, "failed": {}}
    found = "\n".join(stale(broken))
    for text in (
        "convolve is no op any more",
        "conv_fprop: the data types are ",
        "matmul: the data types are ",
        "reduction float gfx942 is declined by no rule",
        "sdpa half cpu: ",
        "rmsnorm float gfx90a is missing",
    ):
        assert text in found
    assert "rmsnorm half cpu was not compiled" in uncompiled(broken)


def row(case: str, status: str, **more: Any) -> dict[str, Any]:
    empty = {"note": "", "ir": "", "seconds": 0.0, "dispatches": None, "spills": None, "mfma": None}
    return {**empty, "case": case, "status": status, **more}


def test_entries_tell_the_most_of_what_was_tried() -> None:
    good = row("op.a", "compiled", ir="1", seconds=2.0, dispatches=3, spills=0, mfma=4)
    run = row("op.b", "ran-ok", ir="2", seconds=1.0, dispatches=5)
    bad = row("op.c", "compile-error", ir="3", seconds=60.0, note="stopped")
    entry = compiled_entry([good, run, bad, row("op.d", "declined")])
    digest = entry.pop("ir")
    assert entry == {
        "compiled": 2,
        "failed": {"op.c": "compile-error: stopped"},
        "seconds": 2.0,
        "dispatches": 5,
        "spills": 0,
        "mfma": 4,
    }
    assert digest == compiled_entry([bad, run, good])["ir"]
    assert digest != compiled_entry([bad, run, {**good, "ir": "4"}])["ir"]
    assert compiled_entry([])["compiled"] == 0


def test_reasons_for_no_emulation_are_counted() -> None:
    instruction = "(719): main_0 at 0x1a04, v_mad_mix_f32: v_mad_mix, whose rounding differs"
    rows = [
        row("op.a", "emulated-ok"),
        row("op.b", "wrong", note="3 of 4 elements wrong"),
        row("op.c", "cannot-emulate", note=instruction),
        row("op.d", "cannot-emulate", note=instruction.replace("1a04", "1b08")),
        row("op.e", "cannot-emulate", note="the emulated run took more than 60.0 s"),
        row("op.f", "accused", note="main_0 at 0x1904, ds_read_b32: race on LDS byte 0x10: ..."),
    ]
    assert emulated_entry(rows) == {
        "ok": 1,
        "wrong": ["op.b"],
        "not": {"instruction v_mad_mix_f32": 2, "race": 1, "time limit": 1},
    }


def test_few_samples_stand_for_every_op_and_data_type() -> None:
    everything, chosen = sample_problems(), few()

    def covered(samples: Any) -> set[tuple[str, Any]]:
        return {(op_of(s), t) for s in samples for t in s.dtypes}

    assert covered(chosen) == covered(everything)
    assert len(chosen) < len(everything) / 4
    assert any("nhwc" in s.tags for s in chosen if op_of(s) == "conv_fprop")
