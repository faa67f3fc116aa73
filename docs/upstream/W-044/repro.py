# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Import host memory that starts 4 bytes off; exit status 1 if it is accepted."""

import ctypes
import sys

import iree.runtime as rt

device = rt.get_device("local-sync")
memory = (ctypes.c_char * 256)()
off = -ctypes.addressof(memory) % 64 + 4
part = (ctypes.c_char * 64).from_buffer(memory, off)
kind = rt.MemoryType.DEVICE_LOCAL | rt.MemoryType.HOST_VISIBLE
usage = rt.BufferUsage.DEFAULT | rt.BufferUsage.MAPPING
try:
    device.allocator.import_host_allocation(part, kind, usage)
except Exception as error:
    print(f"refused: {' '.join(str(error).split())[:150]}")
    sys.exit(0)
print("memory at an address that is 4 modulo 64 is imported")
sys.exit(1)
