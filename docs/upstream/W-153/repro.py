# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Execute code on as many workers as there are cores; exit status 1 if the caller is busy too."""

import os
import sys
import time

cores = sorted(os.sched_getaffinity(0))[:2]
if len(cores) < 2:
    print("two cores are needed")
    sys.exit(2)
os.sched_setaffinity(0, cores)  # before IREE's threads begin

import iree.runtime as rt  # noqa: E402
import numpy as np  # noqa: E402
from iree.compiler import compile_str  # noqa: E402

CALLS, BUSY = 200, 0.1
SOURCE = """
func.func @main(%x: tensor<1024x512xf32>, %y: tensor<512x512xf32>) -> tensor<1024x512xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1024x512xf32>
  %sum = linalg.fill ins(%zero : f32) outs(%empty : tensor<1024x512xf32>) -> tensor<1024x512xf32>
  %z = linalg.matmul ins(%x, %y : tensor<1024x512xf32>, tensor<512x512xf32>)
                     outs(%sum : tensor<1024x512xf32>) -> tensor<1024x512xf32>
  return %z : tensor<1024x512xf32>
}
"""
rt.flags.parse_flags("--task_topology_group_count=2")
config = rt.Config("local-task")
code = compile_str(
    SOURCE,
    extra_args=["--iree-hal-target-backends=llvm-cpu", "--iree-llvmcpu-target-cpu=host"],
)
module = rt.load_vm_module(rt.VmModule.copy_buffer(config.vm_instance, code), config)
arguments = [
    rt.asdevicearray(config.device, np.ones(shape, np.float32))
    for shape in ((1024, 512), (512, 512))
]


def share() -> float:
    """Return which share of the time the calling thread computes."""
    wall, own = time.perf_counter(), time.thread_time()
    for _ in range(CALLS):
        module.main(*arguments)
    return (time.thread_time() - own) / (time.perf_counter() - wall)


share()
before = share()
os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
after = share()
print(f"the calling thread computes {before:.0%} of the time; {after:.0%} as a batch")
sys.exit(before > BUSY and before > 2 * after)
