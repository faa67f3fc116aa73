# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Free an imported buffer after its HIP device; exit status 1 if the process crashes.

Where the machine has no AMD GPU, the emulated one of this repository takes its place: the crash is
in IREE's driver.
"""

import subprocess
import sys
from ctypes.util import find_library

CHILD = """
import contextlib
import gc
import sys
import iree.runtime as rt

here = contextlib.nullcontext()
if {emulated}:
    from hipdnn_iree.provider.emulated import emulated
    here = emulated("gfx942")
with here:
    device = rt.get_driver("hip").create_default_device()
    kind, usage = int(rt.MemoryType.DEVICE_LOCAL), int(rt.BufferUsage.DEFAULT)
    memory = device.allocator.allocate_buffer(kind, usage, 4096)
    view = rt.HalBufferView(memory, (1024,), rt.HalElementType.FLOAT_32)
    capsule = device.create_dlpack_capsule(view, 10, 0)  # 10: ROCm's memory
    imported = device.from_dlpack_capsule(capsule)
    del capsule, view, memory
    gc.collect()
    if {device_first}:
        del device
        gc.collect()
        del imported
    else:
        del imported
        gc.collect()
        del device
    gc.collect()
"""


def ending(device_first: bool) -> int:
    """Return how a process ends that frees both in this order."""
    text = CHILD.format(device_first=device_first, emulated=find_library("amdhip64") is None)
    return subprocess.run([sys.executable, "-c", text], check=False).returncode


if ending(False):
    sys.exit(3)
found = ending(True)
print(f"exit status {found} where the device is freed first")
sys.exit(int(found != 0))
