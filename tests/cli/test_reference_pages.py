# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The pages of docs/reference/ say what the code says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import hipdnn_iree
import pytest
from hipdnn_iree.graph_api.ops import OPS
from hipdnn_iree.jit.settings import KNOBS
from hipdnn_iree.provider.cli.exits import EXIT_CODES

ROOT = Path(hipdnn_iree.__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "gen_docs"
PAGES = ROOT / "docs" / "reference"

pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="not a checkout")


def test_no_page_is_out_of_date() -> None:
    words = [sys.executable, SCRIPT, "--check"]
    found = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert (found.returncode, found.stdout) == (0, ""), found.stdout + found.stderr


def test_a_page_that_is_out_of_date_is_found(tmp_path: Path) -> None:
    packages = ("hipdnn_iree", "graph_api", "jit", "provider", "hipdnn_plugin", "emulation")
    for name in (*packages, "pyproject.toml"):
        (tmp_path / name).symlink_to(ROOT / name)
    script = tmp_path / "scripts" / "gen_docs"
    script.parent.mkdir()
    script.write_bytes(SCRIPT.read_bytes())

    def call(*words: str) -> tuple[int, str]:
        found = subprocess.run(
            [sys.executable, script, *words], capture_output=True, text=True, timeout=300
        )
        return found.returncode, found.stdout

    page = tmp_path / "docs" / "reference" / "targets.md"
    stale = "docs/reference/targets.md is out of date; run scripts/gen_docs\n"
    assert call("targets", "--check") == (1, stale)
    assert not page.exists()
    assert call("targets") == (0, "docs/reference/targets.md written\n")
    assert call("targets", "--check") == (0, "")
    assert page.read_text() == (PAGES / "targets.md").read_text()
    page.write_text(page.read_text() + "more\n")
    assert call("targets", "--check") == (1, stale)
    assert call("nothing")[0] == 2


def test_pages_hold_what_they_are_about() -> None:
    cli = (PAGES / "cli.md").read_text(encoding="utf-8")
    for code, meaning in EXIT_CODES.items():
        assert f"| {code} | {meaning} |" in cli
    knobs = (PAGES / "knobs.md").read_text(encoding="utf-8")
    assert all(f"| `{k.name}` | `{k.env}` |" in knobs for k in KNOBS)
    ops = (PAGES / "ops.md").read_text(encoding="utf-8")
    assert all(f"\n## {name}\n" in ops for name in OPS)
    rules = (PAGES / "rules.md").read_text(encoding="utf-8")
    assert all(f"| `{rule}` |" in rules for op in OPS.values() for rule in op.RULES)
