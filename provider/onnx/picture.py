# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The picture of a partition: a page of HTML that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from .model import Model, Node
from .partition import Partition
from .reports import Report

__all__ = ["html"]

_COLOURS = ("#cfe3ff", "#d5f2cf", "#ffe7b8", "#f0d3f5", "#cdf0ee", "#f7d6cf", "#e4e0ff", "#eef3b5")
_WIDTH, _HEIGHT, _GAP_X, _GAP_Y = 168, 38, 14, 26
_MOST_NODES = 3000

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 14px/1.4 sans-serif; margin: 2em; color: #222 }}
table {{ border-collapse: collapse; margin: 1em 0 }}
td, th {{ border: 1px solid #ccc; padding: 3px 8px; text-align: left; vertical-align: top }}
svg text {{ font: 11px sans-serif }}
.picture {{ overflow: auto; border: 1px solid #ccc; max-height: 80vh }}
</style></head><body>
<h1>{title}</h1>
{body}
</body></html>
"""


def html(found: Mapping[str, Any], reports: Sequence[Report]) -> str:
    """Return the page of a model: counts, the picture, groups and declined nodes.

    Parameters
    ----------
    found : mapping
        As of `model_report.examine`.
    reports : sequence of (Model, Partition)
    """
    title = escape(str(found["model"]))
    return _PAGE.format(title=title, body="\n".join(_body(found, reports)))


def _body(found: Mapping[str, Any], reports: Sequence[Report]) -> Iterator[str]:
    times = found["times"]
    yield f"<p>{found['assigned']} of {found['nodes']} nodes run as hipDNN graphs.</p>"
    if times["run_us"] is not None:
        yield f"<p>A run takes {times['run_us']:.1f} µs; {times['cpu_us']:.1f} µs without.</p>"
    if found["verified"] is not None:
        word = "are" if found["verified"] else "are NOT"
        yield f"<p>The results {word} those of ONNX Runtime's own provider.</p>"
    for model, partition in reports:
        yield f'<div class="picture">{_svg(model, partition)}</div>'
    us = {one["name"]: f"{one['us']:.1f}" for one in times["graphs"]}
    yield _table(
        ("graph", "engine", "µs", "nodes"),
        [
            (g["name"], g["engine"], us.get(g["name"], ""), ", ".join(g["nodes"]))
            for g in found["groups"]
        ],
    )
    yield _table(
        ("declined node", "op", "rule", "reason"),
        [(d["node"], d["op"], d["rule"], d["reason"]) for d in found["declined"]],
    )


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    lines = [f"<tr>{''.join(f'<td>{escape(str(c))}</td>' for c in row)}</tr>" for row in rows]
    return (
        f"<table><tr>{''.join(f'<th>{escape(h)}</th>' for h in heads)}</tr>{''.join(lines)}</table>"
    )


def _svg(model: Model, partition: Partition) -> str:
    if len(model.nodes) > _MOST_NODES:
        return f"<p>{len(model.nodes)} nodes are too many for a picture.</p>"
    places, width, height = _lay_out(model)
    # Nodes of one hipDNN graph have one colour.
    colour: dict[str, str] = {}
    graph_of: dict[str, str] = {}
    for number, group in enumerate(partition.groups):
        for name, nodes in group.program.nodes.items():
            for label in nodes:
                colour.setdefault(label, _COLOURS[len(set(graph_of.values())) % len(_COLOURS)])
            graph_of.update(dict.fromkeys(nodes, f"group_{number}/{name}"))
    reasons = {d.node: f"{d.rule}: {d.reason}" for d in partition.declined}
    makers = {name: node for node in model.nodes for name in node.outputs if name}
    parts = []
    for node in model.nodes:
        x, y = places[node.label]
        for name in node.inputs:
            maker = makers.get(name)
            if maker is not None:
                fx, fy = places[maker.label]
                parts.append(
                    f'<line x1="{fx + _WIDTH // 2}" y1="{fy + _HEIGHT}" x2="{x + _WIDTH // 2}" '
                    f'y2="{y}" stroke="#999"/>'
                )
    parts += [
        _box(
            node,
            places[node.label],
            colour.get(node.label),
            graph_of.get(node.label) or reasons.get(node.label, ""),
        )
        for node in model.nodes
    ]
    return f'<svg width="{width}" height="{height}">{"".join(parts)}</svg>'


def _box(node: Node, place: tuple[int, int], colour: str | None, about: str) -> str:
    x, y = place
    dashes = "" if colour else ' stroke-dasharray="4"'
    return (
        f'<g><title>{escape(node.label)}\n{escape(about)}</title><rect x="{x}" y="{y}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" rx="4" fill="{colour or "#f4f4f4"}" '
        f'stroke="#666"{dashes}/><text x="{x + 6}" y="{y + 16}">{escape(node.op)}</text>'
        f'<text x="{x + 6}" y="{y + 30}" fill="#555">{escape(node.label[:26])}</text></g>'
    )


def _lay_out(model: Model) -> tuple[dict[str, tuple[int, int]], int, int]:
    """Return the place of each node: a row for each step from the inputs."""
    row_of: dict[str, int] = {}
    rows: list[int] = []
    places = {}
    for node in model.nodes:
        row = max((row_of[name] + 1 for name in node.inputs if name in row_of), default=0)
        row_of.update((name, row) for name in node.outputs if name)
        while len(rows) <= row:
            rows.append(0)
        places[node.label] = (
            10 + rows[row] * (_WIDTH + _GAP_X),
            10 + row * (_HEIGHT + _GAP_Y),
        )
        rows[row] += 1
    width = 20 + max(rows, default=1) * (_WIDTH + _GAP_X)
    return places, width, 20 + len(rows) * (_HEIGHT + _GAP_Y)
