# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights that a part of a torch graph holds: packed once, and again when they have changed."""

from __future__ import annotations

import ctypes
import threading
import weakref
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from ...jit.runtime.arrays import span
from ..offload import Executor
from ..offload.finished import Program
from ..offload.program import TensorType
from ..plan import Plan
from ..torch_import import load_torch

__all__ = ["HeldWeights", "static_inputs"]

_SAMPLES = 16


class HeldWeights:
    """A program whose plans hold its weights: an executor for each set of tensors that are those.

    One program may serve many sets, such as those of equal layers that Dynamo traces once.  A set
    is dropped with the first of its tensors.

    Parameters
    ----------
    program : Program
    plans : mapping of str to Plan

    Attributes
    ----------
    outputs, inputs : tuple of TensorType
    """

    device_id = None

    def __init__(self, program: Program, plans: Mapping[str, Plan]) -> None:
        self._program, self._plans = program, plans
        count = len(program.outputs)
        self.outputs: tuple[TensorType, ...] = program.types[:count]
        self.inputs: tuple[TensorType, ...] = program.types[count:]
        self._sets: dict[tuple[int, ...], _Set] = {}
        self._lock = threading.Lock()

    def executor(self, weights: Sequence[Any]) -> Executor:
        """Return what runs the program with these tensors, as they are now."""
        key = tuple(map(id, weights))
        found = self._sets.get(key)
        if found is None or not found.holds(weights):
            with self._lock:
                found = self._sets.get(key)
                if found is None or not found.holds(weights):
                    found = self._sets[key] = self._made(key, weights)
        return found.executor

    def _made(self, key: tuple[int, ...], weights: Sequence[Any]) -> _Set:
        known = [_Known.of(tensor) for tensor in weights]
        # Packing may wait for the first call; what it reads then is what was noted here.
        kept = [tensor.detach().contiguous() for tensor in weights]
        executor = Executor(
            self._program, self._plans, weights=[t.data_ptr() for t in kept], kept=kept
        )
        drop = partial(_drop, weakref.ref(self), key)
        return _Set(executor, known, [weakref.ref(tensor, drop) for tensor in weights])


def _drop(held: Callable[[], HeldWeights | None], key: tuple[int, ...], _: object) -> None:
    owner = held()
    if owner is not None:
        owner._sets.pop(key, None)


class _Known(NamedTuple):
    """What tells whether a tensor holds what it held.

    Attributes
    ----------
    address : int
    version : int or None
        PyTorch counts what is written to a tensor by ops; not what is written through ``.data``
        or NumPy, and nothing of tensors that were made in inference mode.
    look : callable
        Returns some of the numbers; without a version, a checksum of all.
    seen : object
        What it returned.
    """

    address: int
    version: int | None
    look: Callable[[], object]
    seen: object

    @classmethod
    def of(cls, tensor: Any) -> _Known:
        import numpy as np

        address, width = tensor.data_ptr(), min(tensor.itemsize, 8)
        nbytes = span(tensor.shape, tensor.stride()) * tensor.itemsize if tensor.numel() else 0
        memory: Any = (ctypes.c_char * nbytes).from_address(address)
        if tensor.is_inference():
            look: Callable[[], object] = partial(zlib.crc32, memory)
            return cls(address, None, look, look())
        numbers = np.ndarray((nbytes // width,), f"u{width}", memory)
        look = numbers[:: max(len(numbers) // _SAMPLES, 1)].tobytes
        return cls(address, tensor._version, look, look())


class _Set:
    """An executor, and the tensors that it was made for."""

    def __init__(self, executor: Executor, known: list[_Known], tensors: list[Any]) -> None:
        self.executor, self._known, self._tensors = executor, known, tensors

    def holds(self, weights: Sequence[Any]) -> bool:
        """Whether the tensors have the numbers that the executor was made for."""
        for tensor, known in zip(weights, self._known, strict=True):
            version = None if known.version is None else tensor._version
            if tensor.data_ptr() != known.address or version != known.version:
                return False
            if known.look() != known.seen:
                return False
        return True


def static_inputs() -> tuple[int, ...]:
    """Return the inputs of the graph that AOTAutograd compiles, by number, that are weights.

    Those are parameters and buffers; what the graph writes is none.
    """
    context = load_torch()._guards.TracingContext.try_get()
    about = context and context.fw_metadata
    if not about:
        return ()
    return tuple(k for k in about.static_input_indices if not about.input_info[k].mutates_data)
