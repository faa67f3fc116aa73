# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The engine plugin: hipDNN's calls, one method each.

A method takes what C passes (addresses as ints, null as None), writes results through the
addresses and returns nothing, or raises; `entry` turns what is raised into a status and a text.
Handles and contexts are addresses of memory of their own, so that no other plugin has the same;
an address that was not given out is refused.  Methods may run on many threads at once: each
touches one handle or context, and the tables of them change by single operations.

hipDNN makes a handle of every plugin for every handle of its own, so only what that needs is
imported here; `serving` comes with the first graph, and IREE with the first plan.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable
from ctypes import c_int64, c_size_t, c_uint32, c_void_p
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from ..graph_api.errors import DeviceError, SettingError
from ..jit.interrupts import shielded
from ..jit.lru import LruCache
from ..jit.settings import settings
from ..provider.native.deployment import told
from ..provider.plugin_abi import ConstData, Status
from .abi import PluginError, read_bytes
from .devices import Place, place_of

if TYPE_CHECKING:
    from ..provider.engines.iree.iree_plan import IreePlan
    from ..provider.overrides import OverridePlans
    from ..provider.plan import Plan
    from .execution import Execution
    from .overrides import Shapes

__all__ = ["Plugin"]

log = logging.getLogger("hipdnn_iree.plugin")

_REMEMBERED = 32  # loaded plans of one context: streams and shapes

_T = TypeVar("_T")


@cache
def _prepare() -> None:
    """Import what graphs need; Ctrl-C comes afterwards."""
    with shielded():
        from . import serving  # noqa: F401 - with all that it imports


class _Object:
    """Something that the host holds by an address."""

    __slots__ = ("_memory", "address")

    def __init__(self) -> None:
        self._memory = ctypes.create_string_buffer(16)
        self.address = ctypes.addressof(self._memory)


class Handle(_Object):
    """The plugin's side of a hipDNN handle: the stream set last, and where that is."""

    __slots__ = ("_place", "stream")

    def __init__(self) -> None:
        super().__init__()
        self.stream = 0
        self._place: Place | None = None

    def set_stream(self, stream: int) -> None:
        """Use a stream from now on; nothing is asked of HIP yet."""
        self.stream, self._place = stream, None

    @property
    def place(self) -> Place:
        """Where graphs run.

        Raises
        ------
        DeviceError
            If there is a GPU that cannot be used.
        """
        place = self._place
        if place is None:
            now = settings()
            if now.runtime_emulate:
                from ..provider import emulated

                emulated.start(now)
            place = self._place = place_of(self.stream, now.plugin_device)
        return place


class Context(_Object):
    """A plan, loaded for each stream and each set of shapes that it has been executed on."""

    __slots__ = ("_last", "_loaded", "_placed", "handle", "overrides", "plan")

    def __init__(self, handle: Handle, plan: IreePlan, overrides: OverridePlans | None) -> None:
        super().__init__()
        self.handle = handle.address
        self.plan = plan
        self.overrides = overrides
        self._loaded: LruCache[Execution] = LruCache(_REMEMBERED)
        self._placed: LruCache[OverridePlans] = LruCache(_REMEMBERED)
        self._last = handle.stream, self._load(handle, None)

    @property
    def workspace_bytes(self) -> int:
        """Bytes of workspace that the host allocates, for the shapes of the graph."""
        from .execution import workspace_bytes

        return workspace_bytes(self.plan.workspace_bytes)

    def on(self, handle: Handle) -> Execution:
        """Return the plan on the current stream of the handle."""
        stream, loaded = self._last
        if handle.stream != stream:
            loaded = self._load(handle, None)
            self._last = handle.stream, loaded
        return loaded

    def at(self, handle: Handle, shapes: Shapes) -> Execution:
        """Return the plan for other shapes; nothing is compiled."""
        if self.overrides is None:
            raise PluginError(Status.NOT_APPLICABLE, "the graph was not built for override shapes")
        return self._load(handle, shapes)

    def _load(self, handle: Handle, shapes: Shapes | None) -> Execution:
        place = handle.place
        if place.target.backend != self.plan.target.backend:
            raise DeviceError(f"the plan is for {self.plan.target}, the stream's {place.target}")

        stream = None if place.target.is_cpu else place.stream

        def load() -> Execution:
            from .execution import Execution

            plan: Plan = self.plan.on_device(place.device_id, stream)
            overrides = self.overrides
            if shapes is not None and overrides is not None:
                placed = self._placed.get(
                    place, lambda: overrides.on_device(place.device_id, stream)
                )
                plan = placed.at(shapes.by_uid())
            # The host's workspace has the size for the graph's own shapes.
            small = plan.workspace_bytes > self.plan.workspace_bytes
            return Execution(plan, 0 if small else self.workspace_bytes)

        return self._loaded.get((place, shapes), load)


class Plugin:
    """All that the library knows, for one process."""

    def __init__(self) -> None:
        self._handles: dict[int, Handle] = {}
        self._contexts: dict[int, Context] = {}
        self._bytes: dict[int, Any] = {}  # what the host has not given back yet

    # ------------------------------------------------------------------ handles

    def create(self, out: int | None) -> None:
        """``hipdnnEnginePluginCreate``: needs no device, no compiler, no IREE."""
        slot = _slot(out, c_void_p)
        handle = Handle()
        self._handles[handle.address] = handle
        slot.value = handle.address

    def destroy(self, handle: int | None) -> None:
        """``hipdnnEnginePluginDestroy``: contexts that were left over go too."""
        own = _known(self._handles, handle, "handle", take=True)
        for context in [c for c in list(self._contexts.values()) if c.handle == own.address]:
            self._contexts.pop(context.address, None)

    def set_stream(self, handle: int | None, stream: int | None) -> None:
        """``hipdnnEnginePluginSetStream``."""
        self._handle(handle).set_stream(stream or 0)

    # ------------------------------------------------------------------ before compiling

    def get_applicable_engine_ids(
        self, handle: int | None, graph: int | None, ids: int | None, most: int, count: int | None
    ) -> None:
        """``hipdnnEnginePluginGetApplicableEngineIds``: why not is only logged."""
        own, found = self._handle(handle), _slot(count, c_uint32)
        found.value = 0
        if most and not ids:
            raise PluginError(Status.BAD_PARAM, "null pointer for the engine ids")
        data = read_bytes(graph)
        _prepare()
        from . import serving

        try:
            reasons = serving.reasons(data, own.place.target, settings())
        except DeviceError as error:  # not of the graph; others may serve it
            log.error("%s", error)
            return
        except SettingError as error:
            log.error("%s", told("SETTING", error))
            return
        if reasons:
            log.info("the graph is not served: %s", "; ".join(map(str, reasons)))
            return
        if most:
            _slot(ids, c_int64).value = serving.ENGINE_ID
        found.value = 1

    def get_engine_details(
        self, handle: int | None, id: int, graph: int | None, out: int | None
    ) -> None:
        """``hipdnnEnginePluginGetEngineDetails``."""
        _prepare()
        from . import serving

        own = self._handle(handle)
        data = read_bytes(graph) if graph else b""
        target = own.place.target if data else None
        self._give(out, lambda: serving.details(id, settings(), data, target))

    def destroy_engine_details(self, handle: int | None, data: int | None) -> None:
        """``hipdnnEnginePluginDestroyEngineDetails``."""
        self._handle(handle)
        self._take_back(data)

    def get_workspace_size(
        self, handle: int | None, config: int | None, graph: int | None, out: int | None
    ) -> None:
        """``hipdnnEnginePluginGetWorkspaceSize``: exact for code in the cache, else a guess."""
        _prepare()
        from . import messages, serving

        own, size = self._handle(handle), _slot(out, c_size_t)
        chosen, data = read_bytes(config), read_bytes(graph)
        wanted = messages.read_config(chosen, settings())
        size.value = serving.workspace_guess(wanted, data, own.place.target)

    # ------------------------------------------------------------------ plans

    def create_execution_context(
        self, handle: int | None, config: int | None, graph: int | None, out: int | None
    ) -> None:
        """``hipdnnEnginePluginCreateExecutionContext``: compiles, or finds the code cached."""
        own, slot = self._handle(handle), _slot(out, c_void_p)
        slot.value = None
        chosen, data = read_bytes(config), read_bytes(graph)
        _prepare()
        from . import messages, serving

        target = own.place.target
        wanted = messages.read_config(chosen, settings())
        plan = serving.build(wanted, data, target)
        slot.value = self._open(own, plan, serving.overrides(plan))

    def destroy_execution_context(self, handle: int | None, context: int | None) -> None:
        """``hipdnnEnginePluginDestroyExecutionContext``."""
        self._handle(handle)
        _known(self._contexts, context, "execution context", take=True)

    def get_workspace_size_from_execution_context(
        self, handle: int | None, context: int | None, out: int | None
    ) -> None:
        """``hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext``."""
        self._handle(handle)
        _slot(out, c_size_t).value = self._context(context).workspace_bytes

    def execute_op_graph(
        self,
        handle: int | None,
        context: int | None,
        workspace: int | None,
        buffers: int | None,
        count: int,
    ) -> None:
        """``hipdnnEnginePluginExecuteOpGraph``: the one call that has to be quick."""
        try:
            own, plan = self._handles[handle], self._contexts[context]  # type: ignore[index]
        except KeyError:
            own, plan = self._handle(handle), self._context(context)
        plan.on(own)(workspace, buffers, count)

    def execute_op_graph_with_overrides(
        self,
        handle: int | None,
        context: int | None,
        workspace: int | None,
        buffers: int | None,
        count: int,
        overrides: int,
        uids: int | None,
        lengths: int | None,
        dims: int | None,
        strides: int | None,
    ) -> None:
        """``hipdnnEnginePluginExecuteOpGraphWithOverrides``: compiles nothing."""
        if not overrides:
            self.execute_op_graph(handle, context, workspace, buffers, count)
            return
        from .overrides import read_shapes

        own, plan = self._handle(handle), self._context(context)
        shapes = read_shapes(overrides, uids, lengths, dims, strides)
        plan.at(own, shapes)(workspace, buffers, count)

    # ------------------------------------------------------------------ plans as bytes

    def serialize_execution_context_with_engine_id(
        self, handle: int | None, id: int, context: int | None, out: int | None
    ) -> None:
        """``hipdnnEnginePluginSerializeExecutionContextWithEngineId``."""
        _prepare()
        from . import serving

        serving.own(id)
        self.serialize_execution_context(handle, context, out)

    def serialize_execution_context(
        self, handle: int | None, context: int | None, out: int | None
    ) -> None:
        """``hipdnnEnginePluginSerializeExecutionContext``."""
        with shielded():
            from . import payload

        self._handle(handle)
        found = self._context(context)
        self._give(out, lambda: payload.save(found.plan, found.overrides))

    def destroy_serialized_execution_context(self, handle: int | None, data: int | None) -> None:
        """``hipdnnEnginePluginDestroySerializedExecutionContext``."""
        self._handle(handle)
        self._take_back(data)

    def create_execution_context_from_serialized(
        self, handle: int | None, data: int | None, out: int | None
    ) -> None:
        """``hipdnnEnginePluginCreateExecutionContextFromSerialized``: compiles nothing."""
        with shielded():
            from . import payload

        own, slot = self._handle(handle), _slot(out, c_void_p)
        slot.value = None
        plan, overrides = payload.load(read_bytes(data), own.place.target)
        try:
            slot.value = self._open(own, plan, overrides)
        except DeviceError as error:  # sound, but not for this device
            raise PluginError(Status.NOT_APPLICABLE, str(error)) from error

    # ------------------------------------------------------------------ helpers

    def _handle(self, address: int | None) -> Handle:
        return _known(self._handles, address, "handle")

    def _context(self, address: int | None) -> Context:
        return _known(self._contexts, address, "execution context")

    def _open(self, handle: Handle, plan: IreePlan, overrides: OverridePlans | None) -> int:
        context = Context(handle, plan, overrides)
        self._contexts[context.address] = context
        if handle.address not in self._handles:
            self._contexts.pop(context.address, None)
            raise PluginError(Status.BAD_PARAM, "the handle was destroyed meanwhile")
        return context.address

    def _give(self, out: int | None, make: Callable[[], bytes]) -> None:
        """Hand bytes to the host, which gives them back later."""
        if not out:
            raise PluginError(Status.BAD_PARAM, "null pointer for the result")
        slot = ConstData.from_address(out)
        slot.ptr, slot.size = None, 0
        data = make()
        memory = ctypes.create_string_buffer(data, len(data))
        address = ctypes.addressof(memory)
        self._bytes[address] = memory
        slot.ptr, slot.size = address, len(data)

    def _take_back(self, data: int | None) -> None:
        if not data:
            raise PluginError(Status.BAD_PARAM, "null pointer for the data to free")
        slot = ConstData.from_address(data)
        if self._bytes.pop(slot.ptr or 0, None) is None:
            raise PluginError(Status.BAD_PARAM, f"{slot.ptr or 0:#x} is not of this plugin")
        slot.ptr, slot.size = None, 0


def _known(table: dict[int, _T], address: int | None, what: str, *, take: bool = False) -> _T:
    """Return what has an address; ``take`` removes it, for one of several that want to."""
    found = (table.pop if take else table.get)(address or 0, None)
    if found is None:
        got = f"{address:#x}, which is none of this plugin's" if address else "null"
        raise PluginError(Status.BAD_PARAM, f"the {what} is {got} (destroyed already?)")
    return found


def _slot(address: int | None, kind: type[Any]) -> Any:
    """Return the variable behind an out-parameter."""
    if not address:
        raise PluginError(Status.BAD_PARAM, "null pointer for the result")
    return kind.from_address(address)
