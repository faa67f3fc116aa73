# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""hipDNN's backend through its C interface: handles, descriptors, graphs, plans.

The calls and their order are those of hipDNN's own frontend.  A handle must not be used by two
threads at once, so everything that hangs on one is called under its lock.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Sequence
from ctypes import c_char_p, c_int, c_int64, c_size_t, c_void_p
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any

from .foreign_rules import MisfitError, problem
from .probe_report import Found

__all__ = ["RULES", "BackendHandle", "BackendPlan", "Hipdnn", "Pack"]

RULES: dict[str, str] = {
    "BACKEND-01": "hipDNN is installed: libhipdnn_backend.so is found, and loads",
    "BACKEND-02": "hipDNN has the functions that are used here, and takes graphs as bytes",
    "BACKEND-03": "hipDNN takes the graph and lists the engine for it",
    "BACKEND-04": "a call of hipDNN succeeds and gives what was asked for",
    "BACKEND-05": "nobody but its user and root may write hipDNN, or exchange a folder above it",
}

_P, _I, _N = c_void_p, c_int, c_int64
_REQUIRED: dict[str, tuple[Any, ...]] = {
    "hipdnnCreate": (_P,),
    "hipdnnDestroy": (_P,),
    "hipdnnSetStream": (_P, _P),
    "hipdnnBackendCreateDescriptor": (_I, _P),
    "hipdnnBackendDestroyDescriptor": (_P,),
    "hipdnnBackendSetAttribute": (_P, _I, _I, _N, _P),
    "hipdnnBackendGetAttribute": (_P, _I, _I, _N, _P, _P),
    "hipdnnBackendFinalize": (_P,),
    "hipdnnBackendExecute": (_P, _P, _P),
    "hipdnnBackendCreateAndDeserializeGraph_ext": (_P, c_char_p, c_size_t),
    "hipdnnGetErrorString": (_I,),
    "hipdnnGetLastErrorString": (_P, c_size_t),
}
_OPTIONAL: dict[str, tuple[Any, ...]] = {
    "hipdnnGetEngineCount_ext": (_P, _P),
    "hipdnnGetEngineInfo_ext": (_P, c_size_t, *(_P,) * 9),
    "hipdnnBackendGetSerializedExecutionPlan_ext": (_P, c_size_t, _P, _P),
    "hipdnnSetPluginUnloadMode_ext": (_I,),
    "hipdnnGetVersion_ext": (_P,),
}
# What came after November 2025; a backend without all of it reads the graphs of then.
_NEWER = tuple(_OPTIONAL)[:4]


class Type(IntEnum):
    """``hipdnnBackendDescriptorType_t``."""

    ENGINE = 1
    ENGINECFG = 2
    ENGINEHEUR = 3
    EXECUTION_PLAN = 4
    VARIANT_PACK = 11


class Name(IntEnum):
    """``hipdnnBackendAttributeName_t``."""

    ENGINEHEUR_MODE = 100
    ENGINEHEUR_OPERATION_GRAPH = 101
    ENGINEHEUR_RESULTS = 102
    ENGINECFG_ENGINE = 200
    EXECUTION_PLAN_HANDLE = 300
    EXECUTION_PLAN_ENGINE_CONFIG = 301
    EXECUTION_PLAN_WORKSPACE_SIZE = 302
    OPERATIONGRAPH_HANDLE = 600
    VARIANT_PACK_UNIQUE_IDS = 700
    VARIANT_PACK_DATA_POINTERS = 701
    VARIANT_PACK_WORKSPACE = 703
    VARIANT_PACK_OVERRIDE_UNIQUE_IDS = 704
    VARIANT_PACK_OVERRIDE_SHAPES = 705
    VARIANT_PACK_OVERRIDE_STRIDES = 706
    VARIANT_PACK_OVERRIDE_LENGTHS = 707
    ENGINE_OPERATION_GRAPH = 1000
    ENGINE_GLOBAL_INDEX = 1001


# ``hipdnnBackendAttributeType_t``, with the C type of an element.
_HANDLE, _INT64, _VOID_PTR = (0, c_void_p), (3, c_int64), (6, c_void_p)
_HEUR_MODE, _DESCRIPTOR = (7, c_int), (13, c_void_p)
_FALLBACK = 0  # the one mode of the backend
_MOST = 4096  # engines for a graph; a number above is taken for garbage
_LONGEST = 2048


class Hipdnn:
    """The library, loaded; it stays so until the process ends.

    Parameters
    ----------
    path : Path

    Raises
    ------
    MisfitError
        If it does not load (BACKEND-01), or lacks a function (BACKEND-02).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._so = ctypes.CDLL(str(path), mode=os.RTLD_NOW | os.RTLD_LOCAL)
        except OSError as error:
            wanted = "a library that loads"
            raise MisfitError(problem("BACKEND-01", "dlopen", error, wanted)) from None
        self._functions: dict[str, Any] = {}
        for name, kinds in (_REQUIRED | _OPTIONAL).items():
            function = getattr(self._so, name, None)
            if function is not None:
                function.argtypes, function.restype = kinds, c_int
                self._functions[name] = function
        missing = [name for name in _REQUIRED if name not in self._functions]
        if missing:
            wanted = "every function that is used here"
            got = f"no {', '.join(missing)}"
            raise MisfitError(problem("BACKEND-02", str(path), got, wanted))
        self._functions["hipdnnGetErrorString"].restype = c_char_p
        self._functions["hipdnnGetLastErrorString"].restype = None

    @property
    def era(self) -> str:
        """The wire format that it is taken to read."""
        return "node" if any(name in self._functions for name in _NEWER) else "n25"

    @property
    def version(self) -> str:
        """What hipDNN calls itself; empty where it does not tell."""
        slot, name = c_char_p(), "hipdnnGetVersion_ext"
        if name not in self._functions or self._functions[name](ctypes.addressof(slot)):
            return ""
        return (slot.value or b"").decode(errors="backslashreplace")

    def call(self, name: str, *arguments: Any, rule: str = "BACKEND-04") -> None:
        """Call a function and raise `MisfitError` with hipDNN's own text unless it succeeds."""
        status = self._functions[name](*arguments)
        if status:
            word = self._functions["hipdnnGetErrorString"](status) or b""
            text = ctypes.create_string_buffer(_LONGEST)
            self._functions["hipdnnGetLastErrorString"](ctypes.addressof(text), _LONGEST)
            said = " ".join(text.value.decode(errors="backslashreplace").split())
            got = f"status {status} ({word.decode(errors='backslashreplace')}): {said}"
            raise MisfitError(problem(rule, name, got, "success"))

    def quietly(self, name: str, *arguments: Any) -> None:
        """Call a function whose failure changes nothing."""
        self._functions[name](*arguments)

    def handle(self) -> BackendHandle:
        """Make a handle: hipDNN loads its plugins now, if it has not yet."""
        slot = c_void_p()
        self.call("hipdnnCreate", ctypes.addressof(slot))
        if not slot.value:
            raise MisfitError(problem("BACKEND-04", "hipdnnCreate", "a null handle", "a handle"))
        return BackendHandle(self, slot.value)


@dataclass
class BackendHandle:
    """A hipDNN handle."""

    hipdnn: Hipdnn
    address: int
    lock: threading.RLock = field(default_factory=threading.RLock)

    def set_stream(self, stream: int | None) -> None:
        """Let all later work go to a stream (``hipStream_t``)."""
        with self.lock:
            self.hipdnn.call("hipdnnSetStream", self.address, stream)

    def close(self) -> None:
        """Destroy the handle; everything that was made with it must be gone."""
        with self.lock:
            self.hipdnn.call("hipdnnDestroy", self.address)

    def engines(self) -> tuple[tuple[Found, str], ...]:
        """Return every engine with its plugin and version; nothing from hipDNN of 2025."""
        name = "hipdnnGetEngineInfo_ext"
        if not {name, "hipdnnGetEngineCount_ext"} <= self.hipdnn._functions.keys():
            return ()
        count = c_size_t()
        with self.lock:
            self.hipdnn.call("hipdnnGetEngineCount_ext", self.address, ctypes.addressof(count))
            if count.value > _MOST:
                got = f"{count.value} engines"
                raise MisfitError(problem("BACKEND-04", name, got, f"at most {_MOST}"))
            return tuple(self._engine(name, index) for index in range(count.value))

    def _engine(self, name: str, index: int) -> tuple[Found, str]:
        id = c_int64()
        sizes = [c_size_t() for _ in range(4)]  # engine, plugin, version, type

        def ask(texts: Sequence[Any]) -> None:
            pairs = [
                ctypes.addressof(part) if part is not None else None
                for pair in zip(texts, sizes, strict=True)
                for part in pair
            ]
            self.hipdnn.call(name, self.address, index, ctypes.addressof(id), *pairs)

        ask([None] * 4)
        texts = [ctypes.create_string_buffer(min(size.value, _LONGEST) + 1) for size in sizes]
        ask(texts)
        engine, plugin, version, _ = (t.value.decode(errors="backslashreplace") for t in texts)
        return Found(id.value, engine), f"{plugin} {version}".strip()

    # ------------------------------------------------------------------ graphs and plans

    def graph(self, data: bytes) -> Descriptor:
        """Return a finalized operation graph of its bytes."""
        slot, name = c_void_p(), "hipdnnBackendCreateAndDeserializeGraph_ext"
        with self.lock:
            self.hipdnn.call(name, ctypes.addressof(slot), data, len(data), rule="BACKEND-03")
            graph = Descriptor(self, _given(name, slot.value))
            try:
                graph.set(Name.OPERATIONGRAPH_HANDLE, _HANDLE, [self.address])
                graph.finalize("BACKEND-03")
            except BaseException:
                graph.close()
                raise
        return graph

    def ranked(self, graph: Descriptor) -> list[int]:
        """Return the engines that serve a graph, as hipDNN's heuristics order them."""
        with self.lock, self.descriptor(Type.ENGINEHEUR) as heuristic:
            heuristic.set(Name.ENGINEHEUR_OPERATION_GRAPH, _DESCRIPTOR, [graph.address])
            heuristic.set(Name.ENGINEHEUR_MODE, _HEUR_MODE, [_FALLBACK])
            heuristic.finalize("BACKEND-03")
            count = heuristic.count(Name.ENGINEHEUR_RESULTS, _DESCRIPTOR)
            if not 0 <= count <= _MOST:
                got = f"{count} results"
                raise MisfitError(problem("BACKEND-04", "heuristics", got, f"at most {_MOST}"))
            configs: list[Descriptor] = []
            try:
                configs += [self.descriptor(Type.ENGINECFG) for _ in range(count)]
                if configs:
                    given = [config.address for config in configs]
                    heuristic.get(Name.ENGINEHEUR_RESULTS, _DESCRIPTOR, count, given)
                return [self._engine_of(config) for config in configs]
            finally:
                for config in configs:
                    config.close()

    def _engine_of(self, config: Descriptor) -> int:
        config.finalize()
        (address,) = config.get(Name.ENGINECFG_ENGINE, _DESCRIPTOR, 1)
        with Descriptor(self, _given("ENGINECFG_ENGINE", address)) as engine:
            (id,) = engine.get(Name.ENGINE_GLOBAL_INDEX, _INT64, 1)
            return int(id)

    def plan(self, data: bytes, engine_id: int) -> BackendPlan:
        """Build a plan of one engine, and of no other."""
        made: list[Descriptor] = []
        with self.lock:
            try:
                graph = self.graph(data)
                made.append(graph)
                engine = self.descriptor(Type.ENGINE)
                made.append(engine)
                engine.set(Name.ENGINE_OPERATION_GRAPH, _DESCRIPTOR, [graph.address])
                engine.set(Name.ENGINE_GLOBAL_INDEX, _INT64, [engine_id])
                engine.finalize("BACKEND-03")
                config = self.descriptor(Type.ENGINECFG)
                made.append(config)
                config.set(Name.ENGINECFG_ENGINE, _DESCRIPTOR, [engine.address])
                config.finalize()
                plan = self.descriptor(Type.EXECUTION_PLAN)
                made.append(plan)
                # hipDNN of November 2025 wants the handle here; later it is not looked at.
                plan.try_set(Name.EXECUTION_PLAN_HANDLE, _HANDLE, [self.address])
                plan.set(Name.EXECUTION_PLAN_ENGINE_CONFIG, _DESCRIPTOR, [config.address])
                plan.finalize()
                (nbytes,) = plan.get(Name.EXECUTION_PLAN_WORKSPACE_SIZE, _INT64, 1)
            except BaseException:
                for descriptor in reversed(made):
                    descriptor.close()
                raise
        return BackendPlan(self, plan, made, int(nbytes))

    def descriptor(self, kind: Type) -> Descriptor:
        """Make an empty descriptor."""
        slot, name = c_void_p(), "hipdnnBackendCreateDescriptor"
        self.hipdnn.call(name, int(kind), ctypes.addressof(slot))
        return Descriptor(self, _given(name, slot.value))


class Descriptor:
    """A backend descriptor; the caller holds the handle's lock."""

    def __init__(self, handle: BackendHandle, address: int) -> None:
        self._hipdnn = handle.hipdnn
        self.address = address

    def __enter__(self) -> Descriptor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def set(self, name: Name, kind: tuple[int, Any], values: Sequence[Any]) -> None:
        """Set an attribute."""
        array = (kind[1] * len(values))(*values)
        where = int(name), kind[0], len(values), ctypes.addressof(array)
        self._hipdnn.call("hipdnnBackendSetAttribute", self.address, *where)

    def try_set(self, name: Name, kind: tuple[int, Any], values: Sequence[Any]) -> None:
        """Set an attribute that some versions do not have."""
        array = (kind[1] * len(values))(*values)
        where = int(name), kind[0], len(values), ctypes.addressof(array)
        self._hipdnn.quietly("hipdnnBackendSetAttribute", self.address, *where)

    def count(self, name: Name, kind: tuple[int, Any]) -> int:
        """Return how many elements an attribute has."""
        found = c_int64()
        where = int(name), kind[0], 0, ctypes.addressof(found), None
        self._hipdnn.call("hipdnnBackendGetAttribute", self.address, *where)
        return found.value

    def get(
        self, name: Name, kind: tuple[int, Any], count: int, given: Sequence[Any] = ()
    ) -> list[Any]:
        """Return ``count`` elements of an attribute; ``given`` is what the array holds before."""
        array, found = (kind[1] * count)(*given), c_int64(count)
        where = int(name), kind[0], count, ctypes.addressof(found), ctypes.addressof(array)
        self._hipdnn.call("hipdnnBackendGetAttribute", self.address, *where)
        if found.value != count:
            got = f"{found.value} elements of {name.name}"
            raise MisfitError(problem("BACKEND-04", "GetAttribute", got, str(count)))
        return list(array)

    def finalize(self, rule: str = "BACKEND-04") -> None:
        """Finalize; what it means depends on the kind of descriptor."""
        self._hipdnn.call("hipdnnBackendFinalize", self.address, rule=rule)

    def close(self) -> None:
        """Destroy the descriptor."""
        address, self.address = self.address, 0
        if address:
            self._hipdnn.call("hipdnnBackendDestroyDescriptor", address)


class Pack:
    """Buffers for executions of a plan: a variant pack."""

    def __init__(
        self,
        plan: BackendPlan,
        pairs: Sequence[tuple[int, int]],
        workspace: int | None,
        overrides: Sequence[tuple[int, Sequence[int], Sequence[int]]],
    ) -> None:
        self._plan = plan
        with plan.handle.lock:
            pack = self.descriptor = plan.handle.descriptor(Type.VARIANT_PACK)
            pack.set(Name.VARIANT_PACK_UNIQUE_IDS, _INT64, [uid for uid, _ in pairs])
            pack.set(Name.VARIANT_PACK_DATA_POINTERS, _VOID_PTR, [at for _, at in pairs])
            pack.set(Name.VARIANT_PACK_WORKSPACE, _VOID_PTR, [workspace])
            if overrides:
                uids, dims, strides = zip(*overrides, strict=True)
                pack.set(Name.VARIANT_PACK_OVERRIDE_UNIQUE_IDS, _INT64, uids)
                pack.set(Name.VARIANT_PACK_OVERRIDE_SHAPES, _INT64, [n for d in dims for n in d])
                flat = [n for s in strides for n in s]
                pack.set(Name.VARIANT_PACK_OVERRIDE_STRIDES, _INT64, flat)
                pack.set(Name.VARIANT_PACK_OVERRIDE_LENGTHS, _INT64, [len(d) for d in dims])
            pack.finalize()

    def execute(self) -> None:
        """Execute; on a GPU it is enqueued on the handle's stream."""
        plan = self._plan
        with plan.handle.lock:
            where = plan.handle.address, plan.descriptor.address, self.descriptor.address
            plan.handle.hipdnn.call("hipdnnBackendExecute", *where)

    def close(self) -> None:
        """Destroy the pack; the plan must still live."""
        with self._plan.handle.lock:
            self.descriptor.close()


@dataclass
class BackendPlan:
    """A finalized execution plan with all that it was made of."""

    handle: BackendHandle
    descriptor: Descriptor
    made: list[Descriptor]
    workspace_bytes: int

    def close(self) -> None:
        """Destroy plan, configuration, engine and graph, in this order."""
        with self.handle.lock:
            for descriptor in reversed(self.made):
                descriptor.close()


def _given(name: str, address: int | None) -> int:
    if not address:
        raise MisfitError(problem("BACKEND-04", name, "a null descriptor", "a descriptor"))
    return address
