# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Torch code as custom ops: ATen ops, FX nodes and Python functions become MLIR text.

The only module that imports PyTorch (the extra ``torch``).  An op is put into an FX graph of its
own, with fake tensors for metadata, of which torch-mlir's FX importer makes a function; a Python
function, and an op that torch-mlir does not know, is exported and decomposed first.  What is
stored is the text: a graph that was saved loads and runs without PyTorch.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from operator import getitem
from typing import TYPE_CHECKING, Any

from ..graph_api import arguments
from ..graph_api.dtypes import DataType
from ..graph_api.errors import GraphError, NotSupportedError, Problem
from ..graph_api.mlir_text import results_of
from ..graph_api.ops.custom_op import CustomOp, custom_node
from ..graph_api.tensor import Tensor
from .torch_meaning import Meaning, tensors_of

if TYPE_CHECKING:
    from ..graph_api.graph import Graph

__all__ = [
    "HEADER",
    "RULES",
    "aten",
    "decompositions",
    "fx_node",
    "importer",
    "load_torch",
    "torch_function",
    "torch_type",
]

RULES: dict[str, str] = {
    "TORCH-01": "an ATen op is one that PyTorch knows, and changes none of its operands",
    "TORCH-02": "operands of torch code are tensors with dims and a data type that torch has",
    "TORCH-03": "torch takes the operands and returns tensors",
    "TORCH-04": "torch-mlir has a form for the torch code, with results that hipDNN has types for",
}

HEADER = "// aten: "
"""Begins the first line of an ATen op's text, which says in JSON what is called on what."""

_IMPORTABLE = "pure code on tensors of fixed shapes, of ops that torch-mlir knows"

Results = Tensor | tuple[Tensor, ...]


def load_torch() -> Any:
    """Return PyTorch, or raise `NotSupportedError` with the command that installs it."""
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise NotSupportedError(
            "importing torch code needs PyTorch, which is not installed: "
            "pip install 'hipdnn-iree[torch]'"
        ) from None
    return torch


def torch_type(torch: Any, data_type: DataType) -> Any:
    """Return torch's name of a data type, or None."""
    return getattr(torch, data_type.value.numpy, None) if data_type.value.numpy else None


def aten(
    graph: Graph, op: object, args: Sequence[Any], kwargs: Mapping[str, Any], name: str
) -> Results:
    """Add an ATen op; see ``Graph.aten``."""
    torch = load_torch()
    overload = _overload(torch, op, arguments.label(name, "aten"))
    label = name or str(overload)
    tensors: list[Tensor] = []
    _replaced([*args, *kwargs.values()], lambda t: _noted(t, tensors))
    fakes = _fakes(torch, graph, tensors, label)
    call = _Call(torch, overload, args, kwargs, tensors)
    with _quiet():
        with _told("TORCH-03", label, "operands that torch takes, and tensors returned"):
            returned = call(*fakes)
            values = tensors_of(torch, returned)
        with _told("TORCH-04", label, _IMPORTABLE):
            text = "" if overload in decompositions() else _imported(torch, call, fakes, returned)
            if not text or "torch.operator" in text:
                text = _exported(torch, call, fakes)
    if (plain := call.as_json()) is not None:
        text = f"{HEADER}{plain}\n{text}"
    types = [fake.dtype for fake in fakes]
    results = _add(graph, text, str(overload), tensors, len(values), name, label, (call, types))
    return results[0] if isinstance(returned, torch.Tensor) else results


def fx_node(graph: Graph, node: Any, inputs: Sequence[Tensor], name: str) -> Results:
    """Add the ATen op that a node of an FX graph calls; see ``Graph.fx_node``."""
    torch = load_torch()
    label = name or str(getattr(node, "name", "fx_node"))
    if not isinstance(node, torch.fx.Node) or node.op != "call_function":
        raise _error(
            "TORCH-01", label, arguments.shown(node), "a call_function node of an FX graph"
        )
    given = list(inputs)
    if len(node.all_input_nodes) != len(given):
        wanted = f"{len(node.all_input_nodes)}, one for each node that it reads"
        raise _error("TORCH-02", label, f"{len(given)} inputs", wanted)
    views = _views(graph, given, label)
    for source, (dims, data_type) in zip(node.all_input_nodes, views, strict=True):
        # What the node was made with: a tensor, a fake one, or the FX interpreter's record.
        known = source.meta.get("val", source.meta.get("tensor_meta"))
        if known is None:
            continue
        found = (tuple(known.shape), known.dtype)
        if found != (dims, torch_type(torch, data_type)):
            got = f"{data_type.json} {list(dims)} for {source.name}"
            raise _error("TORCH-02", label, got, f"{found[1]} {list(found[0])}, as the node says")
    tensors = dict(zip(node.all_input_nodes, given, strict=True))
    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), tensors.__getitem__)
    return aten(graph, node.target, args, kwargs, name or node.name)


def torch_function(
    graph: Graph, function: Callable[..., Any], inputs: Sequence[Tensor], name: str
) -> Results:
    """Add a Python function of torch tensors; see ``Graph.torch_function``."""
    torch = load_torch()
    called = getattr(function, "__name__", type(function).__name__)
    label = name or called
    fakes = _fakes(torch, graph, list(inputs), label)
    seen: list[Any] = []

    def call(*values: Any) -> Any:
        seen[:] = [function(*values)]
        return seen[0]

    with _quiet(), _told("TORCH-04", label, _IMPORTABLE):
        text = _exported(torch, call, fakes)
    count = len(tensors_of(torch, seen[0]))
    code = (function, [fake.dtype for fake in fakes])
    results = _add(graph, text, f"torch.{called}", list(inputs), count, name, label, code)
    return results[0] if isinstance(seen[0], torch.Tensor) else results


# ------------------------------------------------------------------------------- operands


class _Call:
    """An op with its arguments; called with values in place of the tensors."""

    def __init__(
        self,
        torch: Any,
        op: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        tensors: Sequence[Tensor],
    ) -> None:
        self.op = op
        self._torch, self._args, self._kwargs = torch, list(args), dict(kwargs)
        self._number = {id(t): i for i, t in enumerate(tensors)}

    def with_values(self, values: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return positional and named arguments."""
        args = _replaced(self._args, lambda t: values[self._number[id(t)]], self._torch)
        kwargs = {
            key: _replaced(value, lambda t: values[self._number[id(t)]], self._torch)
            for key, value in self._kwargs.items()
        }
        return tuple(args), kwargs

    def __call__(self, *values: Any) -> Any:
        args, kwargs = self.with_values(values)
        return self.op(*args, **kwargs)

    def as_json(self) -> str | None:
        """Return the call as one line, or None when an argument cannot be written."""
        places = [{"tensor": i} for i in range(len(self._number))]
        args, kwargs = self.with_values(places)
        data = {"op": str(self.op), "args": args, "kwargs": kwargs}
        try:
            return json.dumps(data, default=self._dtype)
        except TypeError:
            return None

    def _dtype(self, value: Any) -> dict[str, str]:
        if isinstance(value, self._torch.dtype):
            return {"dtype": str(value).removeprefix("torch.")}
        raise TypeError


def _replaced(value: Any, by: Callable[[Tensor], Any], torch: Any = None) -> Any:
    """Return an argument with something else in place of each tensor."""
    if isinstance(value, Tensor):
        return by(value)
    if isinstance(value, list | tuple):
        return [_replaced(v, by, torch) for v in value]
    if isinstance(value, DataType) and torch is not None:
        return torch_type(torch, value)
    return value


def _noted(tensor: Tensor, tensors: list[Tensor]) -> Tensor:
    if not any(tensor is t for t in tensors):
        tensors.append(tensor)
    return tensor


def _overload(torch: Any, op: object, label: str) -> Any:
    """Return the overload for itself, or for a name such as ``aten.gelu.default``."""
    wanted = "an overload of torch.ops, or its name, such as 'aten.gelu.default'"
    found: Any = op
    if isinstance(op, str):
        found = torch.ops
        for word in op.removeprefix("torch.ops.").split("."):
            found = getattr(found, word, None)
    if isinstance(found, torch._ops.OpOverloadPacket):
        overloads = found.overloads()
        if "default" not in overloads and len(overloads) != 1:
            known = ", ".join(f"{found}.{name}" for name in overloads)
            raise _error("TORCH-01", label, arguments.shown(op), f"one of {known}")
        found = getattr(found, "default" if "default" in overloads else overloads[0])
    if not isinstance(found, torch._ops.OpOverload):
        raise _error("TORCH-01", label, arguments.shown(op), wanted)
    if found._schema.is_mutable:
        raise _error("TORCH-01", label, f"{found}, which changes an operand", "a pure op")
    return found


def _views(
    graph: Graph, tensors: Sequence[Any], label: str
) -> list[tuple[tuple[int, ...], DataType]]:
    """Return dims and data types, inferred through the graph so far."""
    found: list[tuple[tuple[int, ...], DataType]] = []
    for i, tensor in enumerate(tensors):
        wanted = "a tensor of this graph with dims and a data type"
        own = isinstance(tensor, Tensor) and tensor.graph is graph
        view = graph.known(tensor) if own else None
        if view is None or view.dims is None or view.data_type is DataType.UNSET:
            raise _error("TORCH-02", label, arguments.shown(tensor), wanted, f"inputs[{i}]")
        found.append((view.dims, view.data_type))
    return found


def _fakes(torch: Any, graph: Graph, tensors: Sequence[Any], label: str) -> list[Any]:
    """Return a tensor without memory for each operand."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    fakes = []
    with FakeTensorMode():
        for i, (dims, data_type) in enumerate(_views(graph, tensors, label)):
            dtype = torch_type(torch, data_type)
            if dtype is None:
                wanted = "a data type that torch has"
                raise _error("TORCH-02", label, data_type.json, wanted, f"inputs[{i}]")
            fakes.append(torch.empty(dims, dtype=dtype))
    return fakes


# ------------------------------------------------------------------------------- import


def _imported(torch: Any, call: _Call, fakes: Sequence[Any], returned: Any) -> str:
    """Return the text for one op, in an FX graph made for it."""
    graph = torch.fx.Graph()
    places = []
    for i, fake in enumerate(fakes):
        places.append(graph.placeholder(f"x{i}"))
        places[-1].meta["val"] = fake
    args, kwargs = call.with_values(places)
    node = graph.call_function(call.op, args, kwargs)
    node.meta["val"] = returned
    results = [node]
    if not isinstance(returned, torch.Tensor):
        results = [graph.call_function(getitem, (node, i)) for i in range(len(returned))]
    for i, value in enumerate(tensors_of(torch, returned)):
        results[i].meta["val"] = value
        if not value.dim():  # a hipDNN tensor has at least one dim
            one = graph.call_function(torch.ops.aten.unsqueeze.default, (results[i], 0))
            one.meta["val"] = value.unsqueeze(0)
            results[i] = one
    graph.output(tuple(results))
    found = importer()
    found.import_stateless_graph(graph, func_name="custom_op")
    return str(found.module)


def _exported(torch: Any, call: Callable[..., Any], fakes: Sequence[Any]) -> str:
    """Return the text for a function, exported and decomposed."""

    class Module(torch.nn.Module):  # type: ignore[misc]
        def forward(self, *values: Any) -> Any:
            returned = tensors_of(torch, call(*values))
            return tuple(v if v.dim() else v.reshape(1) for v in returned)

    program = torch.export.export(Module(), tuple(fakes), strict=False)
    program = program.run_decompositions(dict(decompositions()))
    changed = program.graph_signature.user_inputs_to_mutate
    if changed:
        raise TypeError(f"the function changes its arguments ({', '.join(changed.values())})")
    found = importer()
    found.import_frozen_program(program, func_name="custom_op")
    return str(found.module)


@lru_cache(maxsize=1)
def decompositions() -> Mapping[Any, Any]:
    """Return how torch-mlir wants ops to be written by others, by overload."""
    from torch_mlir.extras.fx_decomp_util import get_decomposition_table

    found: Mapping[Any, Any] = get_decomposition_table()
    return found


def importer() -> Any:
    """Return torch-mlir's FX importer, with a module of its own."""
    from torch_mlir import ir
    from torch_mlir.dialects import torch as dialect
    from torch_mlir.extras.fx_importer import FxImporter

    context = ir.Context()
    dialect.register_dialect(context)
    return FxImporter(context=context)


def _add(
    graph: Graph,
    text: str,
    what: str,
    tensors: Sequence[Tensor],
    count: int,
    name: str,
    label: str,
    code: tuple[Callable[..., Any], list[Any]],
) -> tuple[Tensor, ...]:
    described = [found for found in results_of(text) if found is not None]
    if len(described) != count:
        got = text.partition("->")[2].partition("{")[0].strip()
        raise _error("TORCH-04", label, got, f"{count} tensors of types that hipDNN has")
    op = CustomOp(custom_op_id=f"hipdnn_iree.{what}", data=text.encode(), reference=Meaning(*code))
    return custom_node(graph, op, list(tensors), described, name=name)


# ------------------------------------------------------------------------------- errors


def _error(rule: str, node: str, got: str, wanted: str, port: str = "") -> GraphError:
    problem = Problem(rule=rule, node=node, port=port, got=got, wanted=wanted)
    return GraphError("the torch code cannot be imported", [problem])


@contextmanager
def _told(rule: str, node: str, wanted: str) -> Iterator[None]:
    """Tell what torch, torch-mlir or the user's function raises as a broken rule."""
    try:
        yield
    except GraphError:
        raise
    except Exception as error:  # whatever the user's function and the importers raise
        said = " ".join(str(error).split())
        got = f"{type(error).__name__}: {said[:300]}"
        raise _error(rule, node, got, wanted) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep back what torch says of its own code, and says a second time of an error."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


_LOGGERS = (
    "torch._subclasses.fake_tensor",
    "torch.fx.experimental.symbolic_shapes",
    "torch.export",
)
