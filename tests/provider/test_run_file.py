# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The file of a sweep: what is written survives, what is cut or foreign is said."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hipdnn_iree.graph_api.errors import FormatError, SettingError
from hipdnn_iree.provider.sweep.row import (
    FAILED,
    STATUSES,
    CheckFacts,
    Header,
    Row,
    RunReader,
    TimeFacts,
    encode,
    read_run,
    row_key,
)
from hipdnn_iree.provider.sweep.run_file import RunFile

ALWAYS = {
    "key",
    "case",
    "suite",
    "source",
    "op",
    "tags",
    "dtype",
    "digest",
    "engine",
    "knobs",
    "target",
    "device",
    "emulated",
    "status",
    "rules",
    "detail",
    "seconds",
    "at",
}


def header(**versions: str) -> Header:
    return Header(
        created="2026-01-02T03:04:05Z",
        argv=["sweep", "suite.yaml"],
        machine={"cpu": "some", "load": 0.5},
        versions={"hipdnn-iree": "1", **versions},
        options={"perf": False},
    )


def row(case: str, **facts: Any) -> Row:
    about: dict[str, Any] = {
        "key": row_key(case, "float", "iree", "cpu"),
        "case": case,
        "suite": "suite.yaml",
        "source": "suite.yaml:3",
        "op": "matmul",
        "tags": [],
        "dtype": "float",
        "digest": f"digest of {case}",
        "engine": "iree",
        "knobs": {},
        "target": "cpu",
        "device": "cpu",
        "emulated": False,
        "status": "ok",
        "rules": [],
        "detail": "",
        "seconds": 0.25,
        "at": "2026-01-02T03:04:06Z",
    }
    return Row(**{**about, **facts})


def write(path: Path, *cases: str, of: Header | None = None, resume: bool = False) -> RunFile:
    with RunFile(path, of or header(), resume=resume) as run:
        for case in cases:
            run.append(row(case))
    return run


def test_a_row_holds_the_keys_of_the_format_and_what_was_reached(tmp_path: Path) -> None:
    plain = json.loads(encode(row("a")))
    assert set(plain) == ALWAYS
    times = TimeFacts(median_us=2.0, best_us=1.0, spread=0.1, rounds_us=[1.0, 2.5], calls=9)
    error = float("inf")
    check = CheckFacts(
        method="float64", data="normal", elements=6, bad=1, max_abs=error, max_rel=0.5,
        of_bound=None, seconds=0.1,
    )  # fmt: skip
    data = json.loads(encode(row("a", times=times, check=check, log="all")))
    assert set(data) == ALWAYS | {"times", "check", "log"}
    assert data["times"]["rounds_us"] == [1.0, 2.5]
    assert data["times"]["cold_us"] is None
    assert data["check"]["max_abs"] is None  # JSON has no infinity
    assert {"wrong", "crash", "timeout"} < FAILED < set(STATUSES)


def test_what_is_appended_is_read_while_the_file_grows(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with RunFile(path, header()) as run:
        assert read_run(path).rows == ()
        run.append(row("a"))
        run.append(row("b", status="wrong", detail="three elements"))
        found = read_run(path)
    assert [one.case for one in found.rows] == ["a", "b"]
    assert found.rows[1] == row("b", status="wrong", detail="three elements")
    assert found.headers == (header(),)
    assert found.header_of == (0, 0)
    assert found.cut is None


@pytest.mark.parametrize("kept", [1, 40, -1])
def test_a_cut_last_line_is_said_and_its_row_done_again(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "run.jsonl"
    write(path, "a", "b")
    whole = path.read_bytes()
    last = len(encode(row("b")))
    path.write_bytes(whole[: len(whole) - last + (kept % last)])
    found = read_run(path)
    assert [one.case for one in found.rows] == ["a"]
    assert found.cut is not None
    assert "line 3: the line is cut off" in found.cut
    resumed = write(path, "b", resume=True)
    assert resumed.known == {row(c).key: row(c).digest for c in "ab"}
    assert any("dropped" in line for line in resumed.said)
    assert path.read_bytes() == whole


def test_a_header_that_was_never_written_is_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.touch()
    write(path, "a")
    assert [one.case for one in read_run(path).rows] == ["a"]


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("", "it is empty"),
        ("{}\n", "schema None"),
        ('{"schema": "another", "version": 1}\n', "schema another"),
        ('{"schema": "hipdnn-iree.run", "version": 2}\n', "version 2"),
        ('{"schema": "hipdnn-iree.run", "version": 1}\n', "created"),
        ("case,dtype\n", "malformed"),
        ("[1]\n", "array"),
        ("\x00\xff\n", "malformed"),
    ],
)
def test_what_does_not_begin_as_a_run_is_refused(tmp_path: Path, text: str, got: str) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(FormatError) as caught:
        read_run(path)
    (found,) = caught.value.problems
    assert found.rule == "RUN-01"
    assert got in found.got
    if text:
        with pytest.raises(FormatError, match="RUN-01"):
            RunFile(path, header(), resume=True)
        assert path.read_bytes() == text.encode("latin-1")


@pytest.mark.parametrize(
    "line", ['{"schema": "hipdnn-iree.run", "version": 7}', '{"key": "b"}', "garbage", "7"]
)
def test_a_foreign_line_ends_the_reading_and_is_not_written_over(tmp_path: Path, line: str) -> None:
    path = tmp_path / "run.jsonl"
    write(path, "a")
    path.write_text(f"{path.read_text()}{line}\n{encode(row('c')).decode()}")
    before = path.read_bytes()
    found = read_run(path)
    assert [one.case for one in found.rows] == ["a"]
    assert found.cut is not None
    assert f"{path}, line 3:" in found.cut
    with pytest.raises(FormatError) as caught:
        RunFile(path, header(), resume=True)
    assert caught.value.problems[0].rule == "RUN-02"
    assert path.read_bytes() == before


def test_a_file_that_is_there_is_only_gone_on_with_by_resuming(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    write(path, "a")
    before = path.read_bytes()
    with pytest.raises(SettingError, match=r"RUN-03.*--resume"):
        RunFile(path, header())
    assert path.read_bytes() == before
    assert write(path, "b", resume=True).known.keys() == {row(c).key for c in "ab"}
    assert path.read_bytes() == before + encode(row("b"))  # no second header


def test_a_second_writer_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    first = RunFile(path, header())
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        with pytest.raises(SettingError, match=r"RUN-03.*another process"):
            RunFile(path, header(), resume=True)
        first.close()
        # A child that was started meanwhile does not hold the file.
        write(path, "a", resume=True)
    finally:
        child.communicate(b"\n")


def test_rows_of_other_versions_are_done_anew(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    write(path, "a", "b")
    newer = header(torch="3")
    resumed = write(path, "a", of=newer, resume=True)
    assert resumed.known.keys() == {row("a").key}
    (said,) = resumed.said
    assert "2 rows" in said
    assert "versions.torch: None -> 3" in said
    found = read_run(path)
    assert found.headers == (header(), newer)
    assert [(one.case, of) for one, of in zip(found.rows, found.header_of, strict=True)] == [
        ("b", 0),
        ("a", 1),
    ]
    # Under the first versions again only what was not replaced still holds.
    assert write(path, of=header(), resume=True).known.keys() == {row("b").key}


def test_load_and_kernel_are_no_other_conditions() -> None:
    busy = msgspec.structs.replace(
        header(), machine={"cpu": "some", "load": 9.0, "system": "Linux 7"}, created="later"
    )
    assert busy.differences(header()) == []
    other = msgspec.structs.replace(header(), machine={"cpu": "other"}, options={"perf": True})
    assert other.differences(header()) == [
        "machine.cpu: some -> other",
        "options.perf: False -> True",
    ]


def test_a_reader_takes_no_more_than_a_line(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    write(path, "a", "b", "c")
    reader = RunReader(path)
    entries = iter(reader)
    assert isinstance(next(entries), Header)
    assert reader.end == len(encode(header()))


def test_a_pipe_is_no_run(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="no regular file"):
        RunFile(tmp_path / "pipe", header())
