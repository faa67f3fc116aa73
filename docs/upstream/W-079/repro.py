# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compile both modules; exit status 1 if repro.mlir needs much more transient memory."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import iree.compiler

HERE = Path(__file__).resolve().parent
TOOL = os.path.join(next(iter(iree.compiler.__path__)), "_mlir_libs", "iree-compile")
FLAGS = [
    "--iree-hal-target-backends=rocm",
    "--iree-rocm-target=gfx942",
    "--iree-opt-level=O3",
    "--iree-preprocessing-pass-pipeline=builtin.module(iree-preprocessing-backward-data-conv-pipeline)",
    "--iree-flow-enable-pad-handling",
    "--iree-global-opt-propagate-transposes-through-conv",
    "--iree-global-opt-enable-sink-transpose-through-pad",
    "--iree-dispatch-creation-enable-fuse-padding-into-linalg-consumer-ops",
    "--iree-dispatch-creation-enable-aggressive-reshape-movement",
    "--iree-dispatch-creation-enable-split-reduction",
]


def transient(name: str) -> int:
    """Return the bytes of transient memory of a module."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "statistics.json"
        more = [f"--iree-scheduling-dump-statistics-file={told}", "-o", f"{folder}/out.vmfb"]
        more.append("--iree-scheduling-dump-statistics-format=json")
        subprocess.run([TOOL, HERE / name, *FLAGS, *more], check=True)
        found = json.loads(told.read_text())["stream-aggregate"]["execution"]
    return int(found["transient-memory-size"])


repro, baseline = transient("repro.mlir"), transient("baseline.mlir")
print(f"{repro} bytes of transient memory, {baseline} for mean - x")
sys.exit(int(repro > 1.5 * baseline))
