# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a workaround is: a known defect of the compiler, where it strikes, and what avoids it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ..node_context import GraphContext, NodeContext
from ..target import Target

__all__ = ["ALL", "CPU", "CUDA", "GFX9", "GPU", "OutputCheck", "Workaround"]

OutputCheck = Callable[[NodeContext, str], bool]

CPU, CUDA = ("cpu",), ("cuda",)
GFX9 = ("gfx908", "gfx90a", "gfx942", "gfx950")
GPU = (*CUDA, *GFX9)
ALL = (*CPU, *GPU)


@dataclass(frozen=True, kw_only=True, eq=False)
class Workaround:
    """One defect; ``docs/upstream/<id>`` has its reproducer.

    What follows ``instead`` says where the defect strikes.  A rule has what it needs of it:
    all but ``applies`` are evaluated once, by `code_plan.plan_code`.

    Attributes
    ----------
    id : str
        ``W-001``, as everywhere.
    title, symptom : str
        As in ``defect.toml``.
    versions : tuple of str
        Releases of the compiler that have it.
    targets : tuple of str
        ``cpu``, ``cuda`` and architectures.
    instead : str
        What is done to avoid it, in words.
    operands : callable
        Yields the ports whose values are materialised before the node.
    results : callable
        Whether the node's results are materialised.
    outputs : callable
        Whether an output of the graph, made at a port of the node, is materialised before it is
        stored.
    copied_outputs : callable
        Whether such an output is copied by an op that computes.
    node : callable
        Whether the lowering of the node has to avoid the defect; it asks ``b.avoids(id)``.
    flags : callable
        Yields compiler flags for a graph, given all of its nodes.
    applies : callable
        The predicate on plain data, for lowerings that only know it while they emit IR.
    """

    id: str
    title: str
    symptom: str
    instead: str
    targets: tuple[str, ...]
    versions: tuple[str, ...] = ("3.13.0",)
    operands: Callable[[NodeContext], Iterable[str]] | None = None
    results: Callable[[NodeContext], bool] | None = None
    outputs: OutputCheck | None = None
    copied_outputs: OutputCheck | None = None
    node: Callable[[NodeContext], bool] | None = None
    flags: Callable[[GraphContext, Sequence[NodeContext]], Iterable[str]] | None = None
    applies: Callable[..., bool] | None = None

    def concerns(self, target: Target) -> bool:
        """Return whether code for a target has the defect."""
        name = "cpu" if target.is_cpu else target.arch if target.is_gfx9 else target.backend
        return name in self.targets
