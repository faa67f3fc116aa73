# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Parse deeply nested text in a child process; exit status 1 if it ends by a signal."""

import subprocess
import sys

PARSE = """
from torch_mlir import ir
with ir.Context():
    try:
        ir.Module.parse("module attributes {a = " + "[" * 100_000 + "]" * 100_000 + "} {}")
    except ir.MLIRError:
        pass
"""
done = subprocess.run([sys.executable, "-c", PARSE], capture_output=True, check=False)
print(f"exit status {done.returncode} for brackets 100,000 deep")
sys.exit(0 if done.returncode == 0 else 1 if done.returncode < 0 else 3)
