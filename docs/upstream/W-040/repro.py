# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Load damaged modules in child processes; exit status 1 if one ends by a signal."""

import subprocess
import sys

from iree.compiler import compile_str

SOURCE = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.addf %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
"""
LOAD = """
import sys
import iree.runtime as rt
data = bytearray(sys.stdin.buffer.read())
import random
config = rt.Config("local-sync")
for seed in range(int(sys.argv[1]), int(sys.argv[2])):
    rng = random.Random(seed)
    bad = bytearray(data)
    for _ in range(4):
        bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
    try:
        rt.VmContext(config.vm_instance, modules=[
            config.default_vm_modules[0], rt.VmModule.copy_buffer(config.vm_instance, bytes(bad))])
    except Exception:
        pass
"""
module = compile_str(
    SOURCE,
    extra_args=["--iree-hal-target-backends=llvm-cpu", "--iree-llvmcpu-target-cpu=x86-64-v3"],
)
for first in range(0, 1000, 100):
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(first), str(first + 100)],
        input=module,
        capture_output=True,
        check=False,
    )
    if done.returncode < 0:
        print(f"a module with four flipped bits ended the process by signal {-done.returncode}")
        sys.exit(1)
print("1,000 damaged modules were loaded or refused")
sys.exit(0)
