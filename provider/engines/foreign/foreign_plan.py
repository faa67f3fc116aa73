# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plans of third-party engines: a session on a handle and a stream, and its calls on buffers."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ....graph_api.errors import DeviceError, NotSupportedError
from ....graph_api.specialise import Shape, specialise
from ...binding import BindingPlan
from ...plan import Plan
from .foreign_buffers import Binding, bind
from .foreign_rules import MisfitError

if TYPE_CHECKING:
    from .places import Place

__all__ = ["ForeignPlan", "Override", "Session", "release"]

log = logging.getLogger("hipdnn_iree.foreign")

Override = tuple[int, Sequence[int], Sequence[int]]
"""Uid, dims and strides of a tensor in place of those of the graph."""


class Session(ABC):
    """The object that executes a plan; its calls run one after another.

    Parameters
    ----------
    place : Place

    Attributes
    ----------
    stream : int or None
        The stream on which work is enqueued.
    workspace_bytes : int
        Bytes of workspace that every execution needs.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.lock = threading.Lock()
        self.stream: int | None = None
        self.workspace_bytes = 0
        self._space: tuple[int, object] | None = None

    def workspace(self) -> int | None:
        """Return the session's own workspace, which is allocated at its first use."""
        if not self.workspace_bytes:
            return None
        with self.lock:
            if self._space is None:
                self._space = self.place.allocate(self.workspace_bytes)
            return self._space[0]

    @abstractmethod
    def prepare(
        self,
        pairs: Sequence[tuple[int, int]],
        workspace: int | None,
        overrides: Sequence[Override],
    ) -> Callable[[], None]:
        """Return a call that executes on buffers, pairs of uid and address.

        The call may raise `MisfitError`; the session's lock is held during the call.
        """


def release(steps: Sequence[Callable[[], object]]) -> None:
    """Release objects of a plugin in this order; errors are only logged."""
    for step in steps:
        try:
            step()
        except Exception as error:  # an error of one must not keep the others
            log.warning("a plugin does not let go: %s", error)


@dataclass(kw_only=True, repr=False)
class ForeignPlan(BindingPlan):
    """A plan of a third-party engine; a call returns when the results are complete.

    Attributes
    ----------
    session : Session
    made_by : int
        hipDNN's id of the engine that executes it.
    overrides : tuple of Override
        Shapes in place of those that it was built for.
    """

    session: Session
    made_by: int
    overrides: tuple[Override, ...] = field(default=(), repr=False)

    @property
    def engine_id(self) -> int:
        """hipDNN's id of the engine."""
        return self.made_by

    @property
    def on_host(self) -> bool:
        return self.session.place.on_host

    def _build_for(self, shapes: Mapping[int, Shape]) -> Plan:
        other = specialise(self.graph, shapes)
        if self.graph.is_override_shape_enabled:
            here, there = self.graph.tensors, other.tensors
            changed = tuple(
                (uid, there[uid].dims, there[uid].strides)
                for uid in (*other.outputs, *other.inputs)
                if (there[uid].dims, there[uid].strides) != (here[uid].dims, here[uid].strides)
            )
            return replace(self, graph=other, overrides=changed)
        reasons = self.maker.declines(other, self.target)
        if reasons:
            raise NotSupportedError(f"engine {self.engine} declines these shapes", reasons)
        plan = self.maker.build(other, self.target, self.knobs)
        plan.policy, plan.why = self.policy, self.why
        return plan

    def _bind(self, buffers: Mapping[int, Any], workspace: Any, copy: bool) -> Callable[[], None]:
        session = self.session
        found = bind(self, session.place, buffers, workspace, copy)
        address = session.workspace() if found.workspace is None else found.workspace
        try:
            execute = session.prepare(found.pairs, address, self.overrides)
        except MisfitError as error:
            raise DeviceError(f"engine {self.engine} takes no buffers: {error}") from None

        lock, place, stream = session.lock, session.place, session.stream
        before, after = found.before, found.after

        # The default keeps the binding, and so the memory, alive.
        def call(kept: Binding = found) -> None:
            with lock:
                for step in before:
                    step()
                try:
                    execute()
                except MisfitError as error:
                    raise DeviceError(f"engine {self.engine} failed: {error}") from None
                place.wait(stream)
                for step in after:
                    step()

        return call
