# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The picture of a partition: a page of HTML that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..pages.diagram import MOST_BOXES, Arrow, Box, Diagram
from ..pages.markup import Markup, element
from ..pages.page import document, long_text, picture, section, table
from .model import Model
from .partition import Partition
from .reports import HEADS, Report, each_size, table_row

__all__ = ["html"]

_CLAIMED, _LEFT = "hipDNN graph (one fill each)", "left to ONNX Runtime"


def html(found: Mapping[str, Any], reports: Sequence[Report]) -> str:
    """Return the page of a model: counts, the picture, groups and declined nodes.

    Parameters
    ----------
    found : mapping
        As of `model_report.examine`.
    reports : sequence of (Model, Partition)
    """
    return document(str(found["model"]), *_body(found, reports))


def _body(found: Mapping[str, Any], reports: Sequence[Report]) -> Iterator[Markup]:
    times = found["times"]
    yield element("p", f"{found['assigned']} of {found['nodes']} nodes run as hipDNN graphs.")
    if times["run_us"] is not None:
        text = (
            f"A run takes {times['run_us']:.1f} µs, its graphs by themselves "
            f"{times['graphs_us']:.1f} µs; ONNX Runtime's CPU provider {times['cpu_us']:.1f} µs."
        )
        yield element("p", text)
    if found["verified"] is not None:
        word = "are" if found["verified"] else "are NOT"
        yield element(
            "p",
            f"The results {word} those of ONNX Runtime's own provider.",
            class_="good" if found["verified"] else "bad",
        )
    yield section("Partition", *(_drawn(model, partition) for model, partition in reports))
    us = {one["name"]: one["us"] for one in times["graphs"]}
    yield table(
        "graphs",
        HEADS,
        [
            (*row, long_text(str(nodes)))
            for *row, nodes in (table_row(g, us.get(g["name"])) for g in found["groups"])
        ],
    )
    yield from (element("p", line, class_="hint") for line in each_size(found["groups"]))
    yield table(
        "declined nodes",
        ("node", "op", "rule", "reason"),
        [(d["node"], d["op"], d["rule"], long_text(d["reason"])) for d in found["declined"]],
    )


def _drawn(model: Model, partition: Partition) -> Markup:
    if len(model.nodes) > MOST_BOXES:
        return element("p", f"{len(model.nodes)} nodes are too many for a picture.")
    graph_of: dict[str, str] = {}
    for number, group in enumerate(partition.groups):
        for name, nodes in group.program.nodes.items():
            graph_of.update(dict.fromkeys(nodes, f"group_{number}/{name}"))
    tints = {graph: i for i, graph in enumerate(dict.fromkeys(graph_of.values()))}
    reasons = {d.node: f"{d.rule}: {d.reason}" for d in partition.declined}
    place = {node.label: i for i, node in enumerate(model.nodes)}
    makers = {name: place[node.label] for node in model.nodes for name in node.outputs if name}
    boxes = []
    for node in model.nodes:
        graph = graph_of.get(node.label)
        about = graph or reasons.get(node.label, "")
        boxes.append(
            Box(
                title=node.op,
                lines=(node.label,) if node.label != node.op else (),
                about=f"{node.label}\n{about}",
                colour=0 if graph else 1,
                tint=tints[graph] if graph else None,
            )
        )
    arrows = [
        Arrow(start=makers[name], end=place[node.label], about=name)
        for node in model.nodes
        for name in node.inputs
        if name in makers
    ]
    return picture(
        Diagram(title="the model's nodes", boxes=boxes, arrows=arrows, keys=(_CLAIMED, _LEFT))
    )
