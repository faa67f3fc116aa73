# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""AMD's ``hipdnn_frontend`` over our graphs, without hipDNN and without a GPU.

Write ``import hipdnn_iree.compat.hipdnn_frontend as hipdnn``.  Source of the names: hipDNN's Python
bindings of 2026 (``projects/hipdnn/python/frontend_bindings`` of rocm-libraries) and their tests.

Methods take attributes objects and steps return an `Error`, as there.  Inside the real hipDNN the
same engine is a plugin (docs/plugin.md); this module is for scripts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec

from ..graph_api import enums
from ..graph_api.dtypes import DataType as OurDataType
from ..graph_api.errors import (
    BindError,
    FormatError,
    GraphError,
    HipdnnIreeError,
    NotSupportedError,
    SettingError,
)
from ..graph_api.graph import Graph as ModelGraph
from ..graph_api.tensor import Tensor as OurTensor
from ..provider.graph import Graph as OurGraph
from .aliases import Names, missing
from .hipdnn_ops import OPS, Attributes, attributes_class
from .steps import DeviceBuffer, Handle, Steps
from .tensors import TensorAttributes, like

__all__ = [
    "INSTEAD",
    "OPS",
    "AttentionImplementation",
    "Attributes",
    "BuildPlanPolicy",
    "ConvolutionMode",
    "DataType",
    "DeviceBuffer",
    "DiagonalAlignment",
    "Error",
    "ErrorCode",
    "Graph",
    "Handle",
    "HeuristicMode",
    "MoeGroupedMatmulMode",
    "NormFwdPhase",
    "PaddingMode",
    "PointwiseMode",
    "ReductionMode",
    "ResampleMode",
    "Tensor",
    "create_handle",
    "destroy_handle",
    "get_stream",
    "set_stream",
]

Tensor = TensorAttributes
DataType = Names("DataType", OurDataType, {"NOT_SET": "UNSET"})
ConvolutionMode = Names("ConvolutionMode", enums.ConvMode, {"NOT_SET": "UNSET"})
PointwiseMode = Names("PointwiseMode", enums.PointwiseMode, {"NOT_SET": "UNSET"})
ReductionMode = Names("ReductionMode", enums.ReductionMode)
ResampleMode = Names("ResampleMode", enums.ResampleMode)
PaddingMode = Names("PaddingMode", enums.PaddingMode)
NormFwdPhase = Names("NormFwdPhase", enums.NormFwdPhase)
DiagonalAlignment = Names("DiagonalAlignment", enums.DiagonalAlignment)
AttentionImplementation = Names("AttentionImplementation", enums.AttentionImplementation)
MoeGroupedMatmulMode = Names("MoeGroupedMatmulMode", enums.MoeGroupedMatmulMode)
HeuristicMode = Enum("HeuristicMode", ["FALLBACK"])
BuildPlanPolicy = Enum("BuildPlanPolicy", ["HEURISTICS_CHOICE", "ALL"])
ErrorCode = Enum(
    "ErrorCode",
    [
        "OK",
        "INVALID_VALUE",
        "HIPDNN_BACKEND_ERROR",
        "GRAPH_NOT_SUPPORTED",
        "INVALID_VARIANT_PACK",
        "UNSUPPORTED_GRAPH_FORMAT",
    ],
)


class Error:
    """The result of a step.

    Attributes
    ----------
    code : ErrorCode
    err_msg : str
        Empty for OK.
    cause : HipdnnIreeError or None
        The error of this package, with all that is known.
    """

    def __init__(
        self,
        code: ErrorCode | None = None,
        err_msg: str = "",
        cause: HipdnnIreeError | None = None,
    ) -> None:
        self.code = ErrorCode.OK if code is None else code
        self.err_msg, self.cause = err_msg, cause

    def is_good(self) -> bool:
        """Whether the step succeeded."""
        return self.code is ErrorCode.OK

    def is_bad(self) -> bool:
        """Whether the step failed."""
        return not self.is_good()

    def get_code(self) -> ErrorCode:
        """Return the code."""
        return self.code

    def get_message(self) -> str:
        """Return the text."""
        return self.err_msg

    def __repr__(self) -> str:
        return f"<Error {self.code.name}{': ' if self.err_msg else ''}{self.err_msg}>"


_CODES: dict[type[HipdnnIreeError], ErrorCode] = {
    BindError: ErrorCode.INVALID_VARIANT_PACK,
    FormatError: ErrorCode.UNSUPPORTED_GRAPH_FORMAT,
    GraphError: ErrorCode.INVALID_VALUE,
    NotSupportedError: ErrorCode.GRAPH_NOT_SUPPORTED,
    SettingError: ErrorCode.INVALID_VALUE,
}

P = ParamSpec("P")


def _reported(step: Callable[P, None]) -> Callable[P, Error]:
    """Make a step return its error instead of raising it."""

    @wraps(step)
    def run(*args: P.args, **kwargs: P.kwargs) -> Error:
        try:
            step(*args, **kwargs)
        except HipdnnIreeError as error:
            code = _CODES.get(type(error), ErrorCode.HIPDNN_BACKEND_ERROR)
            return Error(code, str(error), error)
        return Error()

    made = signature(step)
    setattr(run, "__signature__", made.replace(return_annotation="Error"))  # noqa: B010
    return run


_TUNING = "hipdnn-iree tune, or policy='autotune' with Graph.build"
INSTEAD: dict[str, str] = {
    "AutotuneConfig": _TUNING,
    "CustomOpAttributes": "Graph.custom_op, which takes MLIR",
    "HipEvent": "hip-python",
    "HipStallGate": "hip-python",
    "PluginLoadingMode": "HIPDNN_IREE_PLUGINS_MODE",
    "add_all_engines": _TUNING,
    "add_engine": _TUNING,
    "add_engines": _TUNING,
    "autotune": _TUNING,
    "custom_op": "Graph.custom_op, which takes MLIR",
    "deselect_engines": "HIPDNN_IREE_DESELECT",
    "execute_timed_ext": "hipdnn-iree bench",
    "get_behavior_notes_for_engine": "Graph.plans",
    "get_engine_configs": "Graph.plans",
    "get_knobs_for_engine": "Graph.plans",
    "get_loaded_engine_plugin_paths": "hipdnn-iree engines",
    "hip_get_device_count": "hip-python",
}
"""Names that there are not here, and what to use."""


class Graph(Steps):
    """A graph with hipDNN's methods.

    Examples
    --------
    >>> import numpy as np
    >>> g = Graph().set_io_data_type(DataType.FLOAT)
    >>> x = Tensor.create([2, 3], DataType.FLOAT)
    >>> y = g.pointwise(x, PointwiseAttributes().set_mode(PointwiseMode.RELU_FWD))
    >>> y = y.set_output(True)
    >>> handle = create_handle()
    >>> [step.is_good() for step in (g.validate(), g.build_operation_graph(handle))]
    [True, True]
    >>> g.create_execution_plans(), g.check_support(), g.build_plans()
    (<Error OK>, <Error OK>, <Error OK>)
    >>> result = np.empty((2, 3), np.float32)
    >>> g.execute(handle, {x: np.float32([[-1, 2, -3], [4, -5, 6]]), y: result}, 0)
    <Error OK>
    >>> result
    array([[0., 2., 0.],
           [4., 0., 6.]], dtype=float32)
    """

    def __init__(self) -> None:
        super().__init__(_open(OurGraph()), None)

    def __getattr__(self, name: str) -> Any:
        missing("Graph", name, dir(type(self)), INSTEAD)

    def __repr__(self) -> str:
        return repr(self.inner)

    def set_name(self, name: str) -> Graph:
        """Set the label."""
        self.inner.name = name
        return self

    def get_name(self) -> str:
        """Return the label."""
        return self.inner.name

    def set_io_data_type(self, data_type: OurDataType | str) -> Graph:
        """Set the type of tensors with a buffer that have none of their own."""
        self.inner.io_data_type = data_type  # type: ignore[assignment]  # checked and converted
        return self

    def get_io_data_type(self) -> OurDataType:
        """Return the type of tensors with a buffer."""
        return self.inner.io_data_type

    def set_intermediate_data_type(self, data_type: OurDataType | str) -> Graph:
        """Set the type of tensors without a buffer that have none of their own."""
        self.inner.intermediate_data_type = data_type  # type: ignore[assignment]
        return self

    def get_intermediate_data_type(self) -> OurDataType:
        """Return the type of tensors without a buffer."""
        return self.inner.intermediate_data_type

    def set_compute_data_type(self, data_type: OurDataType | str) -> Graph:
        """Set the type that nodes compute in."""
        self.inner.compute_data_type = data_type  # type: ignore[assignment]
        return self

    def get_compute_data_type(self) -> OurDataType:
        """Return the type that nodes compute in."""
        return self.inner.compute_data_type

    def set_preferred_engine_id_ext(self, engine: int | str | None = None) -> Graph:
        """Take this engine, by id or name, when it serves the graph."""
        if isinstance(engine, str):
            from ..provider.engine_ids import engine_id

            engine = engine_id(engine)
        self.inner.preferred_engine_id = engine
        return self

    def get_preferred_engine_id_ext(self) -> int | None:
        """Return the id of the preferred engine."""
        return self.inner.preferred_engine_id

    @staticmethod
    def tensor(tensor: TensorAttributes) -> TensorAttributes:
        """Return a copy of a tensor that belongs to no graph."""
        return _copied(tensor, tensor.get_name())

    @staticmethod
    def tensor_like(tensor: Any, name: str = "") -> TensorAttributes:
        """Return a tensor like another one or an array: dims, strides and type, no uid."""
        if isinstance(tensor, TensorAttributes):
            return _copied(tensor, name).clear_uid()
        made = like(ModelGraph(), tensor, name)
        return _copied(made, name).clear_uid()

    @_reported
    def validate(self) -> None:
        """Check every rule; see `Graph.validate`."""
        self.inner.validate()

    @_reported
    def build_operation_graph(self, handle: Handle) -> None:
        """Infer what is missing, for the device of the handle."""
        self.handle = handle
        self.inner.freeze()

    @_reported
    def create_execution_plans(self, modes: Sequence[Any] = ()) -> None:
        """Ask the engines; nothing is compiled."""
        self.ask()

    @_reported
    def create_execution_plan_ext(
        self, engine_id: int, knob_settings: Iterable[tuple[str, str]] = ()
    ) -> None:
        """Pin an engine, with choices of its knobs (pairs of name and value)."""
        self.pinned = (engine_id, dict(knob_settings))

    @_reported
    def check_support(self) -> None:
        """Report GRAPH_NOT_SUPPORTED with the reasons if no engine serves the graph."""
        self.ask()

    @_reported
    def build_plans(self, policy: Any = None) -> None:
        """Compile; or load from the cache."""
        self.built()

    def get_execution_plan_count(self) -> int:
        """Return the number of engines that serve the graph."""
        return len(self.ask())

    def get_execution_plan_engine_id(self) -> int:
        """Return the id of the engine that the graph runs on."""
        return self.built().engine_id

    def get_ranked_engine_ids(self, modes: Sequence[Any] = ()) -> list[int]:
        """Return the ids of the engines that serve the graph."""
        return [candidate.engine.id for candidate in self.ask()]

    def get_plan_name(self) -> str:
        """Return the name of the engine that the graph runs on."""
        return self.built().engine

    def get_plan_name_at_index(self, plan_index: int) -> str:
        """Return the name of an engine."""
        return self.at(plan_index).name

    @_reported
    def build_plan_at_index(self, plan_index: int) -> None:
        """Build the plan of this engine, and use it from now on."""
        self.plan = self.at(plan_index).build()

    def get_workspace_size(self) -> int:
        """Return the bytes of scratch memory that an execution needs."""
        return self.built().workspace_bytes

    @_reported
    def execute(self, handle: Handle, variant_pack: Mapping[Any, Any], workspace: Any = 0) -> None:
        """Run on the caller's buffers, by tensor or uid; see `Plan.execute`."""
        self.run(self.built(), variant_pack, workspace, handle)

    @_reported
    def execute_plan_at_index(
        self, handle: Handle, variant_pack: Mapping[Any, Any], workspace: Any, plan_index: int
    ) -> None:
        """Run the plan of this engine on the caller's buffers."""
        self.run(self.at(plan_index).build(), variant_pack, workspace, handle)

    def to_json(self) -> str:
        """Return hipDNN's graph JSON."""
        return self.inner.to_json()

    @_reported
    def from_json(self, *handle_and_text: Any) -> None:
        """Become a graph of a file: ``from_json(text)``, ``from_json(handle, text)``."""
        *handle, text = handle_and_text
        self.restart(_open(OurGraph.from_json(text)), handle[0] if handle else None)

    def to_binary(self) -> bytes:
        """Return the graph in hipDNN's FlatBuffers format."""
        from ..graph_api.formats.flatbuffer.encode import encode

        return encode(self.inner.freeze())

    @_reported
    def from_binary(self, *handle_and_data: Any) -> None:
        """Become a graph of a file: ``from_binary(data)``, ``from_binary(handle, data)``."""
        from ..graph_api.formats.flatbuffer.decode import decode

        *handle, data = handle_and_data
        graph = decode(bytes(data), OurGraph).graph
        self.restart(_open(graph), handle[0] if handle else None)

    def _added(
        self, name: str, operands: tuple[Any, ...], index: TensorAttributes | None = None
    ) -> Any:
        """Add the nodes of a method; the last operand is the attributes object."""
        op = OPS[name]
        *tensors, attributes = operands
        if not isinstance(attributes, Attributes) or type(attributes).__name__ not in op.attributes:
            got = type(attributes).__name__
            raise TypeError(f"{name}() takes {op.attributes[0]} last, got a {got}")
        takes = len(op.operands)
        output = tensors.pop() if op.takes_output and len(tensors) == takes + 1 else None
        if len(tensors) > takes:
            wanted = ", ".join(op.operands)
            raise TypeError(f"{name}() takes the tensors {wanted}; got {len(tensors)}")
        pairs = zip(op.operands, tensors, strict=False)
        given = {port: t.bind(self.inner) for port, t in pairs if t is not None}
        given |= attributes.arguments(self.inner)
        if index is not None:
            given["index"] = index.bind(self.inner)
        found = getattr(self.inner, op.ours or name)(**given)
        if isinstance(found, OurTensor):
            return output.adopt(found) if output else TensorAttributes(found)
        results = tuple(
            None if t is None else TensorAttributes(t)
            for t in (getattr(found, field) for field in op.results)
        )
        return results if len(results) > 1 else results[0]


def _method(name: str) -> Callable[..., Any]:
    def add(self: Graph, *operands: Any, **named: Any) -> Any:
        return self._added(name, operands, **named)

    op = OPS[name]
    add.__name__ = name
    add.__doc__ = f"Call `Graph.{op.ours or name}` with {', '.join(op.operands)} and attributes."
    return add


for _name, _op in OPS.items():
    setattr(Graph, _name, _method(_name))
    for _class in _op.attributes:
        globals().setdefault(_class, attributes_class(_name))


def create_handle(stream: int = 0, target: str | None = None) -> Handle:
    """Return a handle; ``target`` (of this package) is what plans are built for."""
    return Handle(target, stream)


def destroy_handle(handle: Handle) -> None:
    """Do nothing: a handle holds no resources."""


def set_stream(handle: Handle, stream: int) -> None:
    """Set the stream that graphs run on (``hipStream_t`` as a number)."""
    handle.stream = stream


def get_stream(handle: Handle) -> int:
    """Return the stream that graphs run on."""
    return handle.stream


def _open(graph: OurGraph) -> OurGraph:
    """Leave all problems for ``validate``, as hipDNN does."""
    graph.checks_calls = False
    return graph


def _copied(tensor: TensorAttributes, name: str) -> TensorAttributes:
    """Return a tensor of no graph with what is known of another one."""
    given, made = tensor.tensor, TensorAttributes()
    made.tensor.given_dims, made.tensor.given_strides = given.dims, given.strides
    made.tensor.given_type, made.tensor.value = given.data_type, given.value
    made.tensor.runtime_scalar = given.runtime_scalar
    if given.given_uid is not None:
        made.set_uid(given.given_uid)
    return made.set_name(name)


def __getattr__(name: str) -> Any:
    classes = [word for op in OPS.values() for word in op.attributes]
    missing("hipdnn_frontend", name, [*__all__, *classes], INSTEAD)
