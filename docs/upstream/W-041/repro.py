# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Load code for CPU features that no machine has together; exit status 1 if it is accepted."""

import sys

import iree.runtime as rt
from iree.compiler import compile_str

SOURCE = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.addf %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
"""
module = compile_str(
    SOURCE,
    extra_args=[
        "--iree-hal-target-backends=llvm-cpu",
        # 3DNow! of old AMD processors and AMX of new Intel ones.
        "--iree-llvmcpu-target-cpu-features=+avx512f,+amx-tile,+amx-fp16,+fma4,+xop,+tbm",
    ],
)
config = rt.Config("local-sync")
try:
    rt.VmContext(
        config.vm_instance,
        modules=[
            config.default_vm_modules[0],
            rt.VmModule.copy_buffer(config.vm_instance, module),
        ],
    )
except Exception as error:
    print(f"refused: {str(error)[:100]}")
    sys.exit(0)
print("a module for AVX-512, AMX, FMA4 and XOP is loaded on a machine that cannot have all of them")
sys.exit(1)
