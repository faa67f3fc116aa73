# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree inspect``: one record per dispatch, for people and for programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from hipdnn_iree.provider.cli import inspect as inspect_module

Cli = Callable[..., Any]


def test_json(cli: Cli, graphs: Path, tmp_path: Path) -> None:
    found = cli("inspect", graphs / "conv.json", "--dump", tmp_path / "d", "--json")
    assert found.code == 0, found.err
    about = found.json()
    assert set(about) == {key for keys in inspect_module.JSON for key in keys.split(", ")}
    assert (about["target"], about["figures_of"]) == ("gfx942", "mi300x")
    assert (about["dispatches"], about["fills"], about["warnings"]) == (1, 0, [])
    (row,) = about["dispatch"]
    assert row["kernel"]["mfma_count"] > 0
    assert row["roofline"]["seconds"] == about["roofline_s"]
    assert (tmp_path / "d" / "module.vmfb").exists()


def test_text_fits_a_terminal(cli: Cli, graphs: Path) -> None:
    found = cli("inspect", graphs / "conv.json", "--target", "mi355x")
    assert found.code == 0, found.err
    lines = found.out.splitlines()
    assert max(map(len, lines)) <= inspect_module.WIDTH
    for word in (
        "MI355X",
        "waves per SIMD",
        "v_mfma",
        "bound by",
        "LDS",
        "workgroup of",
        "█",
        "µs without launches",
    ):
        assert word in found.out
    assert any(line.strip().startswith("nodes") for line in lines)


def test_a_cpu_has_dispatches_but_no_kernels(cli: Cli, graphs: Path) -> None:
    found = cli("inspect", graphs / "add.json", "--target", "cpu", "--json").json()
    assert found["figures_of"] is found["roofline_s"] is None
    assert [row["kernel"] for row in found["dispatch"]] == [None] * len(found["dispatch"])
    assert found["dispatch"][0]["nodes"]
    text = cli("inspect", graphs / "add.json", "--target", "cpu").out
    assert "VGPR" not in text
    assert "at least" in text


def test_long_names_are_told_whole() -> None:
    """The end of a name is what tells dispatches apart; it was cut off."""
    name = "main_dispatch_" + "7x" * 120
    lines = [click.unstyle(line) for line in inspect_module._heading(f"#0 {name}")]
    assert max(map(len, lines)) <= inspect_module.WIDTH
    assert "".join(lines).replace(" ", "") == f"#0{name}"
