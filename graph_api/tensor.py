"""Tensors: the frozen record that every layer reads, and the handle that a script holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import arguments
from .dtypes import DataType
from .dynamic_dim import DynamicDim, split_dims
from .layout import Layout, layout_of
from .values import Scalar

if TYPE_CHECKING:
    from .building import GraphBuilder

__all__ = ["Scalar", "Tensor", "TensorSpec"]


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
    dynamic : tuple of str
        For each dim the name of the dynamic dim that it is, ``""`` for none, ``"*"`` where the
        extent varies with one otherwise; empty when all are fixed.  ``dims`` has the examples.
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
    dynamic: tuple[str, ...] = ()

    @property
    def layout(self) -> Layout:
        """How the tensor is laid out in memory."""
        return layout_of(self.dims, self.strides)

    @property
    def label(self) -> str:
        """``'name' (uid n)`` or ``uid n``."""
        return f"{self.name!r} (uid {self.uid})" if self.name else f"uid {self.uid}"


@dataclass(slots=True, eq=False, repr=False)
class Tensor:
    """Handle of a tensor while a graph is built; made by ``Graph.tensor`` and by the op methods.

    Attributes are checked and converted when they are set; the setters do the same and return the
    handle, so that they chain.  Once the graph is frozen both raise ``GraphError``, and ``dims``,
    ``strides`` and ``data_type`` show what was inferred.
    """

    graph: GraphBuilder = field(repr=False)
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
    dynamic: tuple[str, ...] = ()

    def __setattr__(self, name: str, value: Any) -> None:
        check = _CHECKS.get(name)
        if check is not None:
            self.graph.must_be_open()
            if name == "dims":
                value, self.dynamic = split_dims(value)
            if type(value) is not _AS_THEY_ARE.get(name) and (
                value is not None or name not in _OPTIONAL
            ):
                value = check(value, port=name)
        object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        from .draw import operand

        uid = "" if self.given_uid is None else f" uid {self.given_uid}"
        return f"<Tensor{uid} {operand(self, repr(self.name))}>"

    @property
    def uid(self) -> int:
        """The uid; one that is free is taken on first use when none was given."""
        if self.given_uid is None:
            self.given_uid = self.graph.take_uid(None)
        return self.given_uid

    @property
    def is_output(self) -> bool:
        """Whether a node writes it and it has a buffer."""
        return not self.virtual and self.graph.is_produced(self)

    def set_output(self, output: bool = True) -> Tensor:
        """Give the tensor a buffer of its own (or take it away)."""
        self.virtual = not arguments.flag(output, port="output")
        return self

    def set_name(self, name: str) -> Tensor:
        """Set the label."""
        self.name = name
        return self

    def set_uid(self, uid: int) -> Tensor:
        """Set the uid that buffers are bound by."""
        self.graph.must_be_open()
        given = arguments.integer(uid, port="uid")
        self.given_uid = None if given is None else self.graph.take_uid(given)
        return self

    def set_data_type(self, data_type: DataType | str) -> Tensor:
        """Set the element type."""
        self.data_type = arguments.data_type(data_type, port="data_type")
        return self

    def set_dim(self, dims: Sequence[int | DynamicDim]) -> Tensor:
        """Set the logical dims."""
        examples, names = split_dims(dims)
        self.dims = arguments.integers(examples, port="dims")
        self.dynamic = names
        return self

    def set_stride(self, strides: Sequence[int]) -> Tensor:
        """Set the strides, in elements."""
        self.strides = arguments.integers(strides, port="strides")
        return self


_OPTIONAL = ("dims", "strides", "value")
_AS_THEY_ARE = {"data_type": DataType, "virtual": bool, "runtime_scalar": bool}
_CHECKS: dict[str, Any] = {
    "name": arguments.text,
    "data_type": arguments.data_type,
    "dims": arguments.integers,
    "strides": arguments.integers,
    "virtual": arguments.flag,
    "value": arguments.scalar,
    "runtime_scalar": arguments.flag,
    "ragged_offset_uid": arguments.integer,
}
