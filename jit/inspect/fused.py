# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which nodes of a graph share a dispatch: asked of the compiler, which stops after it has fused.

Nothing is generated for it and nothing is run, so this takes a fraction of a compilation.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...graph_api.frozen import FrozenGraph
from ..lru import LruCache
from ..options import BuildOptions
from ..target import Target
from .attribution import attributed

__all__ = ["Fused", "fused"]

_known: LruCache[tuple[Fused, ...]] = LruCache(64)


@dataclass(frozen=True, kw_only=True, slots=True)
class Fused:
    """One launch, in the order of the program.

    Attributes
    ----------
    name : str
        Entry point of the compiled code.
    nodes : tuple of int
        Places of the nodes in the graph that it computes (parts of); empty where it moves data.
    reads, writes : tuple of str
        Tensors, as ``"2x64x28x28xf16"``.
    at_load : bool
        It runs once, when the module is loaded.
    """

    name: str
    nodes: tuple[int, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    at_load: bool


def fused(graph: FrozenGraph, target: Target, options: BuildOptions) -> tuple[Fused, ...]:
    """Return the dispatches of a graph's code, the way in which it is compiled.

    The last answers are kept.

    Raises
    ------
    CompileError
        If lowering or the compiler fails.
    """
    from ..pipeline import find, flags
    from ..stages import MLIR, STAGES

    found = find(graph, target, options)
    job = found.job

    def ask() -> tuple[Fused, ...]:
        if found.entry is not None and MLIR in found.entry.names:
            source = found.entry.read(MLIR)
        else:
            job.made["graph"] = graph
            source = STAGES["torch"].write(STAGES["torch"].make(job))
        facts, _ = job.compiler().perform(
            "flow",
            source,
            {"flags": list(flags(graph, target, job.options.code, job.plan))},
            label=f"the dispatches of {graph.name or 'the graph'}",
        )
        calls = facts["dispatches"]
        return tuple(
            Fused(
                name=call["name"],
                nodes=nodes,
                reads=tuple(call["reads"]),
                writes=tuple(call["writes"]),
                at_load=call["at_load"],
            )
            for call, nodes in zip(calls, attributed(graph, calls), strict=True)
        )

    return _known.get(job.key.digest, ask)
