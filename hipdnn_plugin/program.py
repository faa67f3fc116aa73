"""Compiled code for one graph, and its executions on buffers given by uid and address."""

from __future__ import annotations

import ctypes
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..graph_api.errors import BindError
from ..jit.signature import Signature
from ..jit.target import Target
from ..provider.plugin_abi import DeviceBuffer, Status
from .abi import MOST_ITEMS, PluginError
from .devices import Place, synchronize

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..jit.runtime.device import Device
    from ..jit.runtime.executable import BoundPlan, Executable
    from ..provider.plan import Plan
    from .overrides import Overrides

__all__ = ["ALIGNMENT", "Program", "Run"]

ALIGNMENT = 64
"""Of workspaces, for which hosts give less; the size that is reported leaves room for it."""

_REMEMBERED = 32  # sets of pointers per loaded program
_PAIR = ctypes.sizeof(DeviceBuffer)


@dataclass(frozen=True, kw_only=True)
class Program:
    """Code with all that is needed to load and to run it, the graph no more.

    Attributes
    ----------
    vmfb : bytes
        IREE VM module.
    sha256 : str
        Its digest, in hex.
    signature : Signature
        Arguments in order.
    uids : tuple of int
        The graph's uid of each argument.
    names : tuple of str
        Its name, for error texts.
    target : Target
        What the code was made for.
    driver : str
        IREE's driver to run it with.
    overrides : Overrides or None
        How to get the program for other shapes, for graphs that allow it.
    """

    vmfb: bytes
    sha256: str
    signature: Signature
    uids: tuple[int, ...]
    names: tuple[str, ...]
    target: Target
    driver: str
    overrides: Overrides | None = None

    @classmethod
    def of(cls, plan: Plan, settings: Mapping[str, str]) -> Program:
        """Return the program of a plan that the engine has built with some settings."""
        from ..provider.engines.iree.iree_engine import IreePlan
        from .overrides import Overrides

        assert isinstance(plan, IreePlan), plan
        graph = plan.graph
        again = Overrides(settings, plan=plan) if graph.is_override_shape_enabled else None
        uids = (*graph.outputs, *graph.inputs)
        return cls(
            vmfb=plan.compiled.vmfb,
            sha256=plan.compiled.sha256,
            signature=plan.compiled.signature,
            uids=uids,
            names=tuple(graph.tensors[uid].name for uid in uids),
            target=plan.target,
            driver=plan.driver,
            overrides=again,
        )

    @property
    def workspace_bytes(self) -> int:
        """Bytes that the host allocates: what the code wants, and room to align it."""
        wanted = self.signature.workspace_bytes
        return wanted + ALIGNMENT if wanted else 0

    def load(self, place: Place, *, own_workspace: bool = False) -> Run:
        """Load the code on a device; with ``own_workspace`` it takes none of the host's.

        Raises
        ------
        DeviceError, ArtifactError
            If there is no such device, or the code is not for it.
        """
        from ..jit.runtime.executable import Executable
        from ..jit.runtime.loaded_module import LoadedModule

        device = _device(self.driver, place)
        module = LoadedModule.load(device, self.vmfb, sha256=self.sha256, target=str(self.target))
        executable = Executable(module, self.signature, self.uids, self.names)
        # IREE takes no default stream: it runs on one of its own, so the default one must be done.
        wait = None if device.on_host or place.stream else synchronize
        return Run(executable, 0 if own_workspace else self.workspace_bytes, wait)


def _device(driver: str, place: Place) -> Device:
    """Return IREE's device for a place."""
    from ..jit.runtime.device import Device
    from ..jit.settings import settings

    if place.stream:
        return Device.on_stream(driver, place.stream, device_id=place.device_id)
    workers = (settings().runtime_threads or None) if driver == "local-task" else None
    return Device.open(driver, device_id=place.device_id, workers=workers)


class Run:
    """A program on its device; remembers the argument lists of the last sets of pointers.

    What is remembered is addresses: no memory is touched unless a call presents it again.
    """

    __slots__ = ("_bound", "_executable", "_lock", "_wait", "_workspace_bytes")

    def __init__(
        self, executable: Executable, workspace_bytes: int, wait: Callable[[int], None] | None
    ) -> None:
        self._executable = executable
        self._workspace_bytes = workspace_bytes
        self._wait = wait
        self._bound: OrderedDict[tuple[int | None, bytes], BoundPlan] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, workspace: int | None, buffers: int | None, count: int) -> None:
        """Execute on an array of ``hipdnnPluginDeviceBuffer_t`` at an address.

        Raises
        ------
        BindError
            If a tensor has no buffer, one does not fit, or the workspace is missing.
        DeviceError
            If the device fails.
        """
        if not self._workspace_bytes:
            workspace = None  # whatever the host passes for a plan that wants none
        if count > MOST_ITEMS:
            raise PluginError(Status.BAD_PARAM, f"{count} buffers; allowed: up to {MOST_ITEMS}")
        key = (workspace, ctypes.string_at(buffers, count * _PAIR) if buffers else b"")
        try:
            plan = self._bound[key]
            self._bound.move_to_end(key)
        except KeyError:
            plan = self._bind(key, workspace, count)
        if self._wait is not None:
            self._wait(0)
        plan()

    def _bind(self, key: tuple[int | None, bytes], workspace: int | None, count: int) -> BoundPlan:
        from ..jit.runtime.caller_memory import Pointer

        if count and not key[1]:
            raise PluginError(Status.BAD_PARAM, f"null pointer for {count} buffers")
        pairs = (DeviceBuffer * (len(key[1]) // _PAIR)).from_buffer_copy(key[1])
        if self._workspace_bytes and not workspace:
            raise BindError(f"the workspace is null; {self._workspace_bytes} bytes are needed")
        space = Pointer(workspace, self._workspace_bytes) if workspace else None
        given = {pair.uid: Pointer(pair.ptr or 0) for pair in pairs}
        if len(given) < count:
            _refuse_doubles([pair.uid for pair in pairs])
        # A host may pass buffers of tensors that the plan does not use.
        used = {uid: given[uid] for uid in self._executable.uids if uid in given}
        plan = self._executable.bind(used, space)
        with self._lock:
            self._bound[key] = plan
            while len(self._bound) > _REMEMBERED:
                self._bound.popitem(last=False)
        return plan


def _refuse_doubles(uids: Sequence[int]) -> None:
    twice = sorted({uid for uid in uids if uids.count(uid) > 1})
    raise BindError(f"uid {', '.join(map(str, twice))} has two buffers")
