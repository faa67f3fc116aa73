# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scripts of the two other frontends, run with their import changed and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.py"))
IMPORTS = {
    "import cudnn\n": "import hipdnn_iree.compat.cudnn as cudnn\n",
    "import hipdnn_frontend as hipdnn\n": ("import hipdnn_iree.compat.hipdnn_frontend as hipdnn\n"),
}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_runs(script: Path) -> None:
    """Each script computes what it wants in float64 as well: name -> (result, expected)."""
    text = script.read_text(encoding="utf-8")
    assert "hipdnn_iree" not in text
    (old,) = (line for line in IMPORTS if line in text)
    names: dict[str, object] = {}
    exec(compile(text.replace(old, IMPORTS[old]), script.name, "exec"), names)
    results = names["results"]
    assert isinstance(results, dict)
    assert results
    for name, (found, expected) in results.items():
        assert found.shape == expected.shape, name
        # A float holds 24 bits, a half 11; what is rounded are sums of up to 100 terms.
        rounding = 2e-3 if found.dtype == np.float16 else 1e-5
        scale = np.abs(expected).max()
        error = np.abs(found - expected).max() / scale
        assert 0 < scale < np.inf
        assert error < rounding, f"{name}: {error}"


def test_there_are_five_of_each() -> None:
    kinds = [re.match(r"[a-z]+", path.stem) for path in SCRIPTS]
    assert sorted(kind[0] for kind in kinds if kind) == ["cudnn"] * 5 + ["hipdnn"] * 5
