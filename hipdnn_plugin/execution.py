# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Execution of a plan of the provider on the buffers of a C host."""

from __future__ import annotations

import ctypes
import logging
from functools import partial
from struct import calcsize, iter_unpack
from typing import TYPE_CHECKING

from ..graph_api.errors import BindError
from ..jit.lru import LruCache
from ..jit.runtime.caller_memory import Pointer
from ..provider.plugin_abi import Status
from .abi import MOST_ITEMS, PluginError

if TYPE_CHECKING:
    from ..jit.runtime.address_calls import Call
    from ..jit.runtime.executable import Executable
    from ..provider.plan import Plan

__all__ = ["ALIGNMENT", "Execution", "workspace_bytes"]

log = logging.getLogger("hipdnn_iree.plugin")

ALIGNMENT = 64
"""Of workspaces; hosts align them to less, so the size that is reported leaves room for it."""

_REMEMBERED = 32  # sets of pointers per loaded plan, of those that `Executable.call_at` declines
_PAIRS = "qN"  # of DeviceBuffer: the uid and the address
_PAIR = calcsize(_PAIRS)

_Key = tuple[int | None, bytes]


def workspace_bytes(wanted: int) -> int:
    """Return the bytes that a host allocates for a workspace: the size, and room to align it."""
    return wanted + ALIGNMENT if wanted else 0


class Execution:
    """A plan on its device.

    Only addresses are remembered: no memory is touched unless a call passes it again.

    Parameters
    ----------
    plan : Plan
        Of the IREE engine, or its code for other shapes, to which operands are copied.
    workspace_bytes : int
        Bytes of the workspace that the host passes; 0 for a plan that uses none of the host's.
        Where the host passes null, a call acquires a workspace that the device's plans share.

    Raises
    ------
    DeviceError, ArtifactError
        If the device of the plan does not exist, or cannot execute the code.
    """

    __slots__ = ("_bound", "_executable", "_last", "_plan", "_seen", "_told", "_workspace_bytes")

    def __init__(self, plan: Plan, workspace_bytes: int) -> None:
        self._plan = plan
        self._executable: Executable | None = getattr(plan, "executable", None)
        self._workspace_bytes = workspace_bytes
        self._bound: LruCache[Call] = LruCache(_REMEMBERED)
        self._last: tuple[_Key, Call] | None = None
        self._seen: _Key | None = None  # of the call before
        self._told = False

    def __call__(self, workspace: int | None, buffers: int | None, count: int) -> None:
        """Execute on an array of ``hipdnnPluginDeviceBuffer_t`` at an address.

        Raises
        ------
        BindError
            If a tensor has no buffer, or a buffer does not fit.
        DeviceError
            If the device fails.
        """
        if not self._workspace_bytes:
            workspace = None  # a host may pass one to a plan that needs none
        if count > MOST_ITEMS:
            raise PluginError(Status.BAD_PARAM, f"{count} buffers; allowed: up to {MOST_ITEMS}")
        key = (workspace, ctypes.string_at(buffers, count * _PAIR) if buffers else b"")
        last = self._last
        if last is not None and last[0] == key:
            last[1]()
            return
        call = self._call(key, count)
        if self._seen == key:  # a second time: no pointers that rotate
            self._last = key, call
        self._seen = key
        call()

    def _call(self, key: _Key, count: int) -> Call:
        workspace, raw = key
        given = dict(iter_unpack(_PAIRS, raw))  # a host may pass tensors that the plan does not use
        space = Pointer(workspace, self._workspace_bytes) if workspace else None
        if self._executable is not None and len(given) == count:
            # The first set that has to be copied is bound, which tells what is copied.
            call = self._executable.call_at(given, space, once=True, copies=self._told)
            if call is not None:
                return call
        return self._bound.get(key, lambda: self._bind(key, count))

    def _bind(self, key: _Key, count: int) -> Call:
        workspace, raw = key
        if count and not raw:
            raise PluginError(Status.BAD_PARAM, f"null pointer for {count} buffers")
        pairs = list(iter_unpack(_PAIRS, raw))
        given = {uid: Pointer(address) for uid, address in pairs}
        if len(given) < count:
            uids = [uid for uid, _ in pairs]
            twice = sorted({uid for uid in uids if uids.count(uid) > 1})
            raise BindError(f"uid {', '.join(map(str, twice))} has two buffers")
        # A host may pass buffers of tensors that the plan does not use.
        graph, executable = self._plan.graph, self._executable
        used = {uid: given[uid] for uid in (*graph.outputs, *graph.inputs) if uid in given}
        space = Pointer(workspace, self._workspace_bytes) if workspace else None
        if executable is None:  # it copies to memory of its own, which all pointers share
            return partial(self._plan._execute, used, space)
        bound = executable.bind(used, space)
        if bound.staged and not self._told:
            self._told = True
            log.info(
                "copied at each call, as addresses are no multiples of %d: %s; memory for all "
                "copies: %d bytes",
                ALIGNMENT,
                ", ".join(bound.staged),
                executable.staging_bytes,
            )
        return bound
