# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Call queue_execute with a list of semaphores; exit status 1 if it is refused."""

import sys

import iree.runtime as rt

device = rt.get_device("local-sync")
done = device.create_semaphore(0)
source, target = (
    device.allocator.allocate_buffer(
        rt.MemoryType.DEVICE_LOCAL | rt.MemoryType.HOST_VISIBLE, rt.BufferUsage.DEFAULT, 64
    )
    for _ in range(2)
)
commands = rt.HalCommandBuffer(device)
commands.copy(source, target, end=True)
try:
    device.queue_execute(commands, [], [(done, 1)])
except TypeError as error:
    print(" ".join(str(error).split())[:200])
    sys.exit(1)
print("a list of semaphores is taken")
sys.exit(0)
