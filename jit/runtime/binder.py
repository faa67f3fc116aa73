# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From checked buffers to a bound plan: what is used in place, what is copied, which workspace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Self

from ...graph_api.errors import DeviceError
from ..exit_guard import native
from .arrays import ALIGNMENT
from .bound_plan import BoundPlan, Call, Parts
from .buffer_set import Argument
from .caller_memory import CallerMemory, same_layout
from .device import Device, reason
from .device_memory import Stage, adopt, allocate, as_view, viewer
from .loaded_module import LoadedModule
from .scalars import Reader
from .workspaces import External, Lease, Workspace, WorkspacePool, pool_of, staging_of

__all__ = ["Binder", "padded"]

Memory = Mapping[int | str, CallerMemory]
Readers = Mapping[int, Reader]


class Binder(NamedTuple):
    """What all bound plans of an executable have in common.

    Attributes
    ----------
    module : LoadedModule
    arguments : tuple of Argument
    viewers : tuple of callable
        For each argument: what makes its view of memory at an address (`device_memory.viewer`).
    workspace_bytes : int
    pool : WorkspacePool or None
        The workspaces; None for code that needs none.
    nothing : object
        The workspace of code that needs none: IREE does not accept null for it.
    """

    module: LoadedModule
    arguments: tuple[Argument, ...]
    viewers: tuple[Callable[[int], Any], ...]
    workspace_bytes: int
    pool: WorkspacePool | None
    nothing: Any

    @classmethod
    def of(
        cls, module: LoadedModule, arguments: tuple[Argument, ...], workspace_bytes: int
    ) -> Self:
        """Return the binder of loaded code."""
        device = module.device
        pool = pool_of(device) if workspace_bytes else None
        nothing = None if pool else allocate(device, 0)
        viewers = tuple(viewer(device, spec) for _, _, spec in arguments)
        return cls(module, arguments, viewers, workspace_bytes, pool, nothing)

    @property
    def device(self) -> Device:
        """Where the code runs."""
        return self.module.device

    @native
    def bind(self, memory: Memory, readers: Readers, owners: Sequence[object] = ()) -> BoundPlan:
        """Return the plan for buffers that were checked; it keeps ``owners``."""
        copied = self._copied(memory)
        if copied and self.device.on_host:
            nbytes = sum(padded(spec.nbytes) for _, _, spec in copied)
            parts = Parts(
                module=self.module,
                refs=(),
                source=Lease(staging_of(self.device), nbytes),
                held=[*owners],
                staged=tuple(label for _, label, _ in copied),
                inner=partial(self._with_copies, memory, readers),
            )
        else:  # a device with memory of its own, where each plan has its copies
            parts = self._parts(memory, readers, owners)
        self._try(parts)
        return BoundPlan(parts)

    def _try(self, parts: Parts) -> None:
        """Make the argument list, so that memory runs out now rather than in a call."""
        space = parts.source.acquire()
        try:
            if parts.inner is not None:
                parts.call(space)
            elif not parts.readers:
                parts.lists(space).at(())
        finally:
            parts.source.release(space)

    def _with_copies(self, memory: Memory, readers: Readers, staging: Workspace) -> Call:
        """Return the call that has its copies in some staging memory."""
        parts = self._parts(memory, readers, (), staging.buffer)
        self._try(parts)
        return BoundPlan(parts).call

    def _parts(
        self, memory: Memory, readers: Readers, owners: Sequence[object], staging: Any = None
    ) -> Parts:
        """Import or stage every buffer."""
        copied = {uid for uid, _, _ in self._copied(memory)}
        stages: list[tuple[str, Stage]] = []  # names may repeat
        refs: list[Any] = []
        start = 0
        for (uid, label, spec), view in zip(self.arguments, self.viewers, strict=True):
            if spec.scalar:
                refs.append(None)
                continue
            if uid in copied:
                own = None if staging is None else staging[start : start + spec.nbytes]
                start += padded(spec.nbytes)
                stage = Stage(self.device, spec, memory[uid], own)
                stages.append((label, stage))
                refs.append(as_view(stage.buffer, spec))
            else:
                refs.append(self._view(view, memory[uid].address))
        return Parts(
            module=self.module,
            refs=tuple(refs),
            kinds=tuple(spec.data_type for _, _, spec in self.arguments if spec.scalar),
            readers=tuple(readers.values()),
            source=self._workspace(memory.get("workspace")),
            held=[*owners, self.device, *(stage for _, stage in stages)],
            before=[step for _, stage in stages for step in stage.before],
            after=[step for _, stage in stages for step in stage.after],
            staged=tuple(label for label, _ in stages),
        )

    def _view(self, view: Callable[[int], Any], address: int) -> Any:
        try:
            return view(address)
        except Exception as error:
            driver = self.device.driver
            raise DeviceError(f"{driver} does not take {address:#x}: {reason(error)}") from error

    def _copied(self, memory: Memory) -> list[Argument]:
        """Return the arguments whose memory cannot be used in place."""
        return [
            argument
            for argument in self.arguments
            if (given := memory.get(argument.uid)) is not None
            and not (self._fits(given) and same_layout(argument.spec, given))
        ]

    def _fits(self, given: CallerMemory) -> bool:
        """Whether IREE can use the memory in place."""
        if not self.device.on_host:
            return given.device is None or given.device[0] in self.device.memory
        return given.address % ALIGNMENT == 0

    def _workspace(self, given: CallerMemory | None) -> Lease | External:
        """Return the source of the workspace."""
        if self.pool is None:
            return External(self.nothing)
        if given is not None:
            skip = -given.address % ALIGNMENT
            if skip == 0 or (given.size or 0) >= skip + self.workspace_bytes:
                return External(adopt(self.device, given.address + skip, self.workspace_bytes))
        return Lease(self.pool, self.workspace_bytes)


def padded(nbytes: int) -> int:
    """Return the bytes that a copy takes, so that the next one is aligned."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
