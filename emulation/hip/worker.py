# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The process that executes the kernels of another one, which `library.Library` has started.

It holds nobody's lock, so that its host may wait for a kernel in any state; it ends with its host.
"""

from __future__ import annotations

import mmap
import os
import select
import socket
import threading

import numpy as np

from .executor import Emulator
from .service import Window, serve

__all__ = ["main"]


def main(descriptor: str, memory: str, begin: str, size: str, first: str) -> None:
    """Execute kernels until the host ends.

    Parameters
    ----------
    descriptor : str
        Of the socket to the host.
    memory : str
        Descriptor of the file of device memory.
    begin, size : str
        The address that it has for kernels, and its bytes.
    first : str
        As of `serve`.
    """
    channel = socket.socket(fileno=int(descriptor))
    threading.Thread(target=_end_with, args=[channel.fileno()], daemon=True).start()
    shared = mmap.mmap(int(memory), int(size), mmap.MAP_SHARED)
    at = np.frombuffer(shared, np.uint8).ctypes.data
    serve(channel, Emulator(), Window(int(begin), int(at)), first=int(first))


def _end_with(descriptor: int) -> None:
    """End the process with its host, also in the middle of a kernel."""
    host = select.poll()
    host.register(descriptor, 0)  # only that it is closed
    host.poll()
    os._exit(0)
