# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Many random graphs in processes: counted, saved, and not done twice."""

from __future__ import annotations

import json
from pathlib import Path

from tools.fuzz import campaign


def test_a_run_goes_on_where_it_was(tmp_path: Path) -> None:
    first = campaign.run(2, 1, 1, folder=tmp_path)
    assert first.graphs == 2
    assert first.findings == []
    kept = (tmp_path / "findings.jsonl").read_text()
    (tmp_path / "findings.jsonl").write_text(kept + '{"seed": 3, "sta')  # ended while it wrote
    again = campaign.run(2, 1, 1, folder=tmp_path)
    assert again.counts == first.counts
    assert (tmp_path / "findings.jsonl").read_text().startswith(kept)
    assert set(again.as_dict()["stages"]) >= {"generate", "lower", "compile", "check"}


def test_a_failure_is_counted_with_its_graph(tmp_path: Path) -> None:
    row = {"seed": 5, "status": "wrong", "note": "all", "attempt": "", "file": "x.json"}
    (tmp_path / "findings.jsonl").write_text(json.dumps(row) + "\n")
    found = campaign.run(1, 5, 1, folder=tmp_path)
    assert (found.counts["wrong"], found.findings) == (1, [row])


def test_no_graph_is_begun_after_the_limit(tmp_path: Path) -> None:
    assert campaign.run(5, 1, 1, folder=tmp_path, limit_s=0).graphs == 0
