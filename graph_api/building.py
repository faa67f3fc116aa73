# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Building a graph: tensors, op methods, defaults."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from . import arguments
from .compositions import Compositions
from .dtypes import DataType
from .dynamic_dim import DynamicDim, split_dims
from .dynamic_dim import make as make_dynamic
from .elsewhere import here
from .errors import GraphError
from .ops.base import Op
from .script_line import refused, script_line
from .tensor import Scalar, Tensor
from .values import plain_number, stored

if TYPE_CHECKING:
    from .frozen import FrozenGraph
    from .inference import Inference
    from .ops.base import PortView

__all__ = ["GraphBuilder", "Node"]

S = TypeVar("S")


@dataclass(slots=True, eq=False)
class Node:
    """An op and its tensors, while the graph is built; ``at`` is the line that added it."""

    op: Op
    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]
    compute_data_type: DataType
    name: str
    at: str = ""


class GraphBuilder(Compositions):
    """The part of `Graph` that adds tensors and nodes, without freezing or building.

    Attributes
    ----------
    checks_calls : bool
        Whether a node that is certain to be wrong is refused by the call that adds it; else all
        problems are left for ``freeze``.
    """

    checks_calls = False

    def __init__(
        self,
        name: str = "",
        *,
        io_data_type: DataType | str = DataType.UNSET,
        intermediate_data_type: DataType | str = DataType.UNSET,
        compute_data_type: DataType | str = DataType.UNSET,
    ) -> None:
        self._frozen: FrozenGraph | None = None
        self.inference: Inference | None = None
        self.name = name
        self.io_data_type = arguments.data_type(io_data_type, port="io_data_type")
        self.intermediate_data_type = arguments.data_type(
            intermediate_data_type, port="intermediate_data_type"
        )
        self.compute_data_type = arguments.data_type(compute_data_type, port="compute_data_type")
        self._preferred_engine_id: int | None = None
        self.is_override_shape_enabled = False
        self.symbols: dict[str, DynamicDim] = {}
        self.tensors: list[Tensor] = []
        self.nodes: list[Node] = []
        self._makers: dict[int, Node] = {}
        self._taken: set[int] = set()
        self._counted = itertools.count(1)

    def __setattr__(self, name: str, value: Any) -> None:
        check = _CHECKS.get(name)
        if check is not None:
            self.must_be_open()
            value = check(value, port=name)
            self.inference = None  # any type may follow from the graph's
        elif (
            type(self).__module__.partition(".")[0] == _PACKAGE  # a subclass may have its own
            and name not in _ATTRIBUTES
            and not name.startswith("_")
            and not hasattr(self, name)
        ):
            raise _unknown_attribute(self, name)
        object.__setattr__(self, name, value)

    if not TYPE_CHECKING:  # to a type checker it would mean that there is every name

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            raise _unknown_method(self, name)

    def dynamic(
        self,
        name: str,
        *,
        range: tuple[int, int] = (1, 2**31 - 1),
        example: int | None = None,
    ) -> DynamicDim:
        """Return a dim that is given at execution: one compiled plan then runs every size of it.

        It is used as an extent in ``tensor(dims=...)`` of inputs; which dims of results follow
        it is inferred.  There is no arithmetic with it.

        Parameters
        ----------
        name : str
            Its name in messages, files and ``Plan.with_sizes``.
        range : tuple of int
            Smallest and largest size, both included.
        example : int, optional
            A typical size, at least 2: the size for which rules are checked at once and code is
            chosen.

        Raises
        ------
        GraphError
            For a name that is in use, and an invalid range or example (DYN-01).

        Examples
        --------
        >>> from hipdnn_iree import Graph
        >>> g = Graph(io_data_type="float")
        >>> n = g.dynamic("n", range=(1, 4096))
        >>> y = g.relu(g.tensor(dims=(n, 3))).set_output()
        >>> g.freeze().tensors[y.uid].dynamic
        ('n', '')
        """
        self.must_be_open()
        dim = make_dynamic(name, range, example, self.symbols)
        self.symbols[dim.name] = dim
        return dim

    def tensor(
        self,
        *,
        dims: Sequence[int | DynamicDim] | None = None,
        strides: Sequence[int] | None = None,
        data_type: DataType | str = DataType.UNSET,
        name: str = "",
        uid: int | None = None,
        virtual: bool = False,
        dim: Sequence[int | DynamicDim] | None = None,
        stride: Sequence[int] | None = None,
    ) -> Tensor:
        """Add a tensor.

        Parameters
        ----------
        dims : sequence of int or DynamicDim
            Logical dims (N, C, spatial...); some may be given at execution (``dynamic``).
        strides : sequence of int, optional
            In elements; contiguous when not given.  Any permutation, with gaps between rows or
            elements (a part of a larger tensor); inputs may be broadcast (stride 0).  What lies
            in the gaps of an output stays as it is.
        data_type : DataType or str
            The graph's I/O type when unset.
        name : str
            A label; any text.
        uid : int, optional
            What buffers are bound by; a free one is taken when not given.
        virtual : bool
            An intermediate value without a buffer.
        dim, stride : sequence of int, optional
            What hipDNN and cuDNN call ``dims`` and ``strides``; the same.

        Returns
        -------
        Tensor
        """
        self.must_be_open()
        dims, strides = _one_of(dims, dim, "dims"), _one_of(strides, stride, "strides")
        examples, marks = split_dims(dims)
        tensor = Tensor(  # which checks and converts what it is given
            graph=self,
            name=name,
            given_type=data_type,
            given_dims=examples,
            given_strides=strides,
            virtual=virtual,
            dynamic=marks,
            at=script_line() if type(self).checks_calls else "",
        )
        if uid is not None:
            tensor.set_uid(uid)
        self.tensors.append(tensor)
        return tensor

    def tensor_like(self, other: Tensor, *, name: str = "") -> Tensor:
        """Add a tensor with the dims, strides and data type of another one."""
        produced = other.graph.is_produced(other)
        kind = other.data_type if produced else other.given_type
        tensor = self.tensor(dims=other.dims, strides=other.strides, data_type=kind, name=name)
        tensor.dynamic = other.dynamic
        return tensor

    def scalar(
        self,
        value: Scalar,
        *,
        data_type: DataType | str = DataType.UNSET,
        name: str = "",
        uid: int | None = None,
    ) -> Tensor:
        """Add a compile-time scalar: dims (1,), no buffer, the value is part of the code.

        Without ``data_type`` it takes the graph's compute type (or, for a graph without one,
        BOOLEAN, INT64 or DOUBLE after the value's Python type).
        """
        number = plain_number(value)
        if number is None:
            raise _no_operand("scalar", "value", value, "a bool, int or float")
        tensor = self.tensor(dims=(1,), data_type=data_type, name=name, uid=uid)
        tensor.value = number
        if tensor.given_type is DataType.UNSET:
            tensor.data_type = self.compute_data_type
        if tensor.given_type is DataType.UNSET:
            tensor.data_type = _PYTHON_TYPES[type(number)]
        return tensor

    def runtime_scalar(
        self,
        *,
        data_type: DataType | str = DataType.UNSET,
        name: str = "",
        uid: int | None = None,
    ) -> Tensor:
        """Add a scalar whose value is given at each execution: dims (1,), passed by value.

        It is bound like a buffer, to a number or to host memory that holds one, which is then
        read at each execution.  Without ``data_type`` it takes the graph's compute type, or the
        I/O type for a graph without one.

        Examples
        --------
        >>> from hipdnn_iree import Graph
        >>> g = Graph(io_data_type="half", compute_data_type="float")
        >>> alpha = g.runtime_scalar(name="alpha")
        >>> y = g.mul(g.tensor(dims=(2, 3)), alpha).set_output()
        >>> g.freeze().tensors[alpha.uid].data_type
        DataType.FLOAT
        """
        tensor = self.tensor(dims=(1,), data_type=data_type, name=name, uid=uid)
        tensor.runtime_scalar = True
        if tensor.given_type is DataType.UNSET:
            tensor.data_type = self.compute_data_type
        return tensor

    def output(self, tensor: Tensor, *, name: str = "", data_type: DataType | str = "") -> Tensor:
        """Mark a result as an output, and optionally name it and set its type."""
        if not isinstance(tensor, Tensor):
            raise _no_operand("output", "tensor", tensor, "a Tensor of this graph")
        if tensor.graph is not self:
            raise refused(
                "the tensor cannot be an output of this graph",
                rule="GRAPH-04",
                port=tensor.name or "tensor",
                got="a tensor of another graph",
                wanted="a tensor of this graph",
            )
        tensor.set_output()
        if name:
            tensor.set_name(name)
        if data_type:
            tensor.set_data_type(data_type)
        return tensor

    def add_node(
        self,
        op: Op,
        inputs: Mapping[str, Tensor | Scalar],
        *,
        outputs: Mapping[str, Tensor] | Iterable[str] | None = None,
        compute: DataType | str = DataType.UNSET,
        name: str = "",
        check: bool = True,
    ) -> dict[str, Tensor]:
        """Add an op; all op methods call it.

        Parameters
        ----------
        op : Op
            The op with its parameters.
        inputs : mapping of port to Tensor or number
            Connected inputs; a number becomes a compile-time scalar.
        outputs : mapping of port to Tensor, or ports
            Tensors to write, or the ports to make virtual tensors for; all by default.
        compute : DataType or str
            Type to compute in; the graph's when unset.
        name : str
            Label of the node.
        check : bool
            Whether a graph of a script refuses a node that is certain to be wrong; readers of
            files leave it to ``freeze``, which reports all problems.

        Returns
        -------
        dict of str to Tensor
            The outputs by port.

        Raises
        ------
        GraphError
            For an operand that is neither a tensor nor a number, and for a node that is refused;
            the graph is as it was before.
        """
        self.must_be_open()
        count = len(self.tensors)
        label = arguments.label(name, op.NAME)
        compute = arguments.data_type(compute, port="compute_data_type", node=label)
        connected = {
            port: value if isinstance(value, Tensor) else self._number(label, port, value, compute)
            for port, value in inputs.items()
        }
        if isinstance(outputs, Mapping):
            results = dict(outputs)
            for port, value in results.items():
                if not isinstance(value, Tensor):
                    raise _no_operand(label, port, value, "a Tensor of this graph")
        else:
            ports = [p.name for p in op.OUTPUTS] if outputs is None else list(outputs)
            results = {port: self.tensor(virtual=True) for port in ports}
        node = Node(op, connected, results, compute, name)
        if check and type(self).checks_calls:  # also where an instance leaves checks for later
            node.at = script_line()
        self._makers.update((id(t), node) for t in results.values())  # types depend on it
        if check and self.checks_calls:
            try:
                self._admit(node)
            except GraphError:
                del self.tensors[count:]
                self._makers = {id(t): n for n in self.nodes for t in n.outputs.values()}
                raise
        self.nodes.append(node)
        return results

    def _admit(self, node: Node) -> None:
        """Refuse a node that is certain to be wrong."""
        from .inference import Inference

        if self.inference is None:
            self.inference = Inference(self)
        self.inference.admit(node)

    def known(self, tensor: Tensor) -> PortView:
        """Return what is known of a tensor while the graph is built."""
        from .inference import Inference

        if self.inference is None:
            self.inference = Inference(self)
        return self.inference.view(tensor)

    def _number(self, label: str, port: str, value: object, compute: DataType) -> Tensor:
        number = plain_number(value)
        if number is None:
            wanted = "a Tensor of this graph, or a bool, int or float"
            raise _no_operand(label, port, value, wanted)
        kind = DataType.BOOLEAN if isinstance(number, bool) else compute
        tensor = self.scalar(number, data_type=kind)
        if stored(number, tensor.given_type) is None:
            del self.tensors[-1]
            raise refused(
                "a number cannot be an operand",
                rule="TENSOR-08",
                node=label,
                port=port,
                got=arguments.shown(number),
                wanted=f"a number that {tensor.given_type.json} can hold, in which the op computes",
                hint='pass compute_data_type="float", or set another on the graph',
            )
        return tensor

    def is_produced(self, tensor: Tensor) -> bool:
        """Whether a node writes the tensor."""
        return id(tensor) in self._makers

    def maker(self, tensor: Tensor) -> Node | None:
        """Return the node that writes the tensor."""
        return self._makers.get(id(tensor))

    def take_uid(self, uid: int | None) -> int:
        """Return a uid that a tensor gets: the one given, else the smallest one never taken."""
        if uid is None:
            uid = next(i for i in self._counted if i not in self._taken)
        self._taken.add(uid)
        return uid

    def assign_uids(self) -> None:
        """Give every tensor without a uid a free one."""
        for tensor in self.tensors:
            tensor.given_uid = tensor.uid

    @property
    def preferred_engine_id(self) -> int | None:
        """hipDNN's id of the preferred engine, used if it serves; set it before ``freeze``."""
        return self._preferred_engine_id

    @preferred_engine_id.setter
    def preferred_engine_id(self, value: int | None) -> None:
        self.must_be_open()  # later it would have no effect
        self._preferred_engine_id = arguments.integer(value, port="preferred_engine_id")

    def must_be_open(self) -> None:
        """Raise ``GraphError`` once the graph is frozen."""
        if self._frozen is not None:
            raise refused(
                "the graph is frozen",
                rule="GRAPH-07",
                got="a change after freeze()",
                wanted="all changes before validate, freeze or build",
                hint="build a new Graph, or load graph.to_json() again",
            )


def _one_of(value: S | None, other: S | None, port: str) -> S | None:
    if value is not None and other is not None:
        told = {"got": f"{port} and {port[:-1]}", "wanted": "one"}
        raise refused("an argument is given twice", rule="PARAM-01", port=port, **told)
    return other if value is None else value


def _unknown_attribute(graph: GraphBuilder, name: str) -> AttributeError:
    """Return the error for a misspelt attribute, which would have no effect."""
    hint = arguments.nearest(name, _ATTRIBUTES)
    return AttributeError(f"{type(graph).__name__} has no attribute {name!r}; {hint}".rstrip("; "))


def _unknown_method(graph: GraphBuilder, name: str) -> AttributeError:
    """Return the error for a method that there is not, with the one of ours that does it."""
    text = f"{type(graph).__name__} has no attribute {name!r}"
    if told := here(name):
        return AttributeError(f"{text}; {told}")
    public = [known for known in dir(type(graph)) if not known.startswith("_")]
    return AttributeError(text + arguments.suggestion(name, [*public, *_ATTRIBUTES]))


def _no_operand(label: str, port: str, value: object, wanted: str) -> GraphError:
    got, hint, names = arguments.shown(value), "", getattr(type(value), "_fields", ())
    if names:
        got = f"a {type(value).__name__} ({', '.join(names)})"
        hint = f"take one of its results, .{names[0]} for example"
    elif isinstance(value, tuple | list):
        hint = "take one of its elements"
    elif hasattr(value, "__array__") or hasattr(value, "__dlpack__"):
        hint = "describe it by tensor(dims=...), and pass the data to plan.run"
    told = {"got": got, "wanted": wanted, "hint": hint}
    return refused("an operand has the wrong type", rule="PARAM-03", node=label, port=port, **told)


_PACKAGE = __name__.partition(".")[0]
_PYTHON_TYPES: dict[type, DataType] = {
    bool: DataType.BOOLEAN,
    int: DataType.INT64,
    float: DataType.DOUBLE,
}

_CHECKS: dict[str, Any] = {
    "name": arguments.text,
    "io_data_type": arguments.data_type,
    "intermediate_data_type": arguments.data_type,
    "compute_data_type": arguments.data_type,
    "is_override_shape_enabled": arguments.flag,
    "checks_calls": arguments.flag,
}
_ATTRIBUTES = (
    *_CHECKS,
    "preferred_engine_id",
    "inference",
    "symbols",
    "tensors",
    "nodes",
)
