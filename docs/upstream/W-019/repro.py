# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Call a function that sorts its argument; exit status 1 if the caller's array is sorted."""

import sys

import iree.runtime as rt
import numpy as np
from iree.compiler import compile_str

SOURCE = """
func.func @main(%y: !torch.tensor<[8],f32>, %x: !torch.vtensor<[8],f32>) {
  %d = torch.constant.int 0
  %f = torch.constant.bool false
  %v, %i = torch.aten.sort %x, %d, %f : !torch.vtensor<[8],f32>, !torch.int, !torch.bool
    -> !torch.vtensor<[8],f32>, !torch.vtensor<[8],si64>
  torch.overwrite.tensor.contents %v overwrites %y : !torch.vtensor<[8],f32>, !torch.tensor<[8],f32>
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
x = np.array([3, 1, 2, 7, 6, 5, 4, 0], np.float32)
views = [
    config.device.allocator.allocate_buffer_copy(
        memory_type=rt.MemoryType.DEVICE_LOCAL | rt.MemoryType.HOST_VISIBLE,
        allowed_usage=rt.BufferUsage.DEFAULT | rt.BufferUsage.MAPPING,
        device=config.device,
        buffer=array,
        element_type=rt.HalElementType.FLOAT_32,
    )
    for array in (np.zeros(8, np.float32), x)
]
arguments, results = rt.VmVariantList(2), rt.VmVariantList(1)
for view in views:
    arguments.push_ref(view)
context.invoke(loaded.lookup_function("main"), arguments, results)
after = np.array(views[1].map().asarray([8], np.dtype(np.float32)))
print(f"the argument {x.tolist()} is {after.tolist()} after the call")
sys.exit(int(not np.array_equal(after, x)))
