# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An operation given as code: a plugin's own, known by its id, with bytes that only it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, takewhile
from os import PathLike
from typing import Any, ClassVar, Self

from .. import arguments
from ..dtypes import DataType
from ..errors import Problem
from ..mlir_text import results_of
from ..script_line import refused
from ..tensor import Scalar, Tensor
from .base import Inferred, Op, OpSink, Port, Ports
from .fields import Field, Kind

__all__ = ["MLIR_ID", "CustomOp", "custom_node", "custom_op"]

MLIR_ID = "hipdnn_iree.mlir"
"""Id of a custom op whose data is the text of a function in MLIR's torch dialect."""

Ints = tuple[int, ...]
Output = tuple[Sequence[int], DataType | str]


@dataclass(frozen=True, kw_only=True)
class CustomOp(Op):
    """outputs = f(inputs), where ``data`` defines f.

    Attributes
    ----------
    custom_op_id : str
        Who understands the data: ``plugin.op``.  Ours begin with ``hipdnn_iree.``.
    data : bytes
        What f is; for ids that begin with ``hipdnn_iree.`` or ``fusilli.`` the UTF-8 text of one
        function in MLIR's torch dialect, which may have placeholders (docs/custom-ops.md).
    results : tuple of (dims, data type)
        What the outputs are.  JSON has it in the tensors; ``settle`` puts it here.
    reference : callable or None
        The meaning of f for checks: from an array per input (float64, or int64 for integers
        and BOOLEAN) to one per output, alone or in a tuple.  It is neither stored in files, nor
        pickled, nor part of the digest.
    """

    custom_op_id: str = ""
    data: bytes = b""
    results: tuple[tuple[tuple[int, ...], DataType], ...] = ()
    reference: Callable[..., Any] | None = field(default=None, compare=False, repr=False)

    NAME: ClassVar[str] = "custom_op"
    INPUTS: ClassVar[tuple[Port, ...]] = (Port("inputs", variadic=True),)
    OUTPUTS: ClassVar[tuple[Port, ...]] = (Port("outputs", variadic=True),)
    RULES: ClassVar[Mapping[str, str]] = {
        "CUSTOM-01": "a custom op has an id",
        "CUSTOM-02": "a custom op has at least one input and one output",
        "CUSTOM-03": "the dims of every output of a custom op are given, as nothing follows",
    }
    TYPE_NAME: ClassVar[str] = "CustomOpAttributes"
    WIRE_CODE: ClassVar[int | None] = 16
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field(name="custom_op_id", kind=Kind.TEXT),
        Field(name="inputs", spelled="input_tensor_uids", kind=Kind.TENSORS),
        Field(name="outputs", spelled="output_tensor_uids", kind=Kind.TENSORS),
        Field(name="data", kind=Kind.BYTES),
    )

    def title(self) -> str:
        name = self.custom_op_id
        return f"{self.NAME} {name if name.isprintable() else repr(name)}"

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "reference": None}  # a function of somebody's script

    def computes(self) -> bool:
        return False  # the code itself chooses its compute types

    def at(
        self, before: Mapping[str, Ints], after: Mapping[str, Ints]
    ) -> tuple[Self, Mapping[str, Ints]]:
        # Extents follow those of the inputs that they were equal to.  Should that not be what
        # the function does, its result does not fit, which is found when it is compiled.
        found = {}
        for port, dims in before.items():
            if port not in after:
                extents = [_followed(dims, axis, before, after) for axis in range(len(dims))]
                if None not in extents:
                    found[port] = tuple(e for e in extents if e is not None)
        return self, found

    def check(self, t: Ports) -> Iterator[Problem]:
        if not self.custom_op_id:
            yield t.problem("CUSTOM-01", "custom_op_id", "''", f"an id such as {MLIR_ID!r}")
        for port in ("inputs", "outputs"):
            if f"{port}[0]" not in t:
                yield t.problem("CUSTOM-02", port, "no tensors", "at least one tensor")
        for port in _outputs(t):
            if t.given(port) is None:
                hint = "set_dim() and set_data_type() on the result, or pass outputs=[(dims, type)]"
                yield t.problem("CUSTOM-03", port, "no dims", "the dims of the result", hint)

    def infer(self, t: Ports) -> Mapping[str, Inferred]:
        return {port: Inferred(dims=t.dims(port)) for port in _outputs(t)}

    def settle(self, t: Ports) -> Self:
        return replace(self, results=tuple((t.dims(p), t[p].data_type) for p in _outputs(t)))


def _followed(
    dims: Ints, axis: int, before: Mapping[str, Ints], after: Mapping[str, Ints]
) -> int | None:
    """Return the new extent of a result's dim, or None when inputs disagree about it."""
    aligned, anywhere = set(), set()
    for port, changed in after.items():
        for i, (old, new) in enumerate(zip(before[port], changed, strict=True)):
            if old == dims[axis]:
                anywhere.add(new)
                if i == axis and len(changed) == len(dims):
                    aligned.add(new)
    found = aligned or anywhere or {dims[axis]}
    if len(found) > 1:
        found.discard(1)  # broadcast
    return found.pop() if len(found) == 1 else None


def _outputs(t: Ports) -> list[str]:
    return list(takewhile(t.__contains__, (f"outputs[{i}]" for i in count())))


def custom_node(
    graph: OpSink,
    op: CustomOp,
    inputs: Sequence[Tensor | Scalar],
    outputs: Sequence[Output | None],
    *,
    compute: DataType | str = DataType.UNSET,
    name: str = "",
) -> tuple[Tensor, ...]:
    """Add a custom op; an output that is None is left for the caller to describe."""
    node = arguments.label(name, CustomOp.NAME)
    described = [_described(output, i, node) for i, output in enumerate(outputs)]
    ports = [f"outputs[{i}]" for i in range(len(described))]
    connected = {f"inputs[{i}]": value for i, value in enumerate(inputs)}
    results = graph.add_node(op, connected, outputs=ports, compute=compute, name=name)
    for port, output in zip(ports, described, strict=True):
        if output is not None:
            results[port].dims, results[port].data_type = output
    return tuple(results.values())


def _described(output: object, index: int, node: str) -> tuple[tuple[int, ...], DataType] | None:
    if output is None:
        return None
    port = f"outputs[{index}]"
    if not (isinstance(output, tuple | list) and len(output) == 2):
        wanted = "a pair of dims and data type, such as ((2, 3), 'float')"
        got = arguments.shown(output)
        told = {"port": port, "got": got, "wanted": wanted}
        raise refused("an output is not described", rule="PARAM-03", node=node, **told)
    dims, data_type = output
    return (
        arguments.integers(dims, port=port, node=node),
        arguments.data_type(data_type, port=port, node=node),
    )


def custom_op(
    graph: OpSink,
    *,
    mlir: str | bytes | PathLike[str],
    inputs: Sequence[Tensor | Scalar],
    outputs: int | Sequence[Output] | None = None,
    custom_op_id: str = MLIR_ID,
    reference: Callable[..., Any] | None = None,
    compute_data_type: DataType | str = DataType.UNSET,
    name: str = "",
) -> tuple[Tensor, ...]:
    """Add a function given as MLIR: ``func.func`` of torch-dialect ops on value tensors.

    The function takes one ``!torch.vtensor`` per input and returns one per output, with logical
    dims (N, C, ...) whatever the layouts are.  ``{FUNC_NAME}``, ``{IN0_TYPE}``, ``{IN0_DTYPE}``,
    ``{IN0_DIM1}`` and the same for ``OUT`` stand for the tensors' values, so that one text serves
    many sizes and types.  The text is part of the graph's digest.  It is read when the graph is
    built for a target, in a process of its own; docs/custom-ops.md lists what it may contain.

    Parameters
    ----------
    mlir : str, bytes or path
        The text, or the file that holds it.
    inputs : sequence of Tensor or number
        Operands in order; the same tensor may be given twice.
    outputs : int or sequence of (dims, data type), optional
        What the function returns.  Without it, or with a number of outputs only, dims
        and types come from the text where it has them without placeholders; set the others on the
        results (``set_dim``, ``set_data_type``).
    custom_op_id : str
        Who understands the data; other engines know other ids.
    reference : callable, optional
        What the function means, for checks (``--verify``, ``provider.verify``): takes a NumPy
        array per input, float64 or (integers, BOOLEAN) int64, with logical dims, and returns
        one per output, alone or in a tuple.  It stays in this process: a file does not hold it.
    compute_data_type : DataType or str
        Type of numbers given as inputs; the function chooses its compute types.
    name : str
        Label of the node.

    Returns
    -------
    tuple of Tensor
        The outputs, contiguous unless strides are set, virtual until ``set_output``.

    Raises
    ------
    GraphError
        At once for an argument of the wrong type; at ``validate`` for broken rules (CUSTOM-…);
        when it is built, for a text that is no such function (FUNCTION-…).
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> from hipdnn_iree.graph_api.graph import Graph
    >>> g = Graph(io_data_type="float")
    >>> x = g.tensor(dims=(2, 3), name="x")
    >>> (y,) = g.custom_op(mlir='''
    ...     func.func private @{FUNC_NAME}(%x: {IN0_TYPE}) -> {OUT0_TYPE} {
    ...       %y = torch.aten.erf %x : {IN0_TYPE} -> {OUT0_TYPE}
    ...       return %y : {OUT0_TYPE}
    ...     }''', inputs=[x], outputs=[((2, 3), "float")])
    >>> g.output(y, name="y").dims
    (2, 3)
    """
    node = arguments.label(name, CustomOp.NAME)
    data = _bytes(mlir, node)
    given: object = reference
    if given is not None and not callable(given):
        got, wanted = arguments.shown(reference), "a function of NumPy arrays, or nothing"
        told = {"port": "reference", "got": got, "wanted": wanted}
        raise refused("a reference is a function", rule="PARAM-03", node=node, **told)
    op = CustomOp(
        custom_op_id=arguments.text(custom_op_id, port="custom_op_id", node=node),
        data=data,
        reference=reference,
    )
    described: Sequence[Output | None]
    if outputs is None or isinstance(outputs, int):
        described = results_of(data.decode("utf-8", "replace"))
        if outputs is not None and len(described) != outputs:
            described = [None] * outputs
    else:
        described = list(outputs)
    return custom_node(graph, op, inputs, described, compute=compute_data_type, name=name)


def _bytes(mlir: object, node: str) -> bytes:
    if isinstance(mlir, bytes):
        return mlir
    if isinstance(mlir, PathLike):
        with open(mlir, "rb") as file:
            return file.read()
    return arguments.text(mlir, port="mlir", node=node).encode()
