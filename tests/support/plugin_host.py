# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a host hands to the plugin's methods, without the C library."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from hipdnn_iree.provider.plugin_abi import ConstData


class Const:
    """Bytes as a host hands them over."""

    def __init__(self, data: bytes, size: int | None = None) -> None:
        self.memory = ctypes.create_string_buffer(data, len(data))
        at = ctypes.addressof(self.memory)
        self.data = ConstData(at, len(data) if size is None else size)
        self.address = ctypes.addressof(self.data)


def new(call: Callable[..., None], *arguments: Any) -> int:
    """Return the handle or context that a call makes."""
    out = ctypes.c_void_p()
    call(*arguments, ctypes.addressof(out))
    assert out.value
    return out.value
