# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reading the graph that ONNX Runtime shows: all of it is copied, as it dies with the call."""

from __future__ import annotations

import ctypes
import os
from ctypes import c_bool, c_float, c_int32, c_int64, c_size_t
from math import prod

from ..offload.memory import FileBytes
from .abi import ELEMENTS, AttributeKind, OrtFunctions
from .model import Attribute, Constant, Dim, Model, Node, Value

__all__ = ["initializer_bytes", "model_folder", "read_graph", "value_names"]

_MOST_INTEGERS = 64
_MOST_FLOATS = 8
"""Elements of a constant that is written into the code: shapes, axes, pads, scales."""


def read_graph(ort: OrtFunctions, graph: int) -> Model:
    """Return the graph at an address."""
    return _Reader(ort).graph(graph)


def value_names(ort: OrtFunctions, infos: list[int]) -> list[str]:
    """Return the names of values; empty for null."""
    return [ort.text("GetValueInfoName", p) if p else "" for p in infos]


def initializer_bytes(
    ort: OrtFunctions, graph: int, names: set[str]
) -> dict[str, memoryview | FileBytes]:
    """Return the bytes of initializers, which are borrowed and die with the call.

    External data is not asked for, as ONNX Runtime would keep it in memory as well.
    """
    found: dict[str, memoryview | FileBytes] = {}
    folder = model_folder(ort, graph)
    for info in ort.pointers(graph, "Graph_GetNumInitializers", "Graph_GetInitializers"):
        name = ort.text("GetValueInfoName", info)
        if name in names:
            outside = _external(ort, info, folder)
            value = 0 if outside else ort.pointer("ValueInfo_GetInitializerValue", info)
            found[name] = outside or _bytes(ort, value)
    return found


def model_folder(ort: OrtFunctions, graph: int) -> str:
    """Return the folder of the model's file; empty where it has none."""
    address = ort.pointer("Graph_GetModelPath", graph)
    path = ctypes.string_at(address).decode("utf-8", "surrogateescape") if address else ""
    return path.rpartition("/")[0] or ("." if path else "")


def _external(ort: OrtFunctions, info: int, folder: str) -> FileBytes | None:
    """Return an initializer that is in a file below the model's folder; None for others."""
    about = ort.pointer("ValueInfo_GetExternalInitializerInfo", info)
    if not about:
        return None
    try:
        name = os.fsdecode(ort.plain("ExternalInitializerInfo_GetFilePath", about) or b"")
        offset = ort.plain("ExternalInitializerInfo_GetFileOffset", about)
        nbytes = ort.plain("ExternalInitializerInfo_GetByteSize", about)
    finally:
        ort.plain("ReleaseExternalInitializerInfo", about)
    path, root = os.path.realpath(os.path.join(folder, name)), os.path.realpath(folder)
    below = bool(folder and name) and os.path.commonpath((path, root)) == root
    if not below or not nbytes or not os.path.isfile(path):
        return None  # ONNX Runtime says what is wrong, or has it from elsewhere
    return FileBytes(path, offset, nbytes)


def _bytes(ort: OrtFunctions, value: int) -> memoryview:
    size = ort.number(c_size_t, "GetTensorSizeInBytes", value)
    address = ort.pointer("GetTensorData", value)
    if not size:
        return memoryview(b"")
    return memoryview((ctypes.c_char * size).from_address(address)).cast("B")


class _Reader:
    def __init__(self, ort: OrtFunctions) -> None:
        self.ort = ort
        self.values: dict[str, Value] = {}
        self.constants: dict[str, Constant] = {}
        self.weights: set[str] = set()
        self._unnamed = 0

    def graph(self, graph: int) -> Model:
        ort = self.ort
        for info in ort.pointers(graph, "Graph_GetNumInitializers", "Graph_GetInitializers"):
            self._initializer(info)
        inputs = self._names(ort.pointers(graph, "Graph_GetNumInputs", "Graph_GetInputs"))
        outputs = self._names(ort.pointers(graph, "Graph_GetNumOutputs", "Graph_GetOutputs"))
        handles = ort.pointers(graph, "Graph_GetNumNodes", "Graph_GetNodes")
        named = [ort.text("Node_GetName", handle) for handle in handles]
        nodes = []
        for place, (handle, name) in enumerate(zip(handles, named, strict=True)):
            op = ort.text("Node_GetOperatorType", handle)
            unique = name and named.count(name) == 1
            nodes.append(self._node(handle, name if unique else f"{op}_{place}", op))
        return Model(
            nodes=tuple(nodes),
            values=self.values,
            constants=self.constants,
            weights=frozenset(self.weights),
            inputs=tuple(n for n in inputs if n not in self.weights | self.constants.keys()),
            outputs=tuple(outputs),
            opsets=self._opsets(graph),
            ir_version=ort.number(c_int64, "Graph_GetOnnxIRVersion", graph),
            nested=bool(ort.pointer("Graph_GetParentNode", graph)),
        )

    def _opsets(self, graph: int) -> dict[str, int]:
        size = self.ort.number(c_size_t, "Graph_GetNumOperatorSets", graph)
        names, versions = (ctypes.c_char_p * size)(), (c_int64 * size)()
        self.ort("Graph_GetOperatorSets", graph, names, versions, size)
        return {
            (n or b"").decode("utf-8", "replace"): v for n, v in zip(names, versions, strict=True)
        }

    def _names(self, infos: list[int]) -> tuple[str, ...]:
        return tuple(self._value(info) if info else "" for info in infos)

    def _value(self, info: int) -> str:
        name = self.ort.text("GetValueInfoName", info)
        if name and name not in self.values:
            self.values[name] = self._typed(name, self.ort.pointer("GetValueInfoTypeInfo", info))
        return name

    def _typed(self, name: str, kind: int) -> Value:
        tensor = self.ort.pointer("CastTypeInfoToTensorInfo", kind) if kind else 0
        if not tensor:
            return Value(name, None, None)
        element = ELEMENTS.get(self.ort.number(c_int32, "GetTensorElementType", tensor))
        return Value(name, element, self._dims(tensor))

    def _dims(self, tensor: int) -> tuple[Dim, ...] | None:
        ort = self.ort
        rank = ort.number(c_size_t, "GetDimensionsCount", tensor)
        if not rank:
            # Without the function of API 24 a value of unknown rank cannot be told from a scalar.
            return () if ort.has_shape(tensor) else None
        sizes, names = (c_int64 * rank)(), (ctypes.c_char_p * rank)()
        ort("GetDimensions", tensor, sizes, rank)
        ort("GetSymbolicDimensions", tensor, names, rank)
        dims: list[Dim] = []
        for size, symbol in zip(sizes, names, strict=True):
            dims.append(size if size >= 0 else (symbol or b"").decode("utf-8", "replace"))
        return tuple(dims)

    def _initializer(self, info: int) -> None:
        ort = self.ort
        name = self._value(info)
        value = self.values[name]
        data_type, dims = value.data_type, value.dims
        if dims is None and data_type is not None:
            # A scalar's rank is 0; of an initializer it is always known.
            value = self.values[name] = Value(name, data_type, ())
        constant = ort.number(c_bool, "ValueInfo_IsConstantInitializer", info)
        if data_type is None or not value.is_static or not constant:
            if constant:
                self.weights.add(name)
            return
        most = _MOST_FLOATS if data_type.value.kind == "float" else _MOST_INTEGERS
        if prod(value.shape) <= most and data_type.value.bits >= 8:
            held = ort.pointer("ValueInfo_GetInitializerValue", info)
            data = bytes(_bytes(ort, held)) if held else b""
            self.constants[name] = Constant(data_type, value.shape, data)
        else:
            self.weights.add(name)

    def _node(self, handle: int, label: str, op: str) -> Node:
        ort = self.ort
        attributes: dict[str, Attribute] = {}
        odd = []
        for address in ort.pointers(handle, "Node_GetNumAttributes", "Node_GetAttributes"):
            name = ort.text("OpAttr_GetName", address)
            found = self._attribute(address)
            if found is None:
                odd.append(name)
            else:
                attributes[name] = found
        captured: tuple[str, ...] = ()
        if ort.number(c_size_t, "Node_GetNumSubgraphs", handle):
            odd.append("subgraph")
            sources = "Node_GetNumImplicitInputs", "Node_GetImplicitInputs"
            captured = self._names(ort.pointers(handle, *sources))
        return Node(
            label=label,
            op=op,
            domain=ort.text("Node_GetDomain", handle),
            version=ort.number(c_int32, "Node_GetSinceVersion", handle),
            inputs=self._names(ort.pointers(handle, "Node_GetNumInputs", "Node_GetInputs")),
            outputs=self._names(ort.pointers(handle, "Node_GetNumOutputs", "Node_GetOutputs")),
            attributes=attributes,
            odd=tuple(odd),
            handle=handle,
            captured=captured,
        )

    def _attribute(self, address: int) -> Attribute | None:
        ort = self.ort
        kind = ort.number(c_int32, "OpAttr_GetType", address)
        match kind:
            case AttributeKind.INT:
                return int(c_int64.from_buffer_copy(self._raw(address, kind, 8)).value)
            case AttributeKind.FLOAT:
                return float(c_float.from_buffer_copy(self._raw(address, kind, 4)).value)
            case AttributeKind.INTS:
                raw = self._raw(address, kind)
                return tuple((c_int64 * (len(raw) // 8)).from_buffer_copy(raw)) if raw else ()
            case AttributeKind.FLOATS:
                raw = self._raw(address, kind)
                return tuple((c_float * (len(raw) // 4)).from_buffer_copy(raw)) if raw else ()
            case AttributeKind.STRING:
                return self._raw(address, kind).decode("utf-8", "surrogateescape")
            case AttributeKind.TENSOR:
                return self._tensor(ort.pointer("OpAttr_GetTensorAttributeAsOrtValue", address))
        return None

    def _raw(self, address: int, kind: int, size: int = 0) -> bytes:
        needed = c_size_t()
        if not size:
            size = self.ort.attribute_size(address, kind)
        memory = (ctypes.c_char * max(size, 1))()
        self.ort("ReadOpAttr", address, kind, memory, size, ctypes.byref(needed))
        return memory.raw[:size]

    def _tensor(self, value: int) -> Constant | None:
        ort = self.ort
        try:
            info = ort.pointer("GetTensorTypeAndShape", value)
            try:
                element = ELEMENTS.get(ort.number(c_int32, "GetTensorElementType", info))
                rank = ort.number(c_size_t, "GetDimensionsCount", info)
                sizes = (c_int64 * rank)()
                ort("GetDimensions", info, sizes, rank)
            finally:
                ort.plain("ReleaseTensorTypeAndShapeInfo", info)
            if element is None or element.value.bits < 8:
                return None
            return Constant(element, tuple(sizes), bytes(_bytes(ort, value)))
        finally:
            ort.plain("ReleaseValue", value)
