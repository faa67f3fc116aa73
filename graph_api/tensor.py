# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensors: the frozen record that every layer reads, and the handle that a script holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields
from types import NoneType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from . import arguments
from .dtypes import DataType
from .dynamic_dim import DynamicDim, split_dims
from .layout import Layout, layout_of
from .script_line import refused
from .values import Scalar

if TYPE_CHECKING:
    from .building import GraphBuilder

__all__ = ["Scalar", "Tensor", "TensorSpec", "take_over"]

Ints = tuple[int, ...]


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
    constant : bool
        Whether an input holds the same numbers at each execution, so that what depends on it
        alone is computed once (`constants.hold`).
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
    constant: bool = False

    @property
    def layout(self) -> Layout:
        """How the tensor is laid out in memory."""
        return layout_of(self.dims, self.strides)

    @property
    def label(self) -> str:
        """``'name' (uid n)`` or ``uid n``."""
        return f"{self.name!r} (uid {self.uid})" if self.name else f"uid {self.uid}"


@dataclass(slots=True, eq=False, repr=False, init=False)
class Tensor:
    """Handle of a tensor while a graph is built; made by ``Graph.tensor`` and by the op methods.

    Attributes are checked and converted when they are set; the setters do the same and return the
    handle, so that they chain.  Once the graph is frozen both raise ``GraphError``.

    Arithmetic adds nodes: ``a @ b`` is ``graph.matmul(a, b)``, and ``-x``, ``abs(x)``, ``x + y``,
    ``x - y``, ``x * y``, ``x / y`` and ``x ** y`` are ``graph.neg``, ``abs``, ``add``, ``sub``,
    ``mul``, ``div`` and ``pow``; either side may be a number.  ``==`` compares handles.

    ``dims``, ``strides`` and ``data_type`` are what was set, else what follows from the graph as it
    is now (``shape`` is ``dims`` where they are known); ``given_dims``, ``given_strides`` and
    ``given_type`` are what was set.  ``at`` is the line of the script that made it.

    Examples
    --------
    >>> from hipdnn_iree import Graph
    >>> g = Graph(io_data_type="half", compute_data_type="float")
    >>> y = g.conv_fprop(g.tensor(dims=(4, 3, 32, 32)), g.tensor(dims=(8, 3, 3, 3)), stride=2)
    >>> y.shape, y.strides, y.data_type
    ((4, 8, 15, 15), (1800, 225, 15, 1), DataType.FLOAT)
    >>> y.set_output().data_type
    DataType.HALF
    """

    graph: GraphBuilder
    name: str = ""
    given_type: DataType = DataType.UNSET
    given_dims: Ints | None = None
    given_strides: Ints | None = None
    virtual: bool = False
    value: Scalar | None = None
    alignment: int = 16
    runtime_scalar: bool = False
    ragged_offset_uid: int | None = None
    given_uid: int | None = None
    dynamic: tuple[str, ...] = ()
    at: str = ""

    def __init__(
        self, graph: GraphBuilder, *, dynamic: tuple[str, ...], at: str, **given: Any
    ) -> None:
        # Past __setattr__, as a file may hold 40,000 tensors: the graph is open, and nothing that
        # was inferred depends on a tensor that no node has yet.
        for name, value in (*_DEFAULTS, ("graph", graph), ("dynamic", dynamic), ("at", at)):
            _set(self, name, value)
        for name, value in given.items():
            _set(self, name, _checked(name, value))

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _CHECKS:
            graph = self.graph
            graph.must_be_open()
            if name == "given_dims":
                value, names = split_dims(value)
                _set(self, "dynamic", names)
            value = _checked(name, value)
            if graph.inference is not None:
                graph.inference.forget(self)
        _set(self, name, value)

    def __repr__(self) -> str:
        from .draw import operand

        uid = "" if self.given_uid is None else f" uid {self.given_uid}"
        return f"<Tensor{uid} {operand(self, repr(self.name))}>"

    @property
    def dims(self) -> Ints | None:
        """Logical dims: those set, else those that follow; None while they are not known."""
        return self.given_dims or self.graph.known(self).dims

    @dims.setter
    def dims(self, dims: Sequence[int | DynamicDim] | None) -> None:
        self.given_dims = dims  # type: ignore[assignment]  # checked and converted

    @property
    def shape(self) -> Ints:
        """The dims, as NumPy calls them; ``GraphError`` while they are not known (TENSOR-13)."""
        if (dims := self.dims) is not None:
            return dims
        raise refused(
            "the shape is not known",
            rule="TENSOR-13",
            port=self.name or "tensor",
            got="dims that do not follow yet",
            wanted="known dims",
            hint="an argument of its op, say axes=, or set_dim tells them; .dims is None before",
        )

    @property
    def strides(self) -> Ints | None:
        """Strides in elements: those set, else those that follow; None while not known."""
        return self.given_strides or self.graph.known(self).strides

    @strides.setter
    def strides(self, strides: Sequence[int] | None) -> None:
        self.given_strides = strides  # type: ignore[assignment]

    @property
    def data_type(self) -> DataType:
        """Element type: the one set, else the one that follows; UNSET while it is not known."""
        if self.given_type is not DataType.UNSET:
            return self.given_type
        return self.graph.known(self).data_type

    @data_type.setter
    def data_type(self, data_type: DataType | str) -> None:
        self.given_type = data_type  # type: ignore[assignment]

    # NumPy's numbers and arrays leave arithmetic with a tensor to the tensor.
    __array_ufunc__: ClassVar[None] = None

    def __neg__(self) -> Tensor:
        return self.graph.neg(self)

    def __abs__(self) -> Tensor:
        return self.graph.abs(self)

    def __add__(self, other: Tensor | Scalar) -> Tensor:
        return self.graph.add(self, other)

    def __radd__(self, other: Tensor | Scalar) -> Tensor:
        return self.graph.add(other, self)

    def __sub__(self, other: Tensor | Scalar) -> Tensor:
        return self.graph.sub(self, other)

    def __rsub__(self, other: Tensor | Scalar) -> Tensor:
        return self.graph.sub(other, self)

    def __mul__(self, other: Tensor | Scalar) -> Tensor:
        return self.graph.mul(self, other)

    def __rmul__(self, other: Tensor | Scalar) -> Tensor:
        return self.graph.mul(other, self)

    def __truediv__(self, other: Tensor | Scalar) -> Tensor:
        return self.graph.div(self, other)

    def __rtruediv__(self, other: Tensor | Scalar) -> Tensor:
        return self.graph.div(other, self)

    def __pow__(self, other: Tensor | Scalar) -> Tensor:
        return self.graph.pow(self, other)

    def __rpow__(self, other: Tensor | Scalar) -> Tensor:
        return self.graph.pow(other, self)

    def __lt__(self, other: object) -> NoReturn:
        raise _no_comparison("<", "cmp_lt")

    def __le__(self, other: object) -> NoReturn:
        raise _no_comparison("<=", "cmp_le")

    def __gt__(self, other: object) -> NoReturn:
        raise _no_comparison(">", "cmp_gt")

    def __ge__(self, other: object) -> NoReturn:
        raise _no_comparison(">=", "cmp_ge")

    def __getitem__(self, places: object) -> NoReturn:
        raise TypeError(
            "a Tensor has no elements before a plan runs; g.slice(x, ...) is a part of it"
        )

    if not TYPE_CHECKING:  # to a type checker it would mean that there is every name

        def __getattr__(self, name: str) -> NoReturn:
            hint = "; g.transpose(x, permutation) moves its dims" if name == "T" else ""
            raise AttributeError(f"'Tensor' object has no attribute {name!r}{hint}")

    def __matmul__(self, other: Tensor) -> Tensor:
        return self.graph.matmul(self, other)

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
        self.given_type = data_type  # type: ignore[assignment]
        return self

    def set_dim(self, dims: Sequence[int | DynamicDim]) -> Tensor:
        """Set the logical dims."""
        examples, names = split_dims(dims)
        self.given_dims = arguments.integers(examples, port="dims")
        self.dynamic = names
        return self

    def set_stride(self, strides: Sequence[int]) -> Tensor:
        """Set the strides, in elements."""
        self.given_strides = arguments.integers(strides, port="strides")
        return self


def _no_comparison(sign: str, method: str) -> TypeError:
    """Return the error for a comparison, which in ``if`` or ``a < x < b`` could mean nothing."""
    return TypeError(f"{sign} compares no elements of a Tensor; g.{method}(a, b) does")


_set = object.__setattr__
_PORTS = {"given_dims": "dims", "given_strides": "strides", "given_type": "data_type"}
# Types whose values need no check; a graph may have 40,000 tensors of eight attributes each.
_AS_THEY_ARE: dict[str, tuple[type, ...]] = {
    "name": (),
    "given_type": (DataType,),
    "given_dims": (NoneType,),
    "given_strides": (NoneType,),
    "virtual": (bool,),
    "value": (NoneType,),
    "runtime_scalar": (bool,),
    "ragged_offset_uid": (NoneType,),
}
_CHECKS: dict[str, Any] = {
    "name": arguments.text,
    "given_type": arguments.data_type,
    "given_dims": arguments.integers,
    "given_strides": arguments.integers,
    "virtual": arguments.flag,
    "value": arguments.scalar,
    "runtime_scalar": arguments.flag,
    "ragged_offset_uid": arguments.integer,
}
_DEFAULTS = tuple((f.name, f.default) for f in fields(Tensor) if f.default is not MISSING)


def _checked(name: str, value: Any) -> Any:
    """Return the value of an attribute, converted; raise `GraphError` for what it cannot be."""
    if type(value) in _AS_THEY_ARE[name]:
        return value
    return _CHECKS[name](value, port=_PORTS.get(name, name))


def take_over(tensor: Tensor, spec: TensorSpec) -> None:
    """Give a handle what was inferred, unchecked: for ``Graph.freeze``."""
    _set(tensor, "given_dims", spec.dims)
    _set(tensor, "given_strides", spec.strides)
    _set(tensor, "given_type", spec.data_type)
    _set(tensor, "dynamic", spec.dynamic)
