# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree run --shape``: sizes of dynamic dims, and other dims of tensors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]


@pytest.mark.parametrize(
    ("words", "dims"),
    [
        ((), [8, 6]),
        (("--shape", "n=17"), [17, 6]),
        (("--shape", "x=9x6"), [9, 6]),
        (("--shape", "n=3", "--exact"), [3, 6]),
        (("--shape", "n=3", "--buckets", "powers"), [3, 6]),
        (("--shape", "x=9x6", "--buckets", "n=4,16", "--engine", "reference"), [9, 6]),
        (("--shape", "x=5x7", "--shape", "w=1x7"), [5, 7]),
        (("--shape", "1=4x6", "--engine", "reference"), [4, 6]),
    ],
)
def test_shapes_are_run_and_verified(
    cli: Cli, rows_file: Path, words: Any, dims: list[int]
) -> None:
    found = cli("run", rows_file, "--verify", "--json", *words)
    assert found.code == 0, found.err
    about = found.json()
    assert about["verified"] is True
    assert about["outputs"][0]["dims"] == dims
    padded = {"powers": {"n": 4}, "n=4,16": {"n": 16}}
    assert about["bucket"] == next((padded[word] for word in words if word in padded), None)
    assert all(seconds >= 0 for seconds in about["stages"].values())


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("n", 2, "neither NAME=N nor NAME=NxN"),
        ("n=", 2, "neither NAME=N nor NAME=NxN"),
        ("n=-3", 2, "neither NAME=N nor NAME=NxN"),
        ("n=0", None, "DYN-03"),
        ("x=9x6x1", None, "SHAPE-02"),
        ("x=9x7", None, "PW-"),
        ("z=3", None, "PLAN-01"),
        ("nn=3", None, "did you mean 'n'?"),
        ("z=3", None, "; dynamic dims: n"),
    ],
)
def test_shapes_that_do_not_fit(cli: Cli, rows_file: Path, text: str, code: Any, said: str) -> None:
    found = cli("run", rows_file, "--shape", text)
    assert found.code == (code or found.code) != 0
    assert said in found.err


def test_buckets_that_cannot_be_read(cli: Cli, rows_file: Path) -> None:
    found = cli("run", rows_file, "--buckets", "n=many")
    assert found.code == 2
    assert "none of powers" in found.err
    assert "BUCKET-01" in cli("run", rows_file, "--buckets", "m=4").err
