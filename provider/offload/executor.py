"""Running a finished module on arrays, or on addresses."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from ...graph_api.dtypes import DataType
from ...graph_api.errors import BindError, Problem
from ...jit.runtime.arrays import aligned_bytes
from ..plan import Plan
from .finished import Program
from .kernel import Kernel
from .memory import HostMemory
from .program import TensorType

__all__ = ["Executor", "numpy_type"]


class Executor:
    """Runs a function of a finished module on the host's memory; from many threads, if wanted.

    Parameters
    ----------
    program : Program
        Its buffers planned.
    plans : mapping of str to Plan
        By the name of their graph.

    Attributes
    ----------
    program : Program
    outputs, inputs : tuple of TensorType
        What the source function returns and takes.
    execute : Kernel
        Takes a tuple of addresses, of outputs and then of inputs, all contiguous; they are not
        checked.
    """

    def __init__(self, program: Program, plans: Mapping[str, Plan]) -> None:
        self.program = program
        count = len(program.outputs)
        self.outputs, self.inputs = program.types[:count], program.types[count:]
        self.execute = Kernel(program, plans, (), HostMemory())

    def run(self, *inputs: Any) -> tuple[np.ndarray[Any, Any], ...]:
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
        arrays = [*outputs, *map(np.ascontiguousarray, given)]
        self.execute(tuple(array.ctypes.data for array in arrays))
        return outputs


def numpy_type(kind: DataType) -> np.dtype[Any]:
    """Return NumPy's (or ml_dtypes') type of an element."""
    import ml_dtypes

    name = kind.value.numpy
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def _empty(kind: TensorType) -> np.ndarray[Any, Any]:
    nbytes = kind.data_type.nbytes(prod(kind.dims))
    return aligned_bytes(nbytes).view(numpy_type(kind.data_type)).reshape(kind.dims)
