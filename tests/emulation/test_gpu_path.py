"""What runs on an AMD GPU, run on emulated ones: commands, plans, plugin, foreign engines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


def test_all_of_it() -> None:
    """In a process of its own, as a process has one library of HIP."""
    pytest.importorskip("hip")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(
        [*words, "--tb=short", str(HERE / "on_a_gpu.py")],
        env={k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")},
        cwd=HERE.parents[1],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert not done.returncode, f"{done.stdout}\n{done.stderr}"
