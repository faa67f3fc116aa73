# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs in a Python of their own, with a cache of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def printed(program: str, *arguments: str, home: Path) -> str:
    """Return what a program prints; its environment holds the home and the cache, no more."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={"HIPDNN_IREE_CACHE_DIR": str(home), "HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout
