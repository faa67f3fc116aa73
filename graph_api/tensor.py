"""Tensors: the frozen record that every layer reads, and the handle that a script holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .dtypes import DataType
from .errors import GraphError, Problem
from .layout import Layout, analyse

if TYPE_CHECKING:
    from .graph import Graph

__all__ = ["Scalar", "Tensor", "TensorSpec"]

Scalar = bool | int | float


@dataclass(frozen=True, kw_only=True, slots=True)
class TensorSpec:
    """A tensor of a frozen graph: everything is known and has passed the rules.

    Attributes
    ----------
    uid : int
        Unique in the graph; what buffers are bound by.
    name : str
        A label for people; any text, not necessarily unique, may be empty.
    data_type : DataType
        Element type in memory (or, for a virtual tensor, of the intermediate value).
    dims, strides : tuple of int
        Logical dims and strides in elements.
    virtual : bool
        An intermediate value without a buffer.
    value : bool, int, float or None
        The value of a compile-time scalar.
    alignment : int
        Bytes to which the caller promises to align the buffer.
    runtime_scalar : bool
        A scalar whose value is read from host memory at each execution.
    ragged_offset_uid : int or None
        Tensor of element offsets, for a ragged tensor.
    """

    uid: int
    name: str = ""
    data_type: DataType
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    virtual: bool = False
    value: Scalar | None = None
    alignment: int = 16
    runtime_scalar: bool = False
    ragged_offset_uid: int | None = None

    @property
    def layout(self) -> Layout:
        """How the tensor lies in memory."""
        return analyse(self.dims, self.strides)

    @property
    def label(self) -> str:
        """``'name' (uid n)`` or ``uid n``."""
        return f"{self.name!r} (uid {self.uid})" if self.name else f"uid {self.uid}"


@dataclass(slots=True, eq=False)
class Tensor:
    """Handle of a tensor while a graph is built; made by ``Graph.tensor`` and by the op methods.

    The setters return the handle, so that they chain.  Once the graph is frozen they raise, and
    ``dims``, ``strides`` and ``data_type`` show what was inferred.
    """

    graph: Graph = field(repr=False)
    name: str = ""
    data_type: DataType = DataType.UNSET
    dims: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None
    virtual: bool = False
    value: Scalar | None = None
    alignment: int = 16
    runtime_scalar: bool = False
    ragged_offset_uid: int | None = None
    given_uid: int | None = None

    @property
    def uid(self) -> int:
        """The uid; one that is free is taken on first use when none was given."""
        if self.given_uid is None:
            self.given_uid = self.graph.free_uid()
        return self.given_uid

    @property
    def is_output(self) -> bool:
        """Whether a node writes it and it has a buffer."""
        return not self.virtual and self.graph.is_produced(self)

    def set_output(self, output: bool = True) -> Tensor:
        """Give the tensor a buffer of its own (or take it away)."""
        self.graph.must_be_open()
        self.virtual = not output
        return self

    def set_name(self, name: str) -> Tensor:
        """Set the label."""
        self.graph.must_be_open()
        self.name = name
        return self

    def set_uid(self, uid: int) -> Tensor:
        """Set the uid that buffers are bound by."""
        self.graph.must_be_open()
        self.given_uid = uid
        return self

    def set_data_type(self, data_type: DataType | str) -> Tensor:
        """Set the element type."""
        self.graph.must_be_open()
        self.data_type = parse_data_type(data_type, port="data_type")
        return self

    def set_dim(self, dims: Sequence[int]) -> Tensor:
        """Set the logical dims."""
        self.graph.must_be_open()
        self.dims = int_tuple(dims, port="dims")
        return self

    def set_stride(self, strides: Sequence[int]) -> Tensor:
        """Set the strides, in elements."""
        self.graph.must_be_open()
        self.strides = int_tuple(strides, port="strides")
        return self


def int_tuple(values: Sequence[int] | int, *, port: str) -> tuple[int, ...]:
    """Return the values as a tuple of int; anything that is no integer is a ``GraphError``."""
    items = (values,) if isinstance(values, int) else tuple(values)
    try:
        # __index__ takes NumPy integers and refuses floats and strings.
        return tuple(v.__index__() for v in items)
    except (AttributeError, TypeError):
        problem = Problem(rule="PARAM-01", port=port, got=repr(values), wanted="integers")
        raise GraphError("a parameter has the wrong type", [problem]) from None


def parse_data_type(value: DataType | str, *, port: str) -> DataType:
    """Return the DataType; an unknown name is a ``GraphError``."""
    try:
        return DataType.parse(value)
    except ValueError as error:
        problem = Problem(rule="PARAM-02", port=port, got=repr(value), wanted=str(error))
        raise GraphError("a data type is unknown", [problem]) from None
