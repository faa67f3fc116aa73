# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree sweep``: what it prints and refuses, and runs that are killed and gone on with."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hipdnn_iree.provider.cli import progress
from hipdnn_iree.provider.cli import sweep as sweep_module
from hipdnn_iree.provider.cli.progress import Progress
from hipdnn_iree.provider.sweep.row import read_run

Cli = Callable[..., Any]

SUITE = """
cases:
  - {name: add, tensors: {x: {dims: [7, 3]}}, nodes: [{op: add, in: [x, 2], out: y}], tags: [a]}
  - {name: bad, tensors: {a: {dims: [5, 4]}}, nodes: [{op: matmul, in: [a, [3, 2]], out: c}]}
  - name: whole
    io: int8
    compute: int32
    tensors: {a: {dims: [4, 8]}, b: {dims: [8, 4]}}
    nodes: [{op: matmul, in: [a, b], out: c, type: int32}]
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "suite.yaml"
    path.write_text(SUITE, encoding="utf-8")
    return path


def test_rows_and_counts(
    cli: Cli, suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.jsonl"
    monkeypatch.setattr("sys.argv", ["hipdnn-iree", "sweep", "these", "words"])
    monkeypatch.setattr(progress, "_SOON_S", 0.0)  # a fast machine has all rows before that
    words = ["sweep", suite, "--engines", "iree,torch-engine", "-o", path, "--jobs", "1"]
    found = cli(*words, "--json")
    data = found.json()
    assert found.code == 0
    described = {key for keys in sweep_module.JSON for key in keys.split(", ")} - {"cases"}
    assert set(data) == described
    assert (data["run"], data["rows"], data["new"], data["failed"]) == (str(path), 6, 6, [])
    assert data["counts"]["invalid"] == 2
    (invalid,) = data["invalid"]  # of both engines
    assert (invalid["source"], invalid["rules"], invalid["rows"]) == (
        f"{suite}:4",
        ["MATMUL-02"],
        2,
    )
    assert f"invalid: {suite}:4: the case cannot be built: bad" in found.err
    assert found.err.count("[MATMUL-02]") == 1
    assert sum(data["counts"].values()) == 6
    assert "[6/6]" in found.err
    run = read_run(path)
    assert run.headers[0].argv == ["sweep", "these", "words"]
    assert run.headers[0].machine["processors"] >= 1
    assert run.headers[0].options["check"] is True
    declined = {row.case: row.rules for row in run.rows if row.status == "declined"}
    assert set(declined) <= {"add", "whole"}
    assert all(declined.values())
    again = cli(*words, "--resume")
    assert again.code == 0
    assert f"{path}: 6 rows, 0 new" in again.out
    head = again.out.splitlines()[0].split()
    assert head[0] == "op"
    assert {"ok", "invalid"} <= set(head)
    assert read_run(path) == run
    refused = cli(*words)
    assert refused.code == 2
    assert "RUN-03" in refused.err


@pytest.mark.parametrize("words", [("--jobs", "2"), ("--devices", "0,1")])
def test_what_is_of_this_machine_says_nothing_of_a_cluster(
    cli: Cli, suite: Path, tmp_path: Path, words: tuple[str, str]
) -> None:
    path = tmp_path / "run.jsonl"
    found = cli("sweep", suite, "--scheduler", "tcp://127.0.0.1:1", *words, "-o", path)
    assert found.code == 2
    assert f"{words[0]} is for this machine" in found.err
    assert not path.exists()


def test_a_failure_is_told_and_ends_with_1(cli: Cli, suite: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    words = ["sweep", suite, "--case", "add", "-o", path, "--timeout", "0.1", "--jobs", "1"]
    found = cli(*words, "--engines", "iree-plain", "--cache", "off", "--json")
    (failed,) = found.json()["failed"]
    assert (found.code, failed["status"]) == (1, "timeout")
    assert failed["key"] == "add|float|iree-plain|cpu"
    assert "timeout: add|float|iree-plain|cpu: " in found.err


RESERVED = """
name: mine
dtypes: [float, half]
cases:
  - for: {cols: [1, 2, 3], groups: [4, 8]}
    let: {wide: cols * groups}
    cases: [{name: a, op: relu, x: [wide]}]
"""


@pytest.mark.parametrize("words", [(), ("--json",), ("--list",)])
def test_a_suite_that_is_invalid_as_a_whole_ends_with_2(
    cli: Cli, suite: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(RESERVED, encoding="utf-8")
    # The other suite is all right: each file has to be.
    run = [
        "-o",
        tmp_path / "run.jsonl",
        "--no-check",
        "--engines",
        "reference",
        "--case",
        "add|mine",
    ]
    found = cli("sweep", path, suite, *run, *words)
    assert found.code == 2
    assert found.err.count(f"invalid: {path}:6: ") == 1
    assert "let: [AXIS-01] got wide; wanted a name" in found.err
    assert "wide means the type in which sums of" in found.err
    assert "the entry stands for 12 problems; line 6" in found.err
    assert f"error: no case of {path} can be built" in found.err


def test_many_invalid_rows_are_ten_and_a_number(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    lines = [f"  - {{name: c{k}, op: relu, x: [{k + 1}], beta: 1}}" for k in range(13)]
    path.write_text("\n".join(["cases:", *lines, ""]), encoding="utf-8")
    found = cli("sweep", path, "-o", tmp_path / "run.jsonl", "--engines", "reference")
    assert (found.code, found.err.count("invalid: ")) == (2, 10)
    assert "... and 3 more invalid rows" in found.err
    good = tmp_path / "one_of_many.yaml"
    text = [*lines[:12], "  - {name: good, op: relu, x: [3]}", ""]
    good.write_text("\n".join(["cases:", *text]), encoding="utf-8")
    assert cli("sweep", good, "-o", tmp_path / "two.jsonl", "--engines", "reference").code == 0


def test_a_damaged_file_of_a_folder_is_an_invalid_row_and_no_suite(
    cli: Cli, graphs: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "logged"
    folder.mkdir()
    whole = next(path for path in sorted(graphs.iterdir()) if path.suffix == ".json").read_bytes()
    (folder / "good.json").write_bytes(whole)
    (folder / "damaged.json").write_bytes(whole[:-30])
    words = ["--no-check", "--list"]
    found = cli("sweep", folder, *words)
    assert found.code == 0
    assert "invalid: " in found.err
    assert cli("sweep", folder / "damaged.json", *words).code == 2


def test_what_there_is_to_do(cli: Cli, suite: Path) -> None:
    words = ["sweep", suite, "--list", "--targets", "cpu,mi300x"]
    cases = cli(*words, "--json").json()["cases"]
    assert len(cases) == 6
    assert cases[0] == {
        "name": "add", "dtype": "float", "tags": "a", "target": "cpu", "source": f"{suite}:3",
        "broken": [],
    }  # fmt: skip
    (broken,) = cases[1]["broken"]
    assert "[MATMUL-02]" in broken
    told = cli(*words)
    assert "6 cases, 1 engine" in told.out
    assert (told.code, told.err.count("invalid: ")) == (0, 1)
    assert len(cli(*words, "--case", "who", "--json").json()["cases"]) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--engines", "nobody"], "nobody"),
        (["--engines", "iree,iree"], "each once"),
        (["--targets", "gfx1"], "gfx1"),
        (["--devices", "0-x"], "ranges"),
        (["--devices", "3-1"], "empty range"),
        (["--memory", "much"], "8GiB"),
        (["--case", "("], "no pattern"),
        (["--case", "nothing-like-it"], "--case 'nothing-like-it' matches none; --list shows"),
        (["--timeout", "0"], "timeout"),
    ],
)
def test_what_is_refused(
    cli: Cli, suite: Path, tmp_path: Path, words: list[str], said: str
) -> None:
    found = cli("sweep", suite, "-o", tmp_path / "run.jsonl", *words)
    assert found.code == 2
    assert said in found.err
    assert not (tmp_path / "run.jsonl").exists()


def test_suites_of_one_name_keep_their_cases_apart(cli: Cli, suite: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(SUITE, encoding="utf-8")
    cases = cli("sweep", suite, other, "--list", "--json").json()["cases"]
    assert len({case["name"] for case in cases}) == len(cases) == 6
    assert {"suite.add", "other.add"} <= {case["name"] for case in cases}


def test_progress_in_lines(capsys: pytest.CaptureFixture[str]) -> None:
    now = iter(range(1000))
    with Progress("work", 40, clock=lambda: float(next(now))) as progress:
        for k in range(40):
            progress.step("wrong: case 7" if k == 7 else "")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "[2/40] 1/s, 38 s left"
    assert lines[3] == "wrong: case 7"
    assert lines[-1].startswith("[40/40] ")
    assert len(lines) == 21


def many(folder: Path, count: int) -> Path:
    entries = [
        f"  - {{name: c{k}, tensors: {{x: {{dims: [{k + 1}, 3]}}}}, "
        "nodes: [{op: relu, in: x, out: y}]}"
        for k in range(count)
    ]
    path = folder / "many.yaml"
    path.write_text("cases:\n" + "\n".join(entries) + "\n", encoding="utf-8")
    return path


def start(suite: Path, run: Path, *more: str) -> subprocess.Popen[bytes]:
    words = ["sweep", str(suite), "-o", str(run), "--engines", "reference", "--jobs", "2", *more]
    code = "from hipdnn_iree.provider.cli.main import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def keys(path: Path) -> list[str]:
    """Return the keys of all lines, those that a later row replaces too."""
    rows = map(json.loads, path.read_bytes().splitlines())
    return [row["key"] for row in rows if "key" in row]


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_killed_at_any_moment_no_row_is_lost_and_none_is_there_twice(tmp_path: Path) -> None:
    suite, run = many(tmp_path, 120), tmp_path / "run.jsonl"
    chance = random.Random(1)
    for _ in range(3):
        # Moments are counted in rows: a second is enough for a fast machine to do all of them.
        wanted, process = lines(run) + chance.randint(1, 20), start(suite, run, "--resume")
        while lines(run) < wanted and process.poll() is None:
            time.sleep(0.002)
        process.kill()
        process.wait()
        found = keys(run)
        assert len(set(found)) == len(found)
    # The last kill, in the middle of a line.
    whole = run.read_bytes()
    run.write_bytes(whole[:-9])
    assert start(suite, run, "--resume").wait(120) == 0
    assert sorted(keys(run)) == sorted(f"c{k}|float|reference|cpu" for k in range(120))
    assert {row.status for row in read_run(run).rows} == {"ok"}
    assert len(read_run(run).headers) == 1


def test_ctrl_c_ends_with_what_is_there(tmp_path: Path) -> None:
    suite, run = many(tmp_path, 300), tmp_path / "run.jsonl"
    process = start(suite, run)
    while size(run) < 2000 and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    found = read_run(run)
    assert found.cut is None
    assert 0 < len(found.rows) < 300
