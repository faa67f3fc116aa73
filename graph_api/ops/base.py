# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What an operation is: ports, parameters, rules, inference and its fields in files, as data.

An op is a frozen dataclass that holds only its parameters.  Which tensors it reads and writes is
kept by the node, so that the op compares and hashes by what it computes.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, takewhile
from typing import Any, ClassVar, NoReturn, Self, TypeVar

from ..dtypes import DataType
from ..errors import Problem
from ..tensor import Scalar, Tensor
from .fields import Field

__all__ = [
    "Axis",
    "Follows",
    "Inferred",
    "Match",
    "Op",
    "OpSink",
    "Port",
    "PortView",
    "Ports",
]

Ints = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Port:
    """A named operand or result, in hipDNN's spelling.

    A variadic one takes any number of tensors, connected as ``name[0]``, ``name[1]``...
    """

    name: str
    optional: bool = False
    variadic: bool = False

    def connected(self, names: Container[str]) -> list[str]:
        """Return those of the names that connect this port, in order."""
        if not self.variadic:
            return [self.name] if self.name in names else []
        return list(takewhile(names.__contains__, (f"{self.name}[{i}]" for i in count())))


def variadic(port: str, tensors: Iterable[Tensor]) -> dict[str, Tensor]:
    """Return the connections of a variadic port."""
    return {f"{port}[{i}]": tensor for i, tensor in enumerate(tensors)}


@dataclass(frozen=True, kw_only=True, slots=True)
class PortView:
    """What rules may read of the tensor at a port; ``dims`` is None while it is unknown."""

    data_type: DataType
    dims: Ints | None
    strides: Ints | None
    value: Scalar | None = None
    virtual: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Inferred:
    """What an op infers for one of its outputs; None leaves the framework's default.

    The default strides are those of the memory order of ``like`` (a port), else contiguous; the
    default data type is the graph's intermediate or I/O type.  A tensor's own
    type takes precedence.
    """

    dims: Ints
    strides: Ints | None = None
    data_type: DataType | None = None


class Ports:
    """The tensors of one node, by port; the argument of every rule and inference function."""

    __slots__ = ("_views", "compute", "node")

    def __init__(self, node: str, views: Mapping[str, PortView], compute: DataType) -> None:
        self.node = node
        self._views = dict(views)
        self.compute = compute

    def __contains__(self, port: object) -> bool:
        return port in self._views

    def __getitem__(self, port: str) -> PortView:
        return self._views[port]

    def dims(self, port: str) -> Ints:
        """Return the dims, which must be known (they are for all inputs)."""
        dims = self._views[port].dims
        assert dims is not None, f"dims of {self.node}.{port} are not known yet"
        return dims

    def given(self, port: str) -> Ints | None:
        """Return the dims if the port is connected and they are known, else None."""
        return self._views[port].dims if port in self._views else None

    def problem(self, rule: str, port: str, got: object, wanted: object, hint: str = "") -> Problem:
        """Return a problem of this node."""
        return Problem(
            rule=rule, node=self.node, port=port, got=str(got), wanted=str(wanted), hint=hint
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """A dynamic dim of an operand, with the node's context; the argument of `Op.follows`.

    Attributes
    ----------
    port, axis : str, int
        The operand, and the index of the dim.
    dims, marks : mapping of port to tuple
        Dims of all connected ports, and the names of those that are dynamic (``""`` for others).
    results : tuple of str
        The connected outputs.
    given : Op
        The op as it was given, before ``resolve``.
    """

    port: str
    axis: int
    dims: Mapping[str, Ints]
    marks: Mapping[str, tuple[str, ...]]
    results: tuple[str, ...]
    given: Op

    @property
    def rank(self) -> int:
        """Rank of the operand."""
        return len(self.dims[self.port])

    def mark(self, port: str, axis: int) -> str:
        """Return the name of a dynamic dim, or ``""``."""
        marks = self.marks[port]
        return marks[axis] if marks else ""

    def to(self, axis: int | None = None) -> dict[str, int]:
        """Return one axis (the same one, unless given) for all results."""
        return dict.fromkeys(self.results, self.axis if axis is None else axis)

    def aligned(self) -> dict[str, int]:
        """Return the axes where ranks are aligned at their ends, as NumPy does."""
        return {p: self.axis + len(self.dims[p]) - self.rank for p in self.results}


Follows = Mapping[str, int] | Mapping[str, int | None] | str
"""The axis of each result that follows an operand's entry by entry (None: the result does not
depend on the entries that are added), or what mixes its entries."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Match:
    """How hipDNN's engine override rules describe an op.

    Source: GraphMatchKey.hpp and AutotuneConfigNames.hpp of hipDNN (2026).

    Attributes
    ----------
    priority : int
        The node with the highest one represents the graph.
    name : str
        hipDNN's name of the op in rules, where it is not ``NAME``.
    criteria : tuple of (str, str)
        Name of a criterion and the op's parameter that it compares.
    ports : tuple of str
        Inputs in hipDNN's order, where that is not the order of ``INPUTS``.
    """

    priority: int
    name: str = ""
    criteria: tuple[tuple[str, str], ...] = ()
    ports: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Op:
    """Base of all operations.

    Class attributes
    ----------------
    NAME : hipDNN's name of the op, also the method of ``Graph``.
    INPUTS, OUTPUTS : ports in hipDNN's order.
    RULES : rule id -> one sentence; ``docs/reference/rules.md`` is generated from it.
    TYPE_NAME : the node's type in graph JSON, and the name of its table in FlatBuffers.
    WIRE_CODE : number of the node's type in hipDNN's FlatBuffers schema (union
        ``NodeAttributes``, where 0 is NONE); None where hipDNN has no such node.
    FIELDS : how ports and parameters are encoded, in the order of the table's slots.
    COSTS : whether the table ends in formulas for the cost of the op, for hipDNN's own use.
    LIKE : output port -> input port whose memory order the output takes by default.
    MATCH : how hipDNN's engine override rules describe the op; None where they have no rule.
    ELSEWHERE : what other libraries call the method of ``Graph``, for error texts.
    """

    NAME: ClassVar[str]
    INPUTS: ClassVar[tuple[Port, ...]]
    OUTPUTS: ClassVar[tuple[Port, ...]]
    RULES: ClassVar[Mapping[str, str]]
    TYPE_NAME: ClassVar[str]
    WIRE_CODE: ClassVar[int | None] = None
    FIELDS: ClassVar[tuple[Field, ...]]
    COSTS: ClassVar[bool] = False
    LIKE: ClassVar[Mapping[str, str]] = {}
    MATCH: ClassVar[Match | None] = None
    ELSEWHERE: ClassVar[tuple[str, ...]] = ()

    def title(self) -> str:
        """Return the op's title in listings and drawings: its name, and its mode if it has one."""
        mode = getattr(self, "mode", None)
        return self.NAME if mode is None else f"{self.NAME} {mode.name}"

    def computes(self) -> bool:
        """Whether there is arithmetic, for which the compute type cannot be BOOLEAN."""
        return True

    def resolve(self, t: Ports) -> Self:
        """Return the op with every shorthand parameter written out (called before ``check``)."""
        return self

    def check(self, t: Ports) -> Iterator[Problem]:
        """Yield the problems of the parameters, the inputs, and outputs given by the user.

        All inputs are connected and have dims.  When nothing is yielded, ``infer`` must succeed.
        """
        yield from ()

    def infer(self, t: Ports) -> Mapping[str, Inferred]:
        """Return what is inferred for each connected output."""
        raise NotImplementedError

    def settle(self, t: Ports) -> Self:
        """Return the op in its canonical form, once the dims of all ports are known."""
        return self

    def at(
        self, before: Mapping[str, Ints], after: Mapping[str, Ints]
    ) -> tuple[Self, Mapping[str, Ints]]:
        """Return the op for other dims of its operands, and the dims that it cannot infer then.

        Parameters
        ----------
        before : mapping of port to dims
            All ports, in the graph for which the op was written.
        after : mapping of port to dims
            The inputs, with their new dims.

        Notes
        -----
        Called on the op as it was given, before ``resolve``.  Ops with results whose
        dims do not follow from the operands override it.
        """
        return self, {}

    def follows(self, at: Axis) -> Follows | None:
        """Return where entries along an axis of an operand show in the results.

        Entries at the end of an axis may be added where each result entry comes from the operand
        entries of the same position alone.  None for an op for which that is not known.
        """
        return None

    def check_outputs(self, t: Ports) -> Iterator[Problem]:
        """Yield the problems that only show once the outputs are known."""
        yield from ()


R = TypeVar("R", bound=tuple[Any, ...])


def results(cls: type[R]) -> type[R]:
    """Make a named tuple of results say which attribute is meant where a tensor is expected."""

    def missing(self: Any, name: str) -> NoReturn:
        text = f"{cls.__name__!r} has no attribute {name!r}"
        if not name.startswith("_") and hasattr(Tensor, name):
            text += f": it is a tuple of {', '.join(self._fields)}; take .{self._fields[0]} first"
        raise AttributeError(text, name=name, obj=self)

    setattr(cls, "__getattr__", missing)  # noqa: B010  # a named tuple's class takes no other way
    return cls


class OpSink:
    """What the op functions need of a graph: a way to add a node.

    It keeps the op files free of an import of ``Graph``, which imports all of them.
    """

    def add_node(
        self,
        op: Op,
        inputs: Mapping[str, Tensor | Scalar],
        *,
        outputs: Mapping[str, Tensor] | Iterable[str] | None = None,
        compute: DataType | str = DataType.UNSET,
        name: str = "",
    ) -> dict[str, Tensor]:
        """Add an op; see ``Graph.add_node``."""
        raise NotImplementedError


def filled(values: Ints, rank: int, default: int) -> Ints:
    """Return per-dim parameters: nothing means the default, one value means the same for all."""
    if not values:
        return (default,) * rank
    return values * rank if len(values) == 1 else values


def check_length(
    t: Ports, rule: str, port: str, values: Sequence[int], rank: int, least: int
) -> Iterator[Problem]:
    """Yield a problem unless there is one value per spatial dim, each at least ``least``."""
    if len(values) != rank or any(v < least for v in values):
        yield t.problem(
            rule,
            port,
            list(values),
            f"{rank} value(s), one per spatial dim, each at least {least}",
        )
