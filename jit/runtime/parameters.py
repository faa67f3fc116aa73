# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The contents of a graph's constants, as compiled code asks for them when it is loaded."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

from ...graph_api.constants import SCOPE
from ..signature import ArgSpec
from .arrays import ALIGNMENT, aligned_bytes
from .buffer_set import Argument, BufferSet
from .caller_memory import BufferLike
from .device import Device
from .iree_native import iree

__all__ = ["Parameters"]


class Parameters:
    """Memory with the contents of the constants, checked.

    Parameters
    ----------
    uids : sequence of int
        Of the constants, in the order of their numbers.
    names : sequence of str
        For error texts.
    specs : sequence of ArgSpec
    buffers : mapping of int to BufferLike
        By uid.  Objects are kept alive as long as code uses them; memory behind an address is the
        caller's to keep.  None of it may change meanwhile.
    device : Device
        Where they are used.

    Raises
    ------
    BindError
        If a buffer does not fit; ``problems`` lists all of them.
    """

    def __init__(
        self,
        uids: Sequence[int],
        names: Sequence[str],
        specs: Sequence[ArgSpec],
        buffers: Mapping[int, BufferLike],
        device: Device,
    ) -> None:
        labels = [name or f"uid {uid}" for uid, name in zip(uids, names, strict=True)]
        found = BufferSet(list(map(Argument, uids, labels, specs)), buffers)
        found.check(device)
        self._owners = found.owners
        self._memory = [
            self._aligned(found.memory[uid].address, spec.nbytes)
            for uid, spec in zip(uids, specs, strict=True)
        ]

    def _aligned(self, address: int, nbytes: int) -> Any:
        """Return memory as kernels need it: the caller's, or a copy of that."""
        memory: Any = (ctypes.c_char * nbytes).from_address(address)
        if address % ALIGNMENT:
            copy = aligned_bytes(nbytes)
            ctypes.memmove(copy.ctypes.data, address, nbytes)
            return copy
        memory._owners = self._owners  # IREE keeps what it was given
        return memory

    def module(self, instance: Any) -> Any:
        """Return the VM module that compiled code takes the contents from."""
        index = iree().ParameterIndex()
        for number, memory in enumerate(self._memory):
            index.add_buffer(str(number), memory)
        provider = index.create_provider(SCOPE)
        return iree().create_io_parameters_module(instance, provider)
