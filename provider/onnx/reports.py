# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What sessions of this process have claimed, for those who listen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .model import Model
from .partition import Partition

__all__ = ["HEADS", "each_size", "listening", "summary", "table_row", "tell"]

Report = tuple[Model, Partition]

_listeners: list[list[Report]] = []


@contextmanager
def listening() -> Iterator[list[Report]]:
    """Collect what the sessions that are made meanwhile claim: graph and partition of each."""
    found: list[Report] = []
    _listeners.append(found)
    try:
        yield found
    finally:
        # By identity: two that listen may have heard the same.
        _listeners[:] = [one for one in _listeners if one is not found]


def tell(model: Model, found: Partition) -> None:
    """Tell those who listen."""
    for listener in _listeners:
        listener.append((model, found))


def summary(reports: list[Report]) -> dict[str, Any]:
    """Return the JSON form: counts, the graphs of every group, and why other nodes are in none."""
    compiled = [name for _, found in reports for name in found.compiled]
    groups: list[dict[str, Any]] = []
    for _, found in reports:
        for number, group in enumerate(found.groups):
            for name, nodes in group.program.nodes.items():
                plan = group.plans[name]
                groups.append(
                    {
                        "name": f"group_{number}/{name}",
                        "engine": plan.engine,
                        "policy": plan.policy,
                        "why": plan.why,
                        "code": group.code(name),
                        "each_size": group.each_size(name),
                        "nodes": list(nodes),
                    }
                )
    return {
        "nodes": sum(len(model.nodes) for model, _ in reports),
        "assigned": sum(len(g.model.nodes) for _, found in reports for g in found.groups)
        + len(compiled),
        "compiled": compiled,
        "groups": groups,
        "declined": [d.as_dict() for _, found in reports for d in found.declined],
    }


HEADS = ("graph", "engine", "chosen by", "code for", "µs", "nodes")
"""Of a table of graphs, whose rows `table_row` gives."""


def table_row(group: Mapping[str, Any], us: float | None) -> tuple[object, ...]:
    """Return a graph of the JSON form, and its time alone, for people."""
    policy, why = group["policy"], group["why"]
    chosen = why if why == policy else f"{policy}: {why}"
    nodes = ", ".join(group["nodes"])
    return group["name"], group["engine"], chosen, group["code"], us, nodes


def each_size(groups: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return why graphs of the JSON form have code for each size, in sentences."""
    return [
        f"{g['name']} has code for each size: {g['each_size']}" for g in groups if g["each_size"]
    ]
