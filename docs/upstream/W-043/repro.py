# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fill an imported buffer as a compiled function does; exit status 1 if it is refused."""

import sys

import iree.runtime as rt
import numpy as np
from iree.compiler import compile_str

# The destination's whole buffer is overwritten by a constant.
SOURCE = """
func.func @main(%y: !torch.tensor<[1024],f32>) {
  %z = torch.vtensor.literal(dense<0.000000e+00> : tensor<1024xf32>) : !torch.vtensor<[1024],f32>
  torch.overwrite.tensor.contents %z overwrites %y
    : !torch.vtensor<[1024],f32>, !torch.tensor<[1024],f32>
  return
}
"""
module = compile_str(
    SOURCE,
    input_type="torch",
    extra_args=["--iree-hal-target-backends=llvm-cpu", "--iree-llvmcpu-target-cpu=x86-64-v3"],
)
config = rt.Config("local-sync")
loaded = rt.VmModule.copy_buffer(config.vm_instance, module)
context = rt.VmContext(config.vm_instance, modules=[config.default_vm_modules[0], loaded])
memory = np.ones(1024 + 16, np.float32)
start = -memory.ctypes.data % 64 // 4
array = memory[start : start + 1024]
view = config.device.from_dlpack_capsule(array.__dlpack__())
arguments, results = rt.VmVariantList(1), rt.VmVariantList(1)
arguments.push_ref(view)
try:
    context.invoke(loaded.lookup_function("main"), arguments, results)
except Exception as error:
    print(" ".join(str(error).split())[:200])
    sys.exit(1)
print("filled:", float(array.max()) == 0.0)
sys.exit(0)
