# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compile one module in several sessions of a process; exit status 1 if the bytes differ."""

import sys

from iree.compiler.api import Output, Session, Source

SOURCE = b"""
func.func @main(%a: tensor<64x64xf32>, %b: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x64xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<64x64xf32>) -> tensor<64x64xf32>
  %y = linalg.matmul ins(%a, %b : tensor<64x64xf32>, tensor<64x64xf32>)
    outs(%f : tensor<64x64xf32>) -> tensor<64x64xf32>
  return %y : tensor<64x64xf32>
}
\0"""
FLAGS = ["--iree-hal-target-backends=llvm-cpu", "--iree-llvmcpu-target-cpu=x86-64-v3"]


def compiled(*more: str) -> bytes:
    """Return the module, compiled in a session of its own."""
    with Session() as session, Output.open_membuffer() as output:
        session.set_flags(*FLAGS, *more)
        invocation = session.invocation()
        try:
            text = Source.wrap_buffer(session, SOURCE, buffer_name="m")
            if not invocation.parse_source(text) or not invocation.execute():
                sys.exit(3)
            invocation.output_vm_bytecode(output)
            return bytes(output.map_memory())
        finally:
            invocation.close()


def differs(*more: str) -> bool:
    """Return whether compiling again gives other bytes."""
    return len({compiled(*more) for _ in range(4)}) > 1


if differs("--iree-llvmcpu-debug-symbols=false"):
    sys.exit("differs without debug symbols as well")
found = differs()
print("compiling again gives", "other bytes" if found else "the same bytes")
sys.exit(int(found))
