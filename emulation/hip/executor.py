"""What executes the kernels of the HIP library: the decoder and the machine of this package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .library import HipError, Module

__all__ = ["Emulator"]

_NOT_SUPPORTED = 801


class Emulator:
    """Executes code objects on the CPU (`library.Executor`)."""

    def load(self, code: bytes, arch: str) -> Module:
        """Return the code of a GPU."""
        raise HipError(_NOT_SUPPORTED, f"{len(code)} bytes of code for {arch} are not executed yet")

    def launch(
        self,
        module: Any,
        name: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: bytes,
        memory: Sequence[tuple[int, int]],
        *,
        shared_bytes: int,
    ) -> None:
        """Execute a kernel."""
        raise HipError(_NOT_SUPPORTED, f"{name} is not executed yet")
