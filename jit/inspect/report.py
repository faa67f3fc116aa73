# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One record per dispatch of a compiled graph, and totals: see the package."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from ...graph_api.frozen import FrozenGraph
from ..options import BuildOptions
from ..target import Target
from ..work import Work, graph_work, node_work
from .attribution import attributed
from .config import Config, read_configs
from .estimate import Estimate, HotLoop, estimate, hot_loop
from .isa import Kernel, read_kernels
from .machine import Sheet, limits_of, sheet_of
from .notices import Notice, notices
from .occupancy import Occupancy, occupancy
from .roofline import Roofline, roofline
from .units import product_of

__all__ = ["Dispatch", "Inspection", "inspect_graph"]

_BITS = re.compile(r"\d+")


@dataclass(frozen=True, kw_only=True)
class Dispatch:
    """One launch, in the order of the program.

    Attributes
    ----------
    name : str
        Entry point; identical kernels are compiled once and launched several times.
    nodes : tuple of str
        Labels of the graph nodes that it computes (parts of).
    places : tuple of int
        Places of these nodes in the graph.
    reads, writes : tuple of str
        Tensors, as ``"2x64x28x28xf16"``.
    at_load : bool
        It runs once, when the module is loaded.
    work : Work
        Arithmetic of the nodes (of one that several dispatches share: all of it, in the one with
        matrix instructions, else in the first), and the bytes of the tensors; 0 bytes where they
        have open dims.
    config : Config
    kernel : Kernel or None
        What was read from gfx9 assembly; None for other targets.
    occupancy, roofline : optional
        Bounds; None for other targets, the second also without a data sheet.
    hot_loop : HotLoop or None
        What is in the loop that takes most of the kernel's instructions.
    estimate : Estimate or None
        Of the kernel's time, by `jit.inspect.estimate`; None where the workgroups of a launch, or
        the figures of the product, are not known.
    """

    name: str
    nodes: tuple[str, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    at_load: bool
    work: Work
    config: Config
    places: tuple[int, ...] = ()
    kernel: Kernel | None = None
    occupancy: Occupancy | None = None
    roofline: Roofline | None = None
    hot_loop: HotLoop | None = None
    estimate: Estimate | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the data for JSON."""
        return {
            "name": self.name,
            "nodes": list(self.nodes),
            "reads": list(self.reads),
            "writes": list(self.writes),
            "at_load": self.at_load,
            "flops": self.work.flops,
            "matrix_flops": self.work.matrix_flops,
            "bytes": self.work.nbytes,
            **_plain(self.config),
            "kernel": None if self.kernel is None else self.kernel.as_dict(),
            "occupancy": None if self.occupancy is None else asdict(self.occupancy),
            "roofline": None if self.roofline is None else asdict(self.roofline),
            "hot_loop": None if self.hot_loop is None else self.hot_loop.as_dict(),
            "estimate": None if self.estimate is None else asdict(self.estimate),
        }


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """What the compiler made of a graph.

    Attributes
    ----------
    target : Target
    sheet : Sheet or None
        Product whose figures the estimates use.
    statistics : mapping
        ``dispatches``, ``fills``, ``copies``, ``transient_bytes``.
    dispatches : tuple of Dispatch
    work : Work
        Of the whole graph; its bytes are those of inputs and outputs only.
    least : Roofline or None
        Of that work: what one fused kernel would take at least.
    notices : tuple of Notice
    """

    target: Target
    sheet: Sheet | None
    statistics: Mapping[str, Any]
    dispatches: tuple[Dispatch, ...]
    work: Work
    least: Roofline | None = None
    notices: tuple[Notice, ...] = field(default=())

    @property
    def moved_bytes(self) -> int | None:
        """Bytes of all dispatches of one execution; None where dims are open."""
        sizes = [d.work.nbytes for d in self.dispatches if not d.at_load]
        return sum(sizes) if all(sizes) else None

    @property
    def seconds(self) -> float | None:
        """Least time of all dispatches of one execution, one after the other."""
        return _sum(d.roofline.seconds if d.roofline else None for d in self._once)

    @property
    def estimate_s(self) -> float | None:
        """Estimated time of all dispatches of one execution, without what launches take."""
        return _sum(d.estimate.seconds if d.estimate else None for d in self._once)

    @property
    def _once(self) -> list[Dispatch]:
        return [d for d in self.dispatches if not d.at_load]

    def as_dict(self) -> dict[str, Any]:
        """Return the data for JSON."""
        return {
            "target": str(self.target),
            "figures_of": None if self.sheet is None else self.sheet.sku,
            **self.statistics,
            "flops": self.work.flops,
            "matrix_flops": self.work.matrix_flops,
            "least_bytes": self.work.nbytes,
            "moved_bytes": self.moved_bytes,
            "least_s": None if self.least is None else self.least.seconds,
            "roofline_s": self.seconds,
            "estimate_s": self.estimate_s,
            "dispatch": [d.as_dict() for d in self.dispatches],
            "warnings": [n.as_dict() for n in self.notices],
        }


def inspect_graph(
    graph: FrozenGraph, target: Target, folder: Path, options: BuildOptions
) -> Inspection:
    """Compile a graph anew and return what was made of it.

    Parameters
    ----------
    graph : FrozenGraph
    target : Target
        Kernels are read for gfx9; for others there are dispatches, nodes and tiles.
    folder : Path
        Where every stage is written, as by ``pipeline.dump``.

    Raises
    ------
    CompileError
        If lowering or the compiler fails.
    OSError
        If the folder cannot be written.
    """
    from ..compiler.client import default_compiler
    from ..pipeline import dump, flags
    from ..stages import MLIR

    compiled = dump(graph, target, folder, options)
    facts, _ = default_compiler(options.workers).perform(
        "flow",
        (folder / MLIR).read_bytes(),
        {"flags": list(flags(graph, target, options.code))},
        label=f"the dispatches of {graph.name or 'the graph'}",
    )
    kernels = {k.name: k for k in read_kernels(folder)} if target.is_gfx9 else {}
    dispatches = _dispatches(graph, target, facts["dispatches"], kernels, read_configs(folder))
    sheet, work = sheet_of(target), graph_work(graph)
    kinds = [_kind(k) for k in kernels.values() if k.mfma]
    least = roofline(work, sheet, kinds[0] if kinds else "", matrix=bool(kinds)) if sheet else None
    return Inspection(
        target=target,
        sheet=sheet,
        statistics=compiled.statistics,
        dispatches=dispatches,
        work=work,
        least=least,
        notices=notices(graph, dispatches, compiled.statistics),
    )


def _dispatches(
    graph: FrozenGraph,
    target: Target,
    calls: Sequence[Mapping[str, Any]],
    kernels: Mapping[str, Kernel],
    configs: Mapping[str, Config],
) -> tuple[Dispatch, ...]:
    limits, sheet = limits_of(target), sheet_of(target)
    served = attributed(graph, calls)
    shares = _shares(graph, calls, served, kernels)
    found = []
    for call, places, (matrix, other) in zip(calls, served, shares, strict=True):
        kernel = kernels.get(call["name"])
        sizes = [*_read_bytes(call), *map(_nbytes, call["writes"])]
        work = Work(matrix, other, sum(sizes) if all(sizes) else 0)
        found.append(
            Dispatch(
                name=call["name"],
                nodes=tuple(graph.nodes[place].label for place in places),
                places=places,
                reads=tuple(call["reads"]),
                writes=tuple(call["writes"]),
                at_load=call["at_load"],
                work=work,
                config=configs.get(call["name"], Config()),
                kernel=kernel,
                occupancy=occupancy(kernel, limits) if kernel and limits else None,
                roofline=roofline(work, sheet, _kind(kernel), matrix=bool(kernel.mfma))
                if kernel and sheet and all(sizes)
                else None,
                hot_loop=hot_loop(kernel.code, target.arch) if kernel else None,
                estimate=estimate(kernel, work, limits, sheet)
                if kernel and limits and sheet and all(sizes)
                else None,
            )
        )
    return tuple(found)


def _shares(
    graph: FrozenGraph,
    calls: Sequence[Mapping[str, Any]],
    served: Sequence[tuple[int, ...]],
    kernels: Mapping[str, Kernel],
) -> list[tuple[int, int]]:
    """Return the arithmetic of each dispatch: every node's counts once."""
    shares = [[0, 0] for _ in calls]
    for k, node in enumerate(graph.nodes):
        serving = [i for i, nodes in enumerate(served) if k in nodes]
        with_mfma = [i for i in serving if (at := kernels.get(calls[i]["name"])) and at.mfma]
        if serving:
            work = node_work(graph, node)
            chosen = shares[(with_mfma or serving)[0]]
            chosen[0] += work.matrix_flops
            chosen[1] += work.other_flops
    return [(matrix, other) for matrix, other in shares]


def _kind(kernel: Kernel) -> str:
    """Return the operands of a kernel's matrix instructions, ``""`` without one."""
    return next((found.kind for name in kernel.mfma if (found := product_of(name))), "")


def _sum(times: Iterable[float | None]) -> float | None:
    """Return the sum of times; None where one is unknown, or there are none."""
    known = list(times)
    found = [t for t in known if t is not None]
    return sum(found) if found and len(found) == len(known) else None


def _read_bytes(call: Mapping[str, Any]) -> list[int]:
    """Return the bytes that are read of each tensor: all, or those of the parts that are taken."""
    whole = [_nbytes(t) for t in call["reads"]]
    parts = [[_nbytes(t) for t in some] for some in call["loads"]]
    if len(parts) != len(whole):
        return whole
    return [
        min(size, sum(some)) if some and all(some) else size
        for size, some in zip(whole, parts, strict=True)
    ]


def _nbytes(tensor: str) -> int:
    """Return the bytes of ``2x3xf16``; 0 with an open dim."""
    *dims, kind = tensor.split("x")
    if "?" in dims:
        return 0
    bits = _BITS.search(kind)
    return max(1, prod(map(int, dims)) * max(int(bits[0]), 4) // 8) if bits else 0


def _plain(config: Config) -> dict[str, Any]:
    return {
        "pipeline": config.pipeline,
        "workgroup_size": list(config.workgroup_size),
        "subgroup_size": config.subgroup_size,
        "lowering_config": dict(config.lowering),
    }
