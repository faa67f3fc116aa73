# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the contract tests look at: the checkout, its modules, and fresh interpreters."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import hipdnn_iree
import pytest

FOLDERS = ("graph_api", "jit", "provider", "hipdnn_plugin", "emulation")


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The root of the repository."""
    return Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def modules(checkout: Path) -> dict[str, Path]:
    """Every module of the project by its import name."""
    found = {"hipdnn_iree": checkout / "hipdnn_iree" / "__init__.py"}
    for folder in FOLDERS:
        for path in sorted((checkout / folder).rglob("*.py")):
            parts = path.relative_to(checkout).with_suffix("").parts
            found[".".join(("hipdnn_iree", *parts)).removesuffix(".__init__")] = path
    for path in sorted((checkout / "hipdnn_iree" / "compat").glob("*.py")):
        found[f"hipdnn_iree.compat.{path.stem}".removesuffix(".__init__")] = path
    return found


@pytest.fixture
def fresh(tmp_path: Path) -> Callable[..., str]:
    """Run code in a new interpreter, in an empty folder, with the ``hipdnn_iree`` of this run."""
    source = Path(hipdnn_iree.__file__).parent.parent

    def run(code: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(source)},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
