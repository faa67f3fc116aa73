# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The Python of the pages runs as it stands there, from the top to the end of each page."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hipdnn_iree import Graph

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "page",
    ["python-api", "dynamic-shapes", "runtime", "artifacts", "custom-ops", "offload", "seeing"],
)
def test_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if page == "custom-ops":
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    model = Graph("model", io_data_type="float")
    model.output(model.relu(model.tensor(dims=(4, 6), name="x")), name="y")
    model.save("model.json")
    names: dict[str, object] = {"graph": model, "x": np.ones((4, 6), np.float32)}
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    codes = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert codes
    for code in codes:
        exec(compile(code, f"{page}.md", "exec"), names)
