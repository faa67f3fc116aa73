# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Running a finished module on arrays, or on addresses of the host or of a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ...graph_api.dtypes import DataType
from ...graph_api.errors import BindError, Problem
from ...jit.runtime.arrays import aligned_bytes
from ..plan import Plan
from .finished import Program
from .kernel import Kernel
from .memory import GpuMemory, HostMemory
from .program import TensorType

__all__ = ["Executor", "numpy_type"]

Array = np.ndarray[Any, Any]


class Executor:
    """Runs a function of a finished module; from many threads, if wanted.

    Parameters
    ----------
    program : Program
        Its buffers planned.
    plans : mapping of str to Plan
        By the name of their graph.
    device_id : int, optional
        HIP's number of the GPU that the plans are for; without one they are for the CPU.
    weights : sequence of int
        Addresses, in the program's order, of what is the same at each call.
    kept : object
        Owns that memory.

    Attributes
    ----------
    program, device_id
    outputs, inputs : tuple of TensorType
        What the source function returns and takes.
    execute : Kernel
        Takes a tuple of addresses, of outputs and then of inputs, all contiguous, and for a GPU
        the stream at the end, in whose order it runs; they are not checked.
    """

    def __init__(
        self,
        program: Program,
        plans: Mapping[str, Plan],
        device_id: int | None = None,
        *,
        weights: Sequence[int] = (),
        kept: object = None,
    ) -> None:
        self.program, self.device_id = program, device_id
        self._memory = None if device_id is None else GpuMemory(device_id)
        count = len(program.outputs)
        self.outputs, self.inputs = program.types[:count], program.types[count:]
        self.execute = Kernel(program, plans, weights, self._memory or HostMemory(), kept=kept)

    def run(self, *inputs: Any) -> tuple[Array, ...]:
        """Run on arrays and return the results in the order of the source function.

        Raises
        ------
        BindError
            For another number of inputs, or one of other dims or another type.
        """
        given = [np.asarray(one) for one in inputs]
        problems = []
        if len(given) != len(self.inputs):
            got, wanted = f"{len(given)} arrays", f"{len(self.inputs)}"
            problems.append(Problem(rule="OFFLOAD-08", got=got, wanted=wanted))
        for i, (array, kind) in enumerate(zip(given, self.inputs, strict=False)):
            dtype = numpy_type(kind.data_type)
            if array.shape != kind.dims or array.dtype != dtype:
                got, wanted = f"{array.dtype} {list(array.shape)}", f"{dtype} {list(kind.dims)}"
                port = self.program.inputs[i]
                problems.append(Problem(rule="OFFLOAD-08", port=port, got=got, wanted=wanted))
        if problems:
            raise BindError("the inputs do not fit the function", problems)
        outputs = tuple(map(_empty, self.outputs))
        arrays = [np.ascontiguousarray(array) for array in given]
        if self._memory is not None:
            self._run_there(self._memory, outputs, arrays)
        else:
            self.execute(tuple(array.ctypes.data for array in (*outputs, *arrays)))
        return outputs

    def _run_there(
        self, memory: GpuMemory, outputs: Sequence[Array], inputs: Sequence[Array]
    ) -> None:
        """Run on copies in a GPU's memory, on its default stream."""
        held = [memory.block(array.nbytes) for array in outputs]
        held += [memory.keep(array.reshape(-1).view(np.uint8)) for array in inputs]
        self.execute((*(address for address, _ in held), 0))
        for array, (address, _) in zip(outputs, held, strict=False):
            memory.transfer(
                array.ctypes.data, address, array.nbytes, to_gpu=False, from_gpu=True, stream=0
            )


def numpy_type(kind: DataType) -> np.dtype[Any]:
    """Return NumPy's (or ml_dtypes') type of an element."""
    import ml_dtypes

    name = kind.value.numpy
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def _empty(kind: TensorType) -> Array:
    nbytes = kind.data_type.nbytes(prod(kind.dims))
    return aligned_bytes(nbytes).view(numpy_type(kind.data_type)).reshape(kind.dims)
