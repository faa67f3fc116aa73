# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is worth a warning in compiled code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ...graph_api.frozen import FrozenGraph
from ..work import node_work

if TYPE_CHECKING:
    from .report import Dispatch

__all__ = ["RULES", "Notice", "notices"]

RULES: dict[str, str] = {
    "INSPECT-01": "matmuls, convolutions and attention are done by matrix instructions (gfx9)",
    "INSPECT-02": "a kernel's values fit into registers: none is spilled (gfx9)",
    "INSPECT-03": "a kernel needs no scratch memory (gfx9)",
    "INSPECT-04": "a node without a matmul is fused with the nodes that compute its operands",
    "INSPECT-05": "a node takes one dispatch",
    "INSPECT-06": "a graph takes no fills and no copies beside its dispatches",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Notice:
    """One finding that costs time.

    Attributes
    ----------
    rule : str
        What does not hold, from `RULES`.
    nodes : tuple of str
        Labels of the graph nodes that it is about.
    dispatches : tuple of str
        Entry points.
    text : str
        What was found.
    hint : str
        What to try; may be empty.
    """

    rule: str
    nodes: tuple[str, ...]
    dispatches: tuple[str, ...]
    text: str
    hint: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the data for JSON."""
        return asdict(self)


def notices(
    graph: FrozenGraph, dispatches: Sequence[Dispatch], statistics: Mapping[str, Any]
) -> tuple[Notice, ...]:
    """Return what is worth a warning, by rule."""
    found = (
        *_without_mfma(graph, dispatches),
        *_without_room(dispatches),
        *_unfused(graph, dispatches),
        *_spread(graph, dispatches),
        *_beside(statistics),
    )
    return tuple(sorted(found, key=lambda notice: notice.rule))


def _without_mfma(graph: FrozenGraph, dispatches: Sequence[Dispatch]) -> Iterator[Notice]:
    for place, node in enumerate(graph.nodes):
        serving = [d for d in dispatches if d.kernel and place in d.places]
        if not serving or not node_work(graph, node).matrix_flops:
            continue
        if not any(d.kernel.mfma for d in serving if d.kernel):
            yield Notice(
                rule="INSPECT-01",
                nodes=(node.label,),
                dispatches=tuple(d.name for d in serving),
                text=f"{node.op.NAME} is done by vector instructions",
                hint="16-bit operands and fixed extents, at least 16, suit matrix instructions; "
                "one channel to a group never does",
            )


def _without_room(dispatches: Sequence[Dispatch]) -> Iterator[Notice]:
    for d in {d.name: d for d in dispatches}.values():
        kernel = d.kernel
        if kernel is None:
            continue
        spills = kernel.vgpr_spills + kernel.sgpr_spills
        if spills:
            text = f"{kernel.vgpr_spills} vector and {kernel.sgpr_spills} scalar registers spilled"
            yield Notice(rule="INSPECT-02", nodes=d.nodes, dispatches=(d.name,), text=text)
        if kernel.scratch_bytes:
            text = f"{kernel.scratch_bytes} bytes of scratch memory for each thread"
            yield Notice(rule="INSPECT-03", nodes=d.nodes, dispatches=(d.name,), text=text)


def _unfused(graph: FrozenGraph, dispatches: Sequence[Dispatch]) -> Iterator[Notice]:
    """Yield dispatches without a matmul that read what another dispatch has just written."""
    makers = {uid: k for k, node in enumerate(graph.nodes) for uid in node.outputs.values()}
    served = {place for d in dispatches for place in d.places}
    for d in dispatches:
        mine = [graph.nodes[place] for place in d.places]
        if not mine or any(node_work(graph, node).matrix_flops for node in mine):
            continue
        given = {uid for node in mine for uid in node.inputs.values()}
        before = {makers[uid] for uid in given if uid in makers}
        apart = (before & served) - set(d.places)
        if apart:
            names = sorted({graph.nodes[place].label for place in apart})
            yield Notice(
                rule="INSPECT-04",
                nodes=(*names, *d.nodes),
                dispatches=(d.name,),
                text=f"{', '.join(d.nodes)} did not fuse with {', '.join(names)}",
            )


def _spread(graph: FrozenGraph, dispatches: Sequence[Dispatch]) -> Iterator[Notice]:
    for place, node in enumerate(graph.nodes):
        serving = [d.name for d in dispatches if place in d.places and not d.at_load]
        if len(serving) > 1:
            yield Notice(
                rule="INSPECT-05",
                nodes=(node.label,),
                dispatches=tuple(serving),
                text=f"{node.label} takes {len(serving)} dispatches",
            )


def _beside(statistics: Mapping[str, Any]) -> Iterator[Notice]:
    kinds = [f"{n} {kind}" for kind in ("fills", "copies") if (n := statistics.get(kind))]
    if kinds:
        yield Notice(rule="INSPECT-06", nodes=(), dispatches=(), text=" and ".join(kinds))
