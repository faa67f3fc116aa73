# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree report``: exit codes for CI, JSON, a page; runs that are cut or of others."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hipdnn_iree.provider.cli import report as report_module
from sweep_runs import row, timed_rows, write_run

Cli = Callable[..., Any]

CASES = {f"case{i}": 50.0 + i for i in range(12)}
SLOWED = "case7|float|iree|cpu"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return write_run(tmp_path / "old.jsonl", [*timed_rows(CASES, 0), row("declines")])


@pytest.fixture
def new(tmp_path: Path) -> Path:
    rows = timed_rows(CASES, 1, slower={SLOWED: 1.5})
    rows.append(row("declines", status="declined", rules=["CONV-03"]))
    rows.append(row("broken", status="wrong"))
    return write_run(tmp_path / "new.jsonl", rows)


def test_json(cli: Cli, old: Path, new: Path) -> None:
    found = cli("report", new, "--baseline", old, "--json")
    data = found.json()
    described = {key for keys in report_module.JSON for key in keys.split(", ")}
    assert set(data) == described
    assert found.code == 0
    assert data["counts"] == {"ok": 24, "wrong": 1, "declined": 1}
    assert data["geomean"]["iree/torch"] == pytest.approx(1, rel=0.1)
    changes = {c["key"]: c["verdict"] for c in data["baseline"]["changes"]}
    assert changes == {
        SLOWED: "slower",
        "declines|float|iree|cpu": "declined",
        "broken|float|iree|cpu": "new",
    }
    assert data["failed_on"] == []


def test_text(cli: Cli, old: Path, new: Path) -> None:
    found = cli("report", new, "--baseline", old)
    assert found.code == 0
    assert "26 rows: 24 ok, 1 wrong, 1 declined" in found.out
    assert SLOWED in found.out
    assert "time of iree / torch: geometric mean" in found.out


def test_small_ratios_and_disturbed_rows_in_words(cli: Cli, tmp_path: Path) -> None:
    wide = [41e3, 52e3, 60e3, 80e3, 108e3]
    rows = [row("a", rounds_us=[8.0] * 5), row("a", engine="torch", rounds_us=wide)]
    found = cli("report", write_run(tmp_path / "run.jsonl", rows, load=14.24))
    assert "geometric mean 0.000133 of 1 row, worst 0.000133" in found.out
    assert "1 of 2 timed rows is disturbed" in found.out
    assert "(load 14.24)" in found.out
    assert "60 ms, disturbed" in found.out


def test_times_of_one_engine(cli: Cli, tmp_path: Path) -> None:
    rows = [row("quick", rounds_us=[12.5] * 3), row("slow", rounds_us=[40_000.0] * 3)]
    found = cli("report", write_run(tmp_path / "one.jsonl", rows))
    lines = found.out[found.out.index("longest times") :].splitlines()
    names = [line.split()[0] for line in lines[2:4]]
    assert names == ["slow|float|iree|cpu", "quick|float|iree|cpu"]
    assert "40 ms" in lines[2]
    assert "40 %" in lines[2]
    assert "longest times" not in cli("report", write_run(tmp_path / "two.jsonl", [row("a")])).out


@pytest.mark.parametrize(
    ("kinds", "failed"),
    [
        ("slower", [SLOWED]),
        ("slower,wrong,declined", [SLOWED, "declines", "broken"]),
        ("crash,timeout", []),
        ("gone", []),
    ],
)
def test_what_fails(cli: Cli, old: Path, new: Path, kinds: str, failed: list[str]) -> None:
    found = cli("report", new, "--baseline", old, "--fail-on", kinds, "--json")
    assert found.code == (1 if failed else 0)
    keys = found.json()["failed_on"]
    assert len(keys) == len(failed)
    assert all(key.startswith(start) for key, start in zip(keys, failed, strict=True))


def test_what_fails_without_a_baseline(cli: Cli, new: Path, old: Path) -> None:
    assert cli("report", new, "--fail-on", "declined,crash").code == 1
    assert cli("report", old, "--fail-on", "wrong,declined").code == 0
    found = cli("report", new, "--fail-on", "slower")
    assert (found.code, found.out) == (2, "")
    assert "--baseline" in found.err
    found = cli("report", new, "--fail-on", "slow")
    assert found.code == 2
    assert "'slow' is none of slower, gone, wrong" in found.err


def test_a_page(cli: Cli, new: Path, old: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    found = cli("report", new, "--baseline", old, "-o", page, "--json")
    assert found.json()["page"] == str(page)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert SLOWED in text
    found = cli("report", new, "-o", tmp_path / "no" / "folder.html")
    assert (found.code, "FILE-01" in found.err) == (2, True)


def test_a_run_that_is_cut_is_read_up_to_there(cli: Cli, tmp_path: Path) -> None:
    run = write_run(tmp_path / "cut.jsonl", [row("a"), row("b")], tail=b'{"key": "c|fl')
    found = cli("report", run, "--json")
    data = found.json()
    assert (found.code, data["rows"]) == (0, 2)
    assert data["cut"].endswith("line 4: the line is cut off")
    assert "warning: read up to" in found.err


def test_runs_of_others(cli: Cli, tmp_path: Path, old: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_bytes(old.read_bytes().replace(b'"version":1', b'"version":2', 1))
    for path, said in (
        (other, "schema hipdnn-iree.run version 2"),
        (tmp_path / "none.jsonl", "FILE-01"),
    ):
        for words in ((path,), (old, "--baseline", path)):
            found = cli("report", *words)
            assert found.code == 2
            assert said in found.err
    # A header of another version in the middle: what is above it is read.
    lines = old.read_bytes().splitlines(keepends=True)
    other.write_bytes(b"".join([*lines[:3], lines[0].replace(b'"version":1', b'"version":9')]))
    found = cli("report", other, "--json")
    assert (found.code, found.json()["rows"]) == (0, 2)
    assert "version 9" in found.json()["cut"]


def test_only_ratios_on_another_machine(cli: Cli, tmp_path: Path, old: Path) -> None:
    rows = timed_rows(CASES, 3, shift=3.0)
    there = write_run(tmp_path / "there.jsonl", rows, cpu="another")
    words = ["report", there, "--baseline", old, "--fail-on", "slower", "--json"]
    found = cli(*words)
    assert found.code == 0
    assert found.json()["baseline"]["alike"] is False
    assert cli(*words, "--absolute").code == 1
    assert cli("report", there, "--baseline", old).out.count("the machines differ") == 1


# ---------------------------------------------------------------------------- bench


def results(cases: dict[str, list[float]], cpu: str = "one") -> dict[str, Any]:
    """Return what ``bench -o FILE`` writes."""
    return {
        "machine": {"cpu": cpu, "processors": 2},
        "engines": ["iree", "torch"],
        "cases": [
            {
                "name": name,
                "digest": name,
                "engines": {
                    "iree": timed(rounds) if rounds else {"error": "x\ny", "ok": False},
                    "torch": timed([100.0] * len(rounds)) if rounds else {"declined": []},
                },
            }
            for name, rounds in cases.items()
        ],
    }


def timed(rounds: list[float]) -> dict[str, Any]:
    times = {"median_us": rounds[0], "best_us": min(rounds), "rounds_us": rounds}
    return {**times, "ok": True, "calls": 9, "spread": 0.01, "max_rel_error": 1e-7}


def times(middle: float, seed: int) -> list[float]:
    draw = random.Random(seed)
    return [middle * (1 + 0.02 * draw.expovariate(1)) for _ in range(20)]


@pytest.fixture
def benches(cli: Cli, tmp_path: Path) -> Cli:
    def call(before: Any, after: Any, *words: str) -> Any:
        for name, data in (("a.json", before), ("b.json", after)):
            text = data if isinstance(data, str) else json.dumps(data, indent=1)
            (tmp_path / name).write_text(text, encoding="utf-8")
        paths = tmp_path / "b.json", "--baseline", tmp_path / "a.json"
        return cli("report", *paths, "--fail-on", "slower,gone,compile-error", *words)

    return call


def test_results_of_benchmarks(benches: Cli) -> None:
    before = results({"kept": times(50, 1), "worse": times(50, 2), "gone": times(50, 3)})
    after = results({"kept": times(50, 4), "worse": times(80, 5), "new": times(50, 6)})
    found = benches(before, after, "--json")
    data = found.json()
    assert (found.code, data["baseline"]["alike"]) == (1, True)
    ours = {c["key"]: c["verdict"] for c in data["baseline"]["changes"] if "|iree|" in c["key"]}
    assert ours == {
        "worse||iree|cpu": "slower",
        "gone||iree|cpu": "gone",
        "new||iree|cpu": "new",
    }
    assert data["geomean"]["iree/torch"] == pytest.approx((0.5 * 0.8 * 0.5) ** (1 / 3), rel=0.1)
    assert benches(before, before).code == 0
    # What failed and runs now is no regression; what runs no more is one.
    failing = results({"kept": []})
    assert benches(failing, results({"kept": times(50, 1)})).code == 0
    assert benches(results({"kept": times(50, 1)}), failing).code == 1


def test_benchmarks_on_other_machines(benches: Cli) -> None:
    before, after = results({"a": times(50, 1)}), results({"a": times(50, 2)}, cpu="two")
    assert benches(before, after).code == 0
    after["cases"][0]["engines"]["torch"] = timed([50.0] * 20)
    assert benches(before, after).code == 1
    assert benches(before, after, "--absolute").code == 0
    del after["cases"][0]["engines"]["torch"]
    found = benches(before, after)
    assert found.code == 2
    assert "no yardstick" in found.err


def test_files_that_are_no_results(benches: Cli) -> None:
    good = results({"a": times(50, 1)})
    for bad, rule in (
        ("no json", "RUN-01"),
        ("{}", "RUN-01"),
        ("{\n}", "RESULTS-01"),
        ("", "RUN-01"),
    ):
        found = benches(good, bad)
        assert (found.code, found.out) == (2, "")
        assert rule in found.err


# ---------------------------------------------------------------------------- export


def test_export(cli: Cli, old: Path, tmp_path: Path) -> None:
    found = cli("sweep", "export", old)
    assert found.code == 0
    lines = found.out.splitlines()
    assert len(lines) == 26
    assert lines[0].startswith("key,case,suite")
    out = tmp_path / "rows.csv"
    data = cli("sweep", "export", old, "-o", out, "--json").json()
    assert (data["rows"], data["format"], data["file"]) == (25, "csv", str(out))
    assert out.read_text(encoding="utf-8").splitlines() == lines
    assert cli("sweep", "export", old, "--json").code == 2
    assert cli("sweep", "export", tmp_path / "none.jsonl").code == 2
    assert "sweep export [OPTIONS] RUN" in cli("sweep", "export", "--help").out
