# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Passes on the files in ``lit``, whose comments say what has to come out (filecheck's rules)."""

from __future__ import annotations

import io
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import Options
from filecheck.parser import Parser, pattern_for_opts
from hipdnn_iree.provider.cli.app import app

FOLDER = Path(__file__).parent / "lit"


def checked(text: str, checks: str) -> int:
    """Return filecheck's exit code for a text and the comments of a file."""
    options = Options(match_filename="checks")
    parser = Parser(options, io.StringIO(checks), *pattern_for_opts(options))
    return int(Matcher(options, FInput("output", text), parser).run())


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.mlir")), ids=lambda path: path.stem)
def test_what_comes_out(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    words = shlex.split(text.partition("// RUN: ")[2].partition("\n")[0])
    found = CliRunner().invoke(app, ["opt", str(path), *words])
    assert found.exit_code == 0, found.stderr
    assert checked(found.stdout, text) == 0, found.stdout


def test_a_check_that_fails_is_seen() -> None:
    assert checked("a\nb\n", "// CHECK: a\n// CHECK-NEXT: c\n") != 0
