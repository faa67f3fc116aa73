# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The table of what is served: made right, and not out of date."""

from __future__ import annotations

import copy
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.provider.sweep.row import CodeFacts, CompileFacts, Row
from hipdnn_iree.provider.sweep.samples import few_of, op_of, sample_problems
from hipdnn_iree.provider.sweep.serving import serving
from sweep_runs import header
from sweep_runs import row as row_of

from tools.survey import table as table_module
from tools.survey.table import (
    accused,
    compiled_entry,
    dumps,
    emulated_entry,
    loads,
    merged,
    of_samples,
    stale,
    uncompiled,
)

PATH = Path(__file__).parents[2] / "docs" / "reference" / "support.json"
REPAIR = "run scripts/support, then scripts/gen_docs"


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


def row(case: str, status: str = "ok", target: str = "gfx942", **more: Any) -> Row:
    """Return the row of a half sample; ``seconds``, and what is not a row's, is of its code."""
    seconds, names = more.pop("seconds", None), ("ir", "dispatches", "spills", "mfma")
    code = {name: more.pop(name) for name in names if name in more}
    compiled = {"seconds": {}, "cache": "miss", "module_bytes": None}
    return row_of(
        f"{case} half",
        status=status,  # type: ignore[arg-type]
        dtype="half",
        target=target,
        compile=CompileFacts(**compiled, total_s=seconds) if seconds else None,
        code=CodeFacts(**{"dispatches": None, "transient_bytes": None, **code}) if code else None,
        **{"log": more.get("detail", ""), **more},
    )


def test_entries_tell_the_most_of_what_was_tried() -> None:
    good = row("op.a", ir="1", seconds=2.0, dispatches=3, spills=0, mfma=4)
    run = row("op.b", ir="2", seconds=1.0, dispatches=5)
    bad = row("op.c", "compile-error", seconds=60.0, detail="stopped")
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
    other = row("op.a", ir="4", seconds=2.0, dispatches=3)
    assert digest != compiled_entry([bad, run, other])["ir"]
    assert compiled_entry([])["compiled"] == 0


@pytest.mark.parametrize(("target", "compiled"), [("cpu", 0), ("gfx942", 1)])
def test_what_runs_here_has_to_be_right(target: str, compiled: int) -> None:
    wrong = row("op.a", "wrong", target, ir="1", detail="3 of 4 elements wrong")
    entry = compiled_entry([wrong])
    assert entry["compiled"] == compiled
    failed = {} if compiled else {"op.a": "wrong: 3 of 4 elements wrong"}
    assert entry["failed"] == failed


def test_reasons_for_no_emulation_are_counted() -> None:
    instruction = "hipErrorNotSupported: main_0 at 0x1a04, v_mad_mix_f32: whose rounding differs"
    race = "main_0 at 0x1904, ds_read_b32: race on LDS byte 0x10: ..."
    rows = [
        row("op.a", emulated=True),
        row("op.b", "wrong", emulated=True, detail="3 of 4 elements wrong"),
        row("op.c", detail=instruction),
        row("op.d", detail=instruction.replace("1a04", "1b08")),
        row("op.e", "timeout", emulated=True, detail="check: no end within 60 s"),
        row("op.f", "crash", emulated=True, detail=race),
        row("op.g", detail="compiled only: too large to be emulated"),
        row("op.h", "declined"),
    ]
    assert emulated_entry(rows) == {
        "ok": 1,
        "wrong": ["op.b"],
        "not": {"instruction v_mad_mix_f32": 2, "race": 1, "time limit": 1},
    }
    assert [accused(r) for r in rows] == [r.case == "op.f half" for r in rows]


def test_rows_are_entered_and_the_rest_stays(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_module, "serving", partial(serving, ["cumsum", "transpose"]))
    digest = next(s for s in sample_problems("cumsum")).graph(DataType.HALF).freeze().digest
    name = sample_problems("cumsum")[0].name
    about = {"ir": "1", "dispatches": 7, "digest": digest}
    now = row(name, seconds=2.0, emulated=True, **about)
    others = [row(name, **{**about, "digest": "of another graph"}), row("cumsum.gone", **about)]
    rows, left_out = of_samples([now, *others, row(name, engine="torch", **about)])
    assert (rows, left_out) == ([now], 3)
    conditions = header()
    conditions.options["timeout_s"], conditions.versions["lowering"] = 60.0, "f" * 64
    found = merged(table, [conditions], rows)
    assert (found["about"]["sources"], found["about"]["limit_s"]) == ("f" * 16, 60.0)
    entry = found["ops"]["cumsum"]["half"].pop("gfx942")
    assert (entry["compiled"], entry["dispatches"], entry["spills"]) == (1, 7, None)
    assert entry["emulated"] == {"ok": 1, "wrong": [], "not": {}}
    before = copy.deepcopy({op: table["ops"][op] for op in found["ops"]})
    served = before["cumsum"]["half"].pop("gfx942")
    assert entry["served"] == served["served"]
    assert found["ops"] == before
    assert merged(table, [], [])["ops"].items() <= table["ops"].items()


def test_few_samples_stand_for_every_op_and_data_type() -> None:
    everything = sample_problems()
    chosen = few_of(everything)

    def covered(samples: Any) -> set[tuple[str, Any]]:
        return {(op_of(s), t) for s in samples for t in s.dtypes}

    assert covered(chosen) == covered(everything)
    assert len(chosen) < len(everything) / 4
    assert any("nhwc" in s.tags for s in chosen if op_of(s) == "conv_fprop")
