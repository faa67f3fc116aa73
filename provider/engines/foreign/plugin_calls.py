# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One engine plugin through its C interface: loaded by hipDNN's rules, answers checked before use.

Everything here trusts the plugin with the process; `probe` uses it in a process of its own first.
Statuses and null or impossible answers become `MisfitError` with the plugin's own text, which is
read at once on the same thread.  Calls on one `Handle` wait for one another; different handles
may be used by different threads at the same time.
"""

from __future__ import annotations

import ctypes
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import c_char_p, c_int, c_int64, c_size_t, c_uint32, c_void_p
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....graph_api.errors import FormatError
from ...plugin_abi import (
    ENGINE_FUNCTIONS,
    PLUGIN_FUNCTIONS,
    ConstData,
    DeviceBuffer,
    Severity,
    Status,
)
from .foreign_rules import MisfitError, problem
from .log_sink import Sink

if TYPE_CHECKING:
    from ....graph_api.formats.flatbuffer.engine_messages import EngineDetails

__all__ = [
    "OPTIONAL",
    "REQUIRED",
    "Context",
    "Handle",
    "Library",
    "Overrides",
    "device_buffers",
    "version_of",
]

_NAMES = {**PLUGIN_FUNCTIONS, **ENGINE_FUNCTIONS}

REQUIRED = (
    *list(PLUGIN_FUNCTIONS)[:4],
    *(
        f"hipdnnEnginePlugin{name}"
        for name in (
            *("GetAllEngineIds", "Create", "Destroy", "SetStream", "GetApplicableEngineIds"),
            *("GetEngineDetails", "DestroyEngineDetails", "GetWorkspaceSize"),
            *("CreateExecutionContext", "DestroyExecutionContext"),
            *("GetWorkspaceSizeFromExecutionContext", "ExecuteOpGraph"),
        )
    ),
)
"""Functions without which hipDNN does not load a plugin (of engine API 1.x)."""

OPTIONAL = tuple(name for name in _NAMES if name not in REQUIRED)

_ENGINE_TYPE = 1  # HIPDNN_PLUGIN_TYPE_ENGINE
_MOST_ENGINES = 4096  # a number above is taken for garbage
_LONGEST = 2047  # characters of an error text
_LONGEST_NAME = 500
_MOST_BYTES = 64 << 20  # of details
_MOST_WORKSPACE = 1 << 48
_VERSION = re.compile(r"(\d{1,5})\.(\d{1,5})\.(\d{1,5})")


def version_of(text: str) -> tuple[int, int, int] | None:
    """Return the numbers of ``MAJOR.MINOR.PATCH``, or None for any other text."""
    match = _VERSION.fullmatch(text)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


class Library:
    """A plugin that has been loaded; it stays so until the process ends.

    Parameters
    ----------
    path : Path

    Attributes
    ----------
    path : Path
    has : frozenset of str
        Names of the functions that were found.
    name, version, api_version : str
        As the plugin says; ``"1.0.0"`` for a plugin that does not tell its API.
    ids : tuple of int
        Engine ids, sorted.
    names : dict of int to str
        Names of engines that have one, as they are given: not checked.

    Raises
    ------
    MisfitError
        If it cannot be loaded, lacks a function (FOREIGN-02), is of another kind (FOREIGN-03),
        or answers wrongly (FOREIGN-05, FOREIGN-11).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._questions: Handle | None = None
        try:
            # As hipDNN of 2026 opens it; what it needs is not seen by others, and never unloaded.
            self._so = ctypes.CDLL(str(path), mode=os.RTLD_NOW | os.RTLD_LOCAL)
        except OSError as error:
            found = problem("FOREIGN-02", "dlopen", error, "a library that loads")
            raise MisfitError(found) from None
        self._functions: dict[str, Any] = {}
        for name, kinds in _NAMES.items():
            function = getattr(self._so, name, None)
            if function is not None:
                function.argtypes, function.restype = kinds, c_int
                self._functions[name] = function
        self.has = frozenset(self._functions)
        missing = [name for name in REQUIRED if name not in self.has]
        if missing:
            wanted = "every function that hipDNN requires"
            got = f"no {', '.join(missing)}"
            raise MisfitError(problem("FOREIGN-02", "symbols", got, wanted))
        self._functions["hipdnnPluginGetLastErrorString"].restype = None
        kind = c_int(-1)
        self.call("hipdnnPluginGetType", ctypes.addressof(kind))
        if kind.value != _ENGINE_TYPE:
            wanted = f"{_ENGINE_TYPE} (ENGINE)"
            raise MisfitError(problem("FOREIGN-03", "hipdnnPluginGetType", kind.value, wanted))
        self.name = self._text("hipdnnPluginGetName")
        self.version = self._text("hipdnnPluginGetVersion")
        self.api_version = "1.0.0"
        if "hipdnnPluginGetApiVersion" in self.has:
            self.api_version = self._text("hipdnnPluginGetApiVersion")
        numbers = version_of(self.api_version)
        if numbers is None or numbers[0] > 1:
            wanted = "0.x.y or 1.x.y, the engine API that is known here"
            raise MisfitError(
                problem("FOREIGN-03", "hipdnnPluginGetApiVersion", self.api_version, wanted)
            )
        self._attach()
        self.ids = self._all_ids()
        names = {id: self._engine_name(id) for id in self.ids}
        self.names = {id: name for id, name in names.items() if name is not None}

    # ------------------------------------------------------------------ calls

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function and raise `MisfitError` unless it answers SUCCESS."""
        status = self._functions[name](*arguments)
        if status:
            raise self.refusal(name, status)

    def refusal(self, name: str, status: int) -> MisfitError:
        """Return the error for a status, with the plugin's text; to be called at once."""
        known = [s.name for s in Status if s == status]
        text = self.last_error()
        got = f"status {status} ({known[0] if known else 'unknown'})"
        return MisfitError(
            problem("FOREIGN-11", name, f"{got}: {text}" if text else got, "SUCCESS")
        )

    def last_error(self) -> str:
        """Return what the plugin says of the call that failed last on this thread."""
        slot = c_char_p()
        self._functions["hipdnnPluginGetLastErrorString"](ctypes.addressof(slot))
        return _plain(slot.value or b"", _LONGEST)

    def set_log_level(self, severity: Severity) -> None:
        """Say from which severity on the plugin shall log; it may not listen."""
        function = self._functions.get("hipdnnPluginSetLogLevel")
        if function is not None:
            function(int(severity))

    def _attach(self) -> None:
        setter = self._functions.get("hipdnnPluginSetLoggingCallback")
        if setter is not None:
            Sink(self.name).attach(setter)
        self.set_log_level(Severity.WARN)

    def _text(self, name: str) -> str:
        slot = c_char_p()
        self.call(name, ctypes.addressof(slot))
        if slot.value is None:
            raise MisfitError(problem("FOREIGN-11", name, "a null pointer", "a text"))
        return _plain(slot.value, _LONGEST_NAME)

    def _engine_name(self, id: int) -> str | None:
        name = "hipdnnEnginePluginGetEngineName"
        if name not in self.has:
            return None
        slot = c_char_p()
        status = self._functions[name](id, ctypes.addressof(slot))
        if status == Status.NOT_APPLICABLE:
            return None
        if status:
            raise self.refusal(name, status)
        if slot.value is None:
            raise MisfitError(problem("FOREIGN-11", name, "a null pointer", "a text"))
        return slot.value.decode(errors="backslashreplace")

    def _all_ids(self) -> tuple[int, ...]:
        name = "hipdnnEnginePluginGetAllEngineIds"
        count = c_uint32(0)
        self.call(name, None, 0, ctypes.addressof(count))
        total = count.value
        if not 0 < total <= _MOST_ENGINES:
            wanted = f"1 to {_MOST_ENGINES}"
            raise MisfitError(problem("FOREIGN-05", name, f"{total} engines", wanted))
        ids = (c_int64 * total)()
        self.call(name, ctypes.addressof(ids), total, ctypes.addressof(count))
        if count.value != total:
            got = f"{total} engines, then {count.value}"
            raise MisfitError(problem("FOREIGN-05", name, got, "the same number twice"))
        twice = sorted({f"{id:#x}" for id in ids if list(ids).count(id) > 1})
        if twice:
            got = f"{', '.join(twice)} more than once"
            raise MisfitError(problem("FOREIGN-05", name, got, "each id once"))
        return tuple(sorted(ids))

    def questions(self) -> Handle:
        """Return the handle on which questions are asked, which is kept."""
        with self._lock:
            if self._questions is None:
                self._questions = self.handle()
            return self._questions

    def handle(self) -> Handle:
        """Make a handle: ``hipdnnEnginePluginCreate``."""
        return Handle(self)


# Handles that live now, by address: no two may have one value, whoever gives them out.
_live: dict[int, Path] = {}
_live_lock = threading.Lock()


class Handle:
    """A plugin's side of a hipDNN handle; destroy it with `close`."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self._lock = threading.RLock()
        self._pid = os.getpid()
        slot = c_void_p()
        name = "hipdnnEnginePluginCreate"
        library.call(name, ctypes.addressof(slot))
        if not slot.value:
            raise MisfitError(problem("FOREIGN-11", name, "a null handle", "a handle"))
        with _live_lock:
            owner = _live.get(slot.value)
            if owner is None:
                _live[slot.value] = library.path
        if owner is not None:
            got = f"the handle {slot.value:#x}, which {owner} has given out"
            raise MisfitError(problem("FOREIGN-11", name, got, "a handle of its own"))
        self.address: int | None = slot.value

    def close(self) -> None:
        """Destroy the handle; nothing happens in a forked child, and the second time."""
        with self._lock:
            address, self.address = self.address, None
        if address is None or os.getpid() != self._pid:
            return
        with _live_lock:
            _live.pop(address, None)
        self.library.call("hipdnnEnginePluginDestroy", address)

    @contextmanager
    def _held(self) -> Iterator[int]:
        with self._lock:
            if self.address is None or os.getpid() != self._pid:
                got = "a handle that was closed, or made before a fork"
                raise MisfitError(problem("FOREIGN-11", "handle", got, "a living handle"))
            yield self.address

    def set_stream(self, stream: int | None) -> None:
        """Let all later executions go to a stream (``hipStream_t``)."""
        with self._held() as handle:
            self.library.call("hipdnnEnginePluginSetStream", handle, stream)

    def applicable(self, graph: bytes) -> tuple[int, ...]:
        """Return the ids of the engines that serve a graph."""
        name = "hipdnnEnginePluginGetApplicableEngineIds"
        own = self.library.ids
        data, count, ids = _Bytes(graph), c_uint32(0), (c_int64 * len(own))()
        with self._held() as handle:
            where = ctypes.addressof(ids), len(own), ctypes.addressof(count)
            self.library.call(name, handle, data.address, *where)
        if count.value > len(own):
            got = f"{count.value} engines of {len(own)}"
            raise MisfitError(problem("FOREIGN-11", name, got, f"at most {len(own)}"))
        found = ids[: count.value]
        strange = [id for id in found if id not in own]
        if strange or len(set(found)) < len(found):
            got = f"the engine ids {', '.join(f'{id:#x}' for id in found)}"
            raise MisfitError(problem("FOREIGN-11", name, got, "ids of the plugin, each once"))
        return tuple(sorted(found))

    def details(self, id: int, graph: bytes) -> EngineDetails:
        """Return what the plugin says of an engine for a graph."""
        name = "hipdnnEnginePluginGetEngineDetails"
        data, out = _Bytes(graph), ConstData()
        with self._held() as handle:
            self.library.call(name, handle, id, data.address, ctypes.addressof(out))
            if not out.ptr or not 0 < out.size <= _MOST_BYTES:
                got = f"{out.size} bytes at {out.ptr or 0:#x}"
                raise MisfitError(problem("FOREIGN-11", name, got, "a buffer"))
            raw = ctypes.string_at(out.ptr, out.size)
            # hipDNN looks into the buffer when it gives it back, so it must be sound by then.
            found = _details(name, raw, id)
            self.library.call(
                "hipdnnEnginePluginDestroyEngineDetails", handle, ctypes.addressof(out)
            )
        return found

    def workspace_guess(self, config: bytes, graph: bytes) -> int:
        """Return the bytes of workspace that a plan may need, before it is built."""
        name = "hipdnnEnginePluginGetWorkspaceSize"
        first, second, size = _Bytes(config), _Bytes(graph), c_size_t(0)
        with self._held() as handle:
            where = first.address, second.address, ctypes.addressof(size)
            self.library.call(name, handle, *where)
        return _sane(name, size.value)

    def context(self, config: bytes, graph: bytes) -> Context:
        """Build a plan: ``hipdnnEnginePluginCreateExecutionContext``."""
        return Context(self, config, graph)


class Overrides:
    """Dims and strides for one execution, as C takes them.

    Parameters
    ----------
    shapes : sequence of (uid, dims, strides)
    """

    def __init__(self, shapes: Sequence[tuple[int, Sequence[int], Sequence[int]]]) -> None:
        n = len(shapes)
        self._rows = [
            [(c_int64 * len(row))(*row) for row in part]
            for part in ([d for _, d, _ in shapes], [s for _, _, s in shapes])
        ]
        self._uids = (c_int64 * n)(*(uid for uid, _, _ in shapes))
        self._lengths = (c_uint32 * n)(*(len(dims) for _, dims, _ in shapes))
        self._pointers = [(c_void_p * n)(*_addresses(part)) for part in self._rows]
        arrays = (self._uids, self._lengths, *self._pointers)
        self.arguments = (n, *_addresses(arrays))


def _addresses(arrays: Sequence[Any]) -> list[int]:
    return [ctypes.addressof(array) for array in arrays]


class Context:
    """A plan of a plugin: an execution context, on the handle that it was built with."""

    def __init__(self, handle: Handle, config: bytes, graph: bytes) -> None:
        self.handle = handle
        self._library = handle.library
        name = "hipdnnEnginePluginCreateExecutionContext"
        first, second, slot = _Bytes(config), _Bytes(graph), c_void_p()
        with handle._held() as address:
            where = first.address, second.address, ctypes.addressof(slot)
            self._library.call(name, address, *where)
        if not slot.value:
            raise MisfitError(problem("FOREIGN-11", name, "a null context", "a context"))
        self.address: int | None = slot.value

    @property
    def workspace_bytes(self) -> int:
        """Bytes of workspace that every execution needs."""
        name = "hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext"
        size = c_size_t(0)
        with self.handle._held() as handle:
            self._library.call(name, handle, self.address, ctypes.addressof(size))
        return _sane(name, size.value)

    def prepared(
        self, buffers: Any, count: int, workspace: int | None, overrides: Overrides | None = None
    ) -> Callable[[], None]:
        """Return a call that runs on an array of `DeviceBuffer`, with all arguments ready.

        On a GPU it enqueues on the handle's stream.
        """
        name = "hipdnnEnginePluginExecuteOpGraph"
        more: tuple[Any, ...] = ()
        if overrides is not None:
            name, more = f"{name}WithOverrides", overrides.arguments
        handle, library = self.handle, self._library
        function, getpid, lock = library._functions[name], os.getpid, handle._lock
        where = self.address, workspace, ctypes.addressof(buffers), count, *more

        # Everything that the addresses belong to rides along as a default.
        def execute(context: Context = self, kept: tuple[Any, ...] = (buffers, overrides)) -> None:
            with lock:
                if handle.address is None or context.address is None or getpid() != handle._pid:
                    got = "a plan that was closed, or made before a fork"
                    raise MisfitError(problem("FOREIGN-11", "handle", got, "a living plan"))
                status = function(handle.address, *where)
                if status:
                    raise library.refusal(name, status)

        return execute

    def close(self) -> None:
        """Destroy the context; the handle must still live."""
        address, self.address = self.address, None
        if address is not None and os.getpid() == self.handle._pid:
            with self.handle._held() as handle:
                self._library.call("hipdnnEnginePluginDestroyExecutionContext", handle, address)


def device_buffers(pairs: Sequence[tuple[int, int]]) -> Any:
    """Return an array of (uid, address) as C takes it."""
    return (DeviceBuffer * len(pairs))(*(DeviceBuffer(uid, at) for uid, at in pairs))


class _Bytes:
    """A ``const ConstData*`` that lives as long as this object."""

    def __init__(self, data: bytes) -> None:
        # FlatBuffers are read in place, so they start where memory of their widest field may.
        self._memory = (c_int64 * (-(-len(data) // 8) + 1))()
        start = ctypes.addressof(self._memory)
        ctypes.memmove(start, data, len(data))
        self._data = ConstData(start, len(data))
        self.address = ctypes.addressof(self._data)


def _details(name: str, raw: bytes, id: int) -> EngineDetails:
    from ....graph_api.formats.flatbuffer.engine_messages import decode_details

    try:
        found = decode_details(raw)
    except FormatError as error:
        got = f"a buffer that is no EngineDetails: {error}"
        raise MisfitError(problem("FOREIGN-11", name, got, "EngineDetails")) from None
    if found.engine_id != id:
        got = f"details of engine {found.engine_id:#x}"
        raise MisfitError(problem("FOREIGN-11", name, got, f"of engine {id:#x}"))
    return found


def _sane(name: str, size: int) -> int:
    if size > _MOST_WORKSPACE:
        got = f"{size} bytes of workspace"
        raise MisfitError(problem("FOREIGN-11", name, got, f"at most {_MOST_WORKSPACE}"))
    return size


def _plain(text: bytes, most: int) -> str:
    """Return a text of a plugin on one line, as long as it may be."""
    words = text[: 4 * most].decode(errors="backslashreplace").split()
    return " ".join(words)[:most]
