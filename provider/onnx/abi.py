# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ONNX Runtime's C interface as Python calls it: tables of functions by index, and the table of C.

Sources: the public headers of API versions 23 to 30, whose tables only grow.  ``native/ep.c`` has
the structures that are given to ONNX Runtime.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import suppress
from ctypes import (
    CFUNCTYPE,
    POINTER,
    PYFUNCTYPE,
    c_bool,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_void_p,
)
from enum import IntEnum
from functools import cached_property
from typing import Any

from ...graph_api.dtypes import DataType
from ...graph_api.errors import BindError, NotSupportedError, SettingError
from ..native.table import HOST_FIELDS

__all__ = [
    "ELEMENTS",
    "FUNCTIONS",
    "TABLE_VERSION",
    "VENDOR_ID",
    "AttributeKind",
    "Code",
    "EpTable",
    "OrtError",
    "OrtFunctions",
    "RefusedError",
    "status_of",
]

TABLE_VERSION = 2
API_VERSION = 23
VENDOR_ID = 0x1002

FUNCTIONS = (
    *("create_factory", "release_factory", "supported_devices", "create_ep", "release_ep"),
    *("capability", "compile", "release_nodes", "create_allocator", "allocate", "release"),
    *("statistics", "copy_tensors", "create_stream", "release_stream", "flush_stream"),
    *("create_event", "release_event", "record_event", "await_event"),
)
"""What C calls in Python, in the order of ``FORWARDED`` in ``native/ep.c``."""


class EpTable(ctypes.Structure):
    """``struct table`` of ``native/ep.c``."""

    _fields_ = (
        *HOST_FIELDS,
        *((name, c_void_p) for name in FUNCTIONS),
        (
            "make_node",
            PYFUNCTYPE(c_void_p, c_void_p, c_void_p, c_int32, c_int32, c_int32, POINTER(c_int64)),
        ),
    )


class Code(IntEnum):
    """``OrtErrorCode``, of those that are answered."""

    FAIL = 1
    INVALID_ARGUMENT = 2
    NOT_IMPLEMENTED = 9
    NOT_FOUND = 14


class OrtError(Exception):
    """A call of ONNX Runtime's that failed, with its code."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class RefusedError(OrtError):
    """A call of ONNX Runtime to us that is refused, with the code that it gets."""


def status_of(error: BaseException) -> Code:
    """Return the code for an error; never EP_FAIL, which hides it."""
    if isinstance(error, RefusedError):
        return Code(error.code)
    return next((code for kind, code in _CODES if isinstance(error, kind)), Code.FAIL)


_CODES: tuple[tuple[type[BaseException], Code], ...] = (
    (SettingError, Code.INVALID_ARGUMENT),
    (BindError, Code.INVALID_ARGUMENT),
    (NotSupportedError, Code.NOT_IMPLEMENTED),
)


class AttributeKind(IntEnum):
    """``OrtOpAttrType``."""

    INT = 1
    INTS = 2
    FLOAT = 3
    FLOATS = 4
    STRING = 5
    STRINGS = 6
    GRAPH = 7
    TENSOR = 8


ELEMENTS: dict[int, DataType] = {
    1: DataType.FLOAT,
    2: DataType.UINT8,
    3: DataType.INT8,
    6: DataType.INT32,
    7: DataType.INT64,
    9: DataType.BOOLEAN,
    10: DataType.HALF,
    11: DataType.DOUBLE,
    16: DataType.BFLOAT16,
    17: DataType.FP8_E4M3,
    18: DataType.FP8_E4M3_FNUZ,
    19: DataType.FP8_E5M2,
    20: DataType.FP8_E5M2_FNUZ,
    22: DataType.INT4,
}
"""``ONNXTensorElementDataType`` -> the type of a hipDNN graph."""

_P, _S = c_void_p, c_char_p
_PP, _PS = POINTER(c_void_p), POINTER(c_char_p)
_PN, _PI, _PL = POINTER(c_size_t), POINTER(c_int32), POINTER(c_int64)

# Name -> index, parameters.  These return a status; `_PLAIN` return something else.
_STATUS: dict[str, tuple[int, tuple[Any, ...]]] = {
    "GetTensorMutableData": (51, (_P, _PP)),
    "CastTypeInfoToTensorInfo": (55, (_P, _PP)),
    "GetTensorElementType": (60, (_P, _PI)),
    "GetDimensionsCount": (61, (_P, _PN)),
    "GetDimensions": (62, (_P, _PL, c_size_t)),
    "GetSymbolicDimensions": (63, (_P, _PS, c_size_t)),
    "GetTensorTypeAndShape": (65, (_P, _PP)),
    "MemoryInfoGetId": (72, (_P, _PI)),
    "KernelContext_GetOutput": (91, (_P, c_size_t, _PL, c_size_t, _PP)),
    "KernelContext_GetGPUComputeStream": (193, (_P, _PP)),
    "CreateOpAttr": (211, (_S, _P, c_int, c_int, _PP)),
    "Logger_LogMessage": (247, (_P, c_int, _S, _S, c_int, _S)),
    "Logger_GetLoggingSeverityLevel": (248, (_P, _PI)),
    "ReadOpAttr": (272, (_P, c_int, _P, c_size_t, _PN)),
    "GetValueInfoName": (289, (_P, _PS)),
    "GetValueInfoTypeInfo": (290, (_P, _PP)),
    "GetTensorSizeInBytes": (318, (_P, _PN)),
    "CreateMemoryInfo_V2": (
        320,
        (_S, c_int, c_uint32, c_int32, c_int, c_size_t, c_int, _PP),
    ),
    "ValueInfo_GetInitializerValue": (326, (_P, _PP)),
    "ValueInfo_GetExternalInitializerInfo": (327, (_P, _PP)),
    "ValueInfo_IsConstantInitializer": (331, (_P, POINTER(c_bool))),
    "Graph_GetName": (333, (_P, _PS)),
    "Graph_GetModelPath": (334, (_P, _PP)),
    "Graph_GetOnnxIRVersion": (335, (_P, _PL)),
    "Graph_GetNumOperatorSets": (336, (_P, _PN)),
    "Graph_GetOperatorSets": (337, (_P, _PS, _PL, c_size_t)),
    "Graph_GetNumInputs": (338, (_P, _PN)),
    "Graph_GetInputs": (339, (_P, _PP, c_size_t)),
    "Graph_GetNumOutputs": (340, (_P, _PN)),
    "Graph_GetOutputs": (341, (_P, _PP, c_size_t)),
    "Graph_GetNumInitializers": (342, (_P, _PN)),
    "Graph_GetInitializers": (343, (_P, _PP, c_size_t)),
    "Graph_GetNumNodes": (344, (_P, _PN)),
    "Graph_GetNodes": (345, (_P, _PP, c_size_t)),
    "Graph_GetParentNode": (346, (_P, _PP)),
    "Node_GetName": (349, (_P, _PS)),
    "Node_GetOperatorType": (350, (_P, _PS)),
    "Node_GetDomain": (351, (_P, _PS)),
    "Node_GetSinceVersion": (352, (_P, _PI)),
    "Node_GetNumInputs": (353, (_P, _PN)),
    "Node_GetInputs": (354, (_P, _PP, c_size_t)),
    "Node_GetNumOutputs": (355, (_P, _PN)),
    "Node_GetOutputs": (356, (_P, _PP, c_size_t)),
    "Node_GetNumAttributes": (359, (_P, _PN)),
    "Node_GetAttributes": (360, (_P, _PP, c_size_t)),
    "OpAttr_GetTensorAttributeAsOrtValue": (362, (_P, _PP)),
    "OpAttr_GetType": (363, (_P, _PI)),
    "OpAttr_GetName": (364, (_P, _PS)),
    "Node_GetNumImplicitInputs": (357, (_P, _PN)),
    "Node_GetImplicitInputs": (358, (_P, _PP, c_size_t)),
    "Node_GetNumSubgraphs": (365, (_P, _PN)),
    "Node_GetEpName": (368, (_P, _PS)),
    "GetTensorData": (378, (_P, _PP)),
    "GetSessionOptionsConfigEntries": (379, (_P, _PP)),
}
_PLAIN: dict[str, tuple[int, Any, tuple[Any, ...]]] = {
    "GetErrorCode": (1, c_int, (_P,)),
    "GetErrorMessage": (2, _S, (_P,)),
    "ReleaseStatus": (93, None, (_P,)),
    "ReleaseMemoryInfo": (94, None, (_P,)),
    "ReleaseValue": (96, None, (_P,)),
    "ReleaseTensorTypeAndShapeInfo": (99, None, (_P,)),
    "MemoryInfoGetDeviceType": (225, None, (_P, _PI)),
    "GetModelEditorApi": (291, _P, ()),
    "CreateKeyValuePairs": (295, None, (_PP,)),
    "AddKeyValuePair": (296, None, (_P, _S, _S)),
    "GetKeyValue": (297, _S, (_P, _S)),
    "GetKeyValuePairs": (298, None, (_P, POINTER(_PS), POINTER(_PS), _PN)),
    "ReleaseKeyValuePairs": (300, None, (_P,)),
    "HardwareDevice_Type": (307, c_int, (_P,)),
    "HardwareDevice_VendorId": (308, c_uint32, (_P,)),
    "HardwareDevice_DeviceId": (310, c_uint32, (_P,)),
    "HardwareDevice_Metadata": (311, _P, (_P,)),
    "GetEpApi": (317, _P, ()),
    "MemoryInfoGetVendorId": (322, c_uint32, (_P,)),
    "ReleaseExternalInitializerInfo": (369, None, (_P,)),
    "ExternalInitializerInfo_GetFilePath": (370, _S, (_P,)),
    "ExternalInitializerInfo_GetFileOffset": (371, c_int64, (_P,)),
    "ExternalInitializerInfo_GetByteSize": (372, c_size_t, (_P,)),
    "TensorTypeAndShape_HasShape": (390, c_bool, (_P,)),  # of version 24
}
_EP_STATUS: dict[str, tuple[int, tuple[Any, ...]]] = {
    "CreateEpDevice": (0, (_P, _P, _P, _P, _PP)),
    "EpGraphSupportInfo_AddNodesToFuse": (2, (_P, _PP, c_size_t, _P)),
    "EpDevice_AddAllocatorInfo": (5, (_P, _P)),
    "CreateHardwareDevice": (16, (c_int, c_uint32, c_uint32, _S, _P, _PP)),  # of version 24
}
_EP_PLAIN: dict[str, tuple[int, Any, tuple[Any, ...]]] = {
    "ReleaseEpDevice": (1, None, (_P,)),
    "Value_GetMemoryDevice": (7, _P, (_P,)),
    "MemoryDevice_GetDeviceType": (9, c_int, (_P,)),
    "MemoryDevice_GetDeviceId": (12, c_uint32, (_P,)),
    "SyncStream_GetImpl": (13, _P, (_P,)),
    "ReleaseHardwareDevice": (17, None, (_P,)),
}
_EDITOR_STATUS: dict[str, tuple[int, tuple[Any, ...]]] = {
    "CreateNode": (6, (_S, _S, _S, _PS, c_size_t, _PS, c_size_t, _PP, c_size_t, _PP)),
}


class _FusionOptions(ctypes.Structure):
    """``OrtNodeFusionOptions``."""

    _fields_ = (("version", c_uint32), ("drop_constant_initializers", c_bool))


class OrtFunctions:
    """The functions of one ONNX Runtime; a process may hold several.

    Parameters
    ----------
    address : int
        Of its table, as the host has given it for version 23.
    base : int
        Of the host's ``GetApi``, which tells what else it knows.
    """

    def __init__(self, address: int, base: int = 0) -> None:
        self.address = address
        self.base = base
        self._known: dict[str, Callable[..., Any]] = {}

    @cached_property
    def _ep_address(self) -> int:
        return int(self.plain("GetEpApi"))

    @cached_property
    def _editor_address(self) -> int:
        return int(self.plain("GetModelEditorApi"))

    def plain(self, name: str, *arguments: Any) -> Any:
        """Call a function that returns no status."""
        found = self._known.get(name)
        if found is None:
            if name in _PLAIN:
                index, kind, kinds = _PLAIN[name]
                found = self._at(self.address, index, kind, kinds)
            else:
                index, kind, kinds = _EP_PLAIN[name]
                found = self._at(self._ep_address, index, kind, kinds)
            self._known[name] = found
        return found(*arguments)

    def __call__(self, name: str, *arguments: Any) -> None:
        """Call a function that returns a status.

        Raises
        ------
        OrtError
            With its code and text.
        """
        found = self._known.get(name)
        if found is None:
            if name in _STATUS:
                table, (index, kinds) = self.address, _STATUS[name]
            elif name in _EP_STATUS:
                table, (index, kinds) = self._ep_address, _EP_STATUS[name]
            else:
                table, (index, kinds) = self._editor_address, _EDITOR_STATUS[name]
            found = self._known[name] = self._at(table, index, c_void_p, kinds)
        status = found(*arguments)
        if status:
            text = (self.plain("GetErrorMessage", status) or b"").decode("utf-8", "replace")
            code = self.plain("GetErrorCode", status)
            self.plain("ReleaseStatus", status)
            raise OrtError(code, f"{name}: {text}")

    @staticmethod
    def _at(table: int, index: int, kind: Any, kinds: tuple[Any, ...]) -> Callable[..., Any]:
        slot = c_void_p.from_address(table + 8 * index)
        made: Callable[..., Any] = CFUNCTYPE(kind, *kinds)(slot.value or 0)
        return made

    # ------------------------------------------------------------------ results as Python values

    def pointer(self, name: str, *arguments: Any) -> int:
        """Return the pointer that a function stores; 0 for null."""
        out = c_void_p()
        self(name, *arguments, ctypes.byref(out))
        return out.value or 0

    def text(self, name: str, *arguments: Any) -> str:
        """Return the text that a function stores."""
        out = c_char_p()
        self(name, *arguments, ctypes.byref(out))
        return (out.value or b"").decode("utf-8", "surrogateescape")

    def number(self, kind: Any, name: str, *arguments: Any) -> int:
        """Return the number of some C type that a function stores."""
        out = kind()
        self(name, *arguments, ctypes.byref(out))
        return int(out.value)

    def pointers(self, owner: int, count: str, get: str) -> list[int]:
        """Return the pointers of an array that is fetched by two functions."""
        size = self.number(c_size_t, count, owner)
        out = (c_void_p * size)()
        if size:
            self(get, owner, out, size)
        return [p or 0 for p in out]

    def pairs(self, address: int | None) -> dict[str, str]:
        """Return the entries of an ``OrtKeyValuePairs``."""
        if not address:
            return {}
        keys, values, count = _PS(), _PS(), c_size_t()
        self.plain(
            "GetKeyValuePairs",
            address,
            ctypes.byref(keys),
            ctypes.byref(values),
            ctypes.byref(count),
        )
        return {
            (keys[i] or b"").decode("utf-8", "replace"): (values[i] or b"").decode(
                "utf-8", "replace"
            )
            for i in range(count.value)
        }

    def attribute_size(self, attribute: int, kind: int) -> int:
        """Return the bytes of an attribute's value, which an error comes with."""
        needed = c_size_t()
        with suppress(OrtError):
            self("ReadOpAttr", attribute, kind, None, 0, ctypes.byref(needed))
        return needed.value

    @cached_property
    def newer(self) -> bool:
        """Whether it has the functions of version 24."""
        return bool(self.base and CFUNCTYPE(c_void_p, c_uint32)(self.base)(24))

    def has_shape(self, tensor: int) -> bool:
        """Whether a tensor without dims is known to be a scalar."""
        return self.newer and bool(self.plain("TensorTypeAndShape_HasShape", tensor))

    def fuse(self, info: int, nodes: list[int]) -> None:
        """Claim nodes as one group, whose initializers are kept by us."""
        options = _FusionOptions(API_VERSION, True)
        handles = (c_void_p * len(nodes))(*nodes)
        self("EpGraphSupportInfo_AddNodesToFuse", info, handles, len(nodes), ctypes.byref(options))

    def new_pairs(self, entries: dict[str, str]) -> int:
        """Return new ``OrtKeyValuePairs``, which the caller releases."""
        out = c_void_p()
        self.plain("CreateKeyValuePairs", ctypes.byref(out))
        for key, value in entries.items():
            self.plain("AddKeyValuePair", out, key.encode(), value.encode())
        return out.value or 0
