# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One case at a time on a GPU, of all processes of a user: what is timed has it to itself."""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...graph_api.files import open_regular

__all__ = ["gpu_lock"]


@contextmanager
def gpu_lock(identity: str) -> Iterator[None]:
    """Wait until no other process has the GPU, and keep it.

    Parameters
    ----------
    identity : str
        Of the device (`jit.runtime.device.Device.identity`); another number of the same GPU in
        another process is the same lock.

    Raises
    ------
    OSError
        If the lock's file cannot be opened.
    """
    name = re.sub(r"[^A-Za-z0-9-]", "_", identity)
    path = Path(tempfile.gettempdir()) / f"hipdnn-iree-{os.getuid()}-{name}.lock"
    descriptor = open_regular(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # it goes with the process, however that ends
        yield
    finally:
        os.close(descriptor)
