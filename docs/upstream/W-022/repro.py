# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Start the linker by a path with a blank; exit status 1 if iree-compile cannot."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import iree.compiler

SOURCE = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.addf %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
"""
tools = Path(next(iter(iree.compiler.__path__))) / "_mlir_libs"
with tempfile.TemporaryDirectory() as scratch:
    folder = Path(scratch) / "two words"
    folder.mkdir()
    (folder / "iree-lld").symlink_to(tools / "iree-lld")
    (folder / "m.mlir").write_text(SOURCE)
    command = [tools / "iree-compile", "m.mlir", "--iree-hal-target-backends=llvm-cpu"]
    command += ["--iree-llvmcpu-target-cpu=x86-64-v3", "-o", "m.vmfb"]
    linker = [f"--iree-llvmcpu-embedded-linker-path={folder}/iree-lld"]
    codes = []
    for more, env in (([], {}), (linker, {}), ([], {"TMPDIR": str(folder)})):
        done = subprocess.run(
            [*command, *more], cwd=folder, env=os.environ | env, capture_output=True, check=False
        )
        codes.append(done.returncode)
usual, linker_path, temporary = codes
if usual:
    sys.exit(3)
print(f"exit status with a blank in the linker's path: {linker_path}, in TMPDIR: {temporary}")
sys.exit(int(bool(linker_path or temporary)))
