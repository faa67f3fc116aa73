# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Set a flag for one session of a process; exit status 1 if the next session has it as well."""

import sys
import tempfile
from pathlib import Path

from iree.compiler.api import Session, Source

SOURCE = b"""
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.addf %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
\0"""
FLAGS = ["--iree-hal-target-backends=llvm-cpu", "--iree-llvmcpu-target-cpu=x86-64-v3"]


def compiles(*more: str) -> bool:
    """Compile in a session of its own."""
    with Session() as session:
        session.set_flags(*FLAGS, *more)
        invocation = session.invocation()
        try:
            text = Source.wrap_buffer(session, SOURCE, buffer_name="m")
            return bool(invocation.parse_source(text) and invocation.execute())
        finally:
            invocation.close()


spec = Path(tempfile.gettempdir()) / "no-such-tuning-spec.mlir"
usual, refused, after = compiles(), compiles(f"--iree-codegen-tuning-spec-path={spec}"), compiles()
if not usual or refused:
    sys.exit(3)
print("the next session", "compiles" if after else "wants the tuning spec of the one before")
sys.exit(int(not after))
