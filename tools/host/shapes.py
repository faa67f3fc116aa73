# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls with override shapes: a plan, and buffers of many shapes for the host in C."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hipdnn_iree.graph_api.formats.flatbuffer.encode import encode
from hipdnn_iree.graph_api.frozen import FrozenGraph

from tools.host.driver import Host, Job, write_job, write_shapes

__all__ = ["Cases", "Shapes", "shapes_of"]

Shapes = Mapping[int, tuple[tuple[int, ...], tuple[int, ...]]]
"""Dims and strides by uid."""


def shapes_of(graph: FrozenGraph) -> dict[int, tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return the shapes of all inputs and outputs."""
    return {
        uid: (graph.tensors[uid].dims, graph.tensors[uid].strides)
        for uid in (*graph.inputs, *graph.outputs)
    }


class Cases:
    """Calls of one plan, in files for the host's scenario ``shapes``."""

    def __init__(self, folder: Path, base: FrozenGraph) -> None:
        self.folder, self.base = folder, base
        self.lines: list[str] = []
        self.served: list[Job] = []
        folder.mkdir()
        self.plan = write_job(folder / "plan", encode(base))

    def add(self, graph: FrozenGraph, shapes: Shapes, status: int = 0) -> None:
        """Add a call on buffers of a graph's sizes; ``shapes`` are given with it."""
        at = self.folder / str(len(self.lines))
        skew = 16 * (len(self.lines) % 2)
        job = write_job(at, b"", graph=graph, skew=skew, seed=len(self.lines))
        write_shapes(at / "shapes", shapes)
        self.lines.append(f"{status}\t{job.arguments[2]}\t{at / 'shapes'}\n")
        if not status:
            self.served.append(job)

    def run(self, host: Host, passes: int = 2, **options: Any) -> dict[str, str]:
        """Execute all; what is served is compared with the reference."""
        (self.folder / "list").write_text("".join(self.lines))
        graph, config, _ = self.plan.arguments
        found = host.run("shapes", graph, config, self.folder / "list", passes, **options)
        for job in self.served:
            job.verify()
        return found
