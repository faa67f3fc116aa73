# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Memory and streams of a device for the checks: PyTorch's on a GPU, NumPy's on the host."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from hipdnn_iree.graph_api.errors import DeviceError

__all__ = ["HostMemory", "Memory", "TorchMemory"]

Array = npt.NDArray[Any]


class Memory(Protocol):
    """Where the buffers of a check are."""

    streams: bool

    def put(self, array: Array) -> Any:
        """Return a buffer on the device with the values of an array."""

    def get(self, buffer: Any) -> Array:
        """Return the values of a buffer, once all work is done."""

    def raw(self, nbytes: int) -> Any:
        """Return uninitialised bytes."""

    def address(self, buffer: Any) -> int:
        """Return where a buffer is."""

    def stream(self) -> Any:
        """Return a new stream."""

    def slowly(self, stream: Any, target: Any, source: Any) -> None:
        """Enqueue long work on a stream, and behind it a copy of one buffer to another."""

    def finish(self) -> None:
        """Wait for everything."""


class HostMemory:
    """Aligned NumPy arrays; there are no streams."""

    streams = False

    def put(self, array: Array) -> Any:
        buffer = self.raw(array.nbytes).view(array.dtype).reshape(array.shape)
        buffer[...] = array
        return buffer

    def get(self, buffer: Any) -> Array:
        return np.array(buffer)

    def raw(self, nbytes: int) -> Any:
        from hipdnn_iree.jit.runtime.arrays import aligned_bytes

        return aligned_bytes(nbytes)

    def address(self, buffer: Any) -> int:
        return int(buffer.ctypes.data)

    def stream(self) -> Any:
        raise DeviceError("the host has no streams")

    def slowly(self, stream: Any, target: Any, source: Any) -> None:
        raise DeviceError("the host has no streams")

    def finish(self) -> None:
        pass


class TorchMemory:
    """Tensors of PyTorch on a GPU, handed over through DLPack.

    Raises
    ------
    DeviceError
        If there is no PyTorch, or it sees no GPU.
    """

    streams = True

    def __init__(self) -> None:
        try:
            import torch
        except ImportError as error:
            raise DeviceError(f"the checks of calls need PyTorch on the device: {error}") from error
        if not torch.cuda.is_available():
            raise DeviceError("PyTorch sees no GPU here")
        self.torch: Any = torch
        self._busy = torch.ones((4096, 4096), device="cuda")

    def put(self, array: Array) -> Any:
        tensor = self.torch.from_numpy(np.ascontiguousarray(array)).to("cuda")
        self.torch.cuda.synchronize()
        return tensor

    def get(self, buffer: Any) -> Array:
        self.torch.cuda.synchronize()
        return np.asarray(buffer.cpu().numpy())

    def raw(self, nbytes: int) -> Any:
        return self.torch.empty(nbytes, dtype=self.torch.uint8, device="cuda")

    def address(self, buffer: Any) -> int:
        return int(buffer.data_ptr())

    def stream(self) -> Any:
        return self.torch.cuda.Stream()

    def slowly(self, stream: Any, target: Any, source: Any) -> None:
        with self.torch.cuda.stream(stream):
            product = self._busy
            for _ in range(8):
                product = product @ self._busy
            target.copy_(source)

    def finish(self) -> None:
        self.torch.cuda.synchronize()
