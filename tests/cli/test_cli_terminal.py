# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Colour, tables that fit, ``--quiet``, and what is said of plain faults."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import hipdnn_iree
import pytest
from hipdnn_iree.provider.cli import output
from hipdnn_iree.provider.cli.progress import Progress

Cli = Callable[..., Any]
ROOT = Path(hipdnn_iree.__file__).resolve().parent.parent
RED = b"\x1b[31m"


def command(words: list[str], env: Mapping[str, str], **more: Any) -> tuple[int, bytes, bytes]:
    """Run a command with these variables alone."""
    found = subprocess.run(
        [sys.executable, "-m", "hipdnn_iree", *words],
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], **env},
        capture_output=True,
        timeout=300,
        **more,
    )
    return found.returncode, found.stdout, found.stderr


def on_terminal(words: list[str], width: int, env: Mapping[str, str]) -> str:
    """Return what a command prints on a terminal of a width, stdout and stderr together."""
    terminal, side = pty.openpty()
    shown: list[bytes] = []

    def listen() -> None:
        with contextlib.suppress(OSError):  # how Linux tells the end
            while data := os.read(terminal, 4096):
                shown.append(data)

    listener = threading.Thread(target=listen)
    listener.start()
    subprocess.run(
        [sys.executable, "-m", "hipdnn_iree", *words],
        env={"PYTHONPATH": str(ROOT), "COLUMNS": str(width), **env},
        stdout=side,
        stderr=side,
        timeout=300,
    )
    os.close(side)
    listener.join()
    os.close(terminal)
    return b"".join(shown).decode().replace("\r\n", "\n")


# ---------------------------------------------------------------------------- colour


@pytest.mark.parametrize(
    ("env", "coloured"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ({"FORCE_COLOR": "", "NO_COLOR": ""}, False),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, True),
    ],
)
def test_colour_of_errors_where_there_is_no_terminal(env: dict[str, str], coloured: bool) -> None:
    code, _, err = command(["show", "nothing"], env)
    assert code == 2
    assert (RED in err) == coloured
    assert b"error" in err


@pytest.mark.parametrize(
    ("env", "coloured"),
    [({"TERM": "xterm"}, True), ({"TERM": "dumb"}, False), ({"NO_COLOR": "1"}, False)],
)
def test_colour_of_errors_on_a_terminal(env: dict[str, str], coloured: bool) -> None:
    shown = on_terminal(["show", "nothing"], 80, env)
    assert ("\x1b[31m" in shown) == coloured
    assert "[E200]: cannot read nothing: no such file" in shown


def test_only_the_label_of_a_line_is_coloured(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    output.complain("warning: an error: x\n  error: indented\nerrors: 2\n\x1b[2J")
    first, second, third, fourth = capsys.readouterr().err.splitlines()
    assert first == "\x1b[33m\x1b[1mwarning\x1b[0m: an error: x"
    assert (second, third, fourth) == ("  error: indented", "errors: 2", "\\x1b[2J")


# ---------------------------------------------------------------------------- tables


@pytest.mark.parametrize("width", [40, 80, 200])
def test_tables_fit_the_terminal(width: int) -> None:
    shown = on_terminal(["targets"], width, {"NO_COLOR": "1"})
    rows = shown.partition("\n\n")[0].splitlines()
    assert max(map(len, rows)) <= width
    assert "gfx942" in shown
    assert "local-task" in shown.replace("\n", "") or width == 40


def test_a_table_elsewhere_has_a_line_for_each_row(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    output.table(["name", "n"], [["x" * 100, 1], ["y z", 1234]])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "x" * 100 + "      1"
    assert len(lines) == 3


def test_numbers_of_a_table_that_is_wrapped_stay_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "columns", lambda stream: 30)
    output.table(["text [bold]", "number"], [["a [red] word " * 6, 1234567]])
    out = capsys.readouterr().out
    assert "1,234,567" in out
    assert "[red]" in out  # no markup
    assert max(map(len, out.splitlines())) <= 30


def test_facts_are_wrapped_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "columns", lambda stream: 40)
    output.facts([("a label", "word " * 20), ("path", "/" + "x" * 60)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("a label  word")
    assert lines[1].startswith("         word")
    assert lines[-1] == "path     /" + "x" * 60  # a path that is cut is of no use


# ---------------------------------------------------------------------------- quiet


def test_quiet_leaves_errors_alone(
    cli: Cli, graphs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIPDNN_IREE_XYZZY", "1")
    words = ["show", graphs / "add.json", "-o", tmp_path / "out"]
    assert len(cli(*words).err.splitlines()) == 2  # the warning, and what was written
    for line in (["-q", *words], [*words, "--quiet"], [*words, "-q", "-v"]):
        assert cli(*line).err == ""
    assert cli("show", "nothing", "-q").err.startswith("error [E200]: cannot read nothing")
    found = cli("explain", graphs / "declined.json", "-q")
    assert found.out == cli("explain", graphs / "declined.json").out


def test_quiet_progress_tells_failures_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with output.quiet(True), Progress("work", 2) as progress:
        progress.step(line="one is done")
        progress.step("wrong: two")
    assert capsys.readouterr().err == "wrong: two\n"


def test_progress_tells_each_line_with_rate_and_time_left(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = iter(range(0, 1000, 30))
    with Progress("work", 4, clock=lambda: float(next(now))) as progress:
        progress.step(line="one")
        progress.step("wrong: two", line="two")
        progress.at(3, 5, "the last")
    assert capsys.readouterr().err.splitlines() == [
        "[1/4] one",  # it may be the first of a batch
        "wrong: two",
        "[2/4] two; 30 s each, 1 failure, 1 min 0 s left",
        "[3/5] work: the last, 1 min 0 s left",
    ]


def test_progress_foretells_nothing_from_the_first_batch(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of 16 steps in four batches, a minute each, the first would say that 15 min are left."""
    now = iter([0.0, *(60.0 * batch for batch in range(1, 5) for _ in range(4))])
    with Progress("work", 16, clock=lambda: next(now)) as progress:
        for _ in range(16):
            progress.step()
    told = capsys.readouterr().err.splitlines()
    assert told[3:5] == ["[4/16]", "[5/16] 24 s each, 4 min 24 s left"]
    assert told[-1] == "[16/16] 15 s each, 0 s left"


# ---------------------------------------------------------------------------- plain faults


def test_a_file_that_is_not_there_is_said_in_a_line(cli: Cli, graphs: Path) -> None:
    for name, hint in (("ad.json", f"; did you mean {graphs}/add.json?"), ("zzz", "")):
        found = cli("show", graphs / name)
        text = f"error [E200]: cannot read {graphs / name}: no such file [FILE-01]{hint}\n"
        assert (found.code, found.err) == (2, text)
    error = cli("show", graphs / "ad.json", "--json").json()["error"]
    assert error["problems"][0]["hint"] == f"did you mean {graphs}/add.json?"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["show", "{}"], "cannot read {}: it is a folder [FILE-01]"),
        (["show", "{}/add.json/x"], "a part of its path is a file, not a folder [FILE-01]"),
        (
            ["show", "{}/add.json", "-o", "{}/no/x"],
            "cannot write {}/no/x: there is no folder {}/no [FILE-01]",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_a_line(
    cli: Cli, graphs: Path, words: list[str], said: str
) -> None:
    found = cli(*(word.replace("{}", str(graphs)) for word in words))
    assert found.code == 2
    assert said.replace("{}", str(graphs)) in found.err
    assert len(found.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (17272.4, 4, "17,272"),
        (1234.5, 3, "1,234"),
        (-1e6, 3, "-1,000,000"),
        (999.5, 3, "1,000"),
        (12.345, 3, "12.3"),
        (1.5e-7, 3, "1.5e-07"),
        (float("inf"), 3, "inf"),
        (1e20, 3, "1e+20"),
        (12345, 3, "12,345"),
    ],
)
def test_numbers_of_tables(value: float, digits: int, text: str) -> None:
    assert output.number(value, digits) == text
