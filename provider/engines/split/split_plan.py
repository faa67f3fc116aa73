# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The plan of a split graph: the plans of its parts, run one after the other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ....graph_api.tensor import TensorSpec
from ...binding import BindingPlan
from ...plan import Plan
from ..host_memory import arguments_of, host_memory

if TYPE_CHECKING:
    from ....jit.inspect.fused import Fused

__all__ = ["PartitionedPlan", "moved"]


def moved(dispatches: Iterable[Fused], first: int) -> Iterator[Fused]:
    """Yield dispatches of a part with the places that its nodes have in the whole graph."""
    for one in dispatches:
        yield replace(one, nodes=tuple(node + first for node in one.nodes))


@dataclass(kw_only=True, repr=False)
class PartitionedPlan(BindingPlan):
    """A graph whose parts several engines run, in host memory.

    What one part hands to the next lies in buffers that each bound call has of its own; a
    workspace is not needed, and ignored.

    Attributes
    ----------
    parts : list of Plan
        In the order in which they run; their graphs have the uids of the whole.
    between : mapping of uid to TensorSpec
        The tensors that are handed on.
    """

    parts: list[Plan] = field(default_factory=list)
    between: dict[int, TensorSpec] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """What the parts have; empty when one of them does not say."""
        found = [part.fingerprint for part in self.parts]
        return " ".join(found) if all(found) else ""

    def dispatches(self) -> tuple[Fused, ...]:
        """Return the kernels of all parts, with the nodes that each computes."""
        found: list[Fused] = []
        first = 0
        for part in self.parts:
            found += moved(part.dispatches(), first)
            first += len(part.graph.nodes)
        return tuple(found)

    def engines(self) -> tuple[str, ...]:
        """Return the name of the engine that computes each node."""
        return tuple(name for part in self.parts for name in part.engines())

    def _bind(self, buffers: Mapping[int, Any], workspace: Any, copy: bool) -> Callable[[], None]:
        from ....jit.runtime.arrays import empty

        # All misfits at once, and overlaps between buffers of different parts.
        host_memory(self.graph, self.arguments, buffers, copy)
        own: dict[int, Any] = {}
        for part in self.parts:
            arguments = arguments_of(part.graph)
            own |= {uid: empty(arguments[uid]) for uid in part.graph.outputs if uid in self.between}
        everything = {**buffers, **own}
        calls = [
            part._bind(
                {uid: everything[uid] for uid in (*part.graph.inputs, *part.graph.outputs)},
                None,
                copy,
            )
            for part in self.parts
        ]
        lock = threading.Lock()

        def call() -> None:
            with lock:  # the buffers in between are shared by the calls of this binding
                for step in calls:
                    step()

        return call
