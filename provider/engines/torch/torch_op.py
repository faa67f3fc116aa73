# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a module of this package provides for an op, and the rules by which it declines.

Nothing here imports PyTorch: declining is cheap, and works where it is not installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ....graph_api.dtypes import DataType
from ....graph_api.errors import Problem
from ....graph_api.tensor import TensorSpec
from ...engine import EngineKnob

__all__ = ["RULES", "TYPES", "Kernel", "NodeContext", "TorchOp", "dtype"]

RULES: dict[str, str] = {
    "TORCH-ENG-01": "PyTorch is installed",
    "TORCH-ENG-02": "the target is a CPU",
    "TORCH-ENG-03": "the op is one that PyTorch has on the CPU",
    "TORCH-ENG-04": "element types are those in which PyTorch computes on the CPU",
    "TORCH-ENG-05": "tensors are not ragged",
    "TORCH-ENG-06": "the compute type is FLOAT or DOUBLE, or one of 16 bits, or for simple "
    "functions an integer",
    "TORCH-ENG-07": "the mode or parameter is one that PyTorch's functions have",
    "TORCH-ENG-08": "results reach their type by one rounding, as 16-bit types do from FLOAT only",
}

TYPES: dict[DataType, str] = {
    DataType.FLOAT: "float32",
    DataType.HALF: "float16",
    DataType.BFLOAT16: "bfloat16",
    DataType.DOUBLE: "float64",
    DataType.UINT8: "uint8",
    DataType.INT8: "int8",
    DataType.INT32: "int32",
    DataType.INT64: "int64",
    DataType.BOOLEAN: "bool",
}
"""Element types that the engine serves -> name of the dtype in ``torch``."""

NARROW = (DataType.HALF, DataType.BFLOAT16)


def dtype(torch: Any, data_type: DataType) -> Any:
    """Return PyTorch's dtype of a served type."""
    return getattr(torch, TYPES[data_type])


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeContext:
    """An op with what surrounds it.

    Attributes
    ----------
    op : Op
    label : str
        The node's, for declines.
    compute : DataType
        The node's compute type.
    inputs, outputs : mapping of port to TensorSpec
    knobs : mapping
        Choices of the engine's knobs.
    on_gpu : bool
        Whether it is computed on a GPU, as a yardstick (`gpu_yardstick`).
    """

    op: Any
    label: str
    compute: DataType
    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]
    knobs: Mapping[str, str] = field(default_factory=dict)
    on_gpu: bool = False

    @property
    def internal(self) -> DataType:
        """The type in which it is computed: FLOAT for 16 bits, which PyTorch sums in.

        A GPU's functions take operands of 16 bits as they are, and sum in FLOAT themselves.
        """
        if self.on_gpu and (narrow := self._stored() & {*NARROW}) and len(narrow) == 1:
            return narrow.pop()
        return DataType.FLOAT if self.compute in NARROW else self.compute

    def _stored(self) -> set[DataType]:
        """Return the type of what lies in memory, if it is one; else nothing."""
        specs = (*self.inputs.values(), *self.outputs.values())
        found = {s.data_type for s in specs if not s.virtual and s.value is None}
        return found if len(found) == 1 else set()

    def shared(self) -> DataType | None:
        """Return the one type of all operands and results, if there is one."""
        types = {spec.data_type for spec in (*self.inputs.values(), *self.outputs.values())}
        return types.pop() if len(types) == 1 else None

    def problem(self, rule: str, port: str, got: object, wanted: str, hint: str = "") -> Problem:
        """Return why the node is declined."""
        return Problem(
            rule=rule, node=self.label, port=port, got=str(got), wanted=wanted, hint=hint
        )

    def only_floats(self) -> Iterator[Problem]:
        """Yield a decline unless the compute type is a floating one."""
        if not self.compute.is_float:
            wanted = "a floating type"
            yield self.problem("TORCH-ENG-06", "compute_data_type", self.compute.json, wanted)


@dataclass(frozen=True, kw_only=True, slots=True)
class Kernel:
    """An op as a function of tensors.

    Attributes
    ----------
    run : callable
        Takes the tensors of the connected inputs, in order, and returns a tensor, or a tuple of
        them when there are several outputs.
    loads : tuple of torch.dtype or None
        What each input is converted to first; None leaves it as it is.
    takes_out : bool
        Whether ``run`` takes ``out=``, a tensor of the result's dims and type to write to.
    """

    run: Callable[..., Any]
    loads: tuple[Any, ...]
    takes_out: bool = False


def _served(n: NodeContext) -> Iterator[Problem]:
    yield from ()


def _no_bias(dims: tuple[int, ...]) -> int | None:
    return None


@dataclass(frozen=True, kw_only=True, slots=True)
class TorchOp:
    """How an op is served.

    Attributes
    ----------
    kernel : callable
        From the node and the module ``torch`` to the function that computes it.
    problems : callable
        From the node to the reasons to decline it; without importing PyTorch.
    knobs : tuple of EngineKnob
        Knobs of the engine that choose how the op is computed.
    views : bool
        Whether the result may be a view of an operand.
    elementwise : bool
        Whether each element of the result comes from the operands' elements of its position, so
        that the memory of an operand may be reused for the result.
    efficiency : float
        How much of the arithmetic rate of other ops it reaches, fitted by hand to
        docs/reference/benchmarks.md.
    bias_axis : callable
        From the dims of the result to the axis along which the kernel takes an operand ``bias``
        with a number for each index; None where it does not.
    """

    kernel: Callable[[NodeContext, Any], Kernel]
    problems: Callable[[NodeContext], Iterator[Problem]] = _served
    knobs: tuple[EngineKnob, ...] = ()
    views: bool = False
    elementwise: bool = False
    efficiency: float = 1.0
    bias_axis: Callable[[tuple[int, ...]], int | None] = _no_bias


def loads(n: NodeContext, torch: Any, *, own: tuple[str, ...] = ()) -> tuple[Any, ...]:
    """Return the internal type for all inputs but those that are read in their own."""
    kind = dtype(torch, n.internal)
    return tuple(None if port in own else kind for port in n.inputs)


def number(n: NodeContext, port: str) -> float | None:
    """Return the value of a compile-time scalar, None when it comes with the buffers."""
    value = n.inputs[port].value
    return None if value is None else float(value)
