# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What became of a graph that was compiled for PyTorch."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from typing import Any

__all__ = ["Group", "Report", "Stayed", "noted", "reports"]

_KEPT = 256


@dataclass(frozen=True, kw_only=True)
class Group:
    """Nodes that are one hipDNN graph.

    Attributes
    ----------
    part, name : str
        Of the call that it is in, and its own within that; no part where PyTorch's engine is
        chosen, as PyTorch then runs the nodes as they were traced.
    engine : str
    nodes : tuple of str
        Names of FX nodes.
    ops : tuple of str
        What they are in the torch dialect.
    """

    part: str
    name: str
    engine: str
    nodes: tuple[str, ...]
    ops: tuple[str, ...]

    @property
    def key(self) -> tuple[str, str]:
        """Part and name, which no other graph of the same report has."""
        return self.part, self.name


@dataclass(frozen=True, kw_only=True)
class Stayed:
    """A node that PyTorch executes, with the rule and the reason."""

    node: str
    op: str
    rule: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Report:
    """What became of one graph; a model has several where Dynamo breaks it, or trains it.

    Attributes
    ----------
    name : str
        ``forward``, ``inference`` or ``backward``, with a number.
    parts : int
        Calls into our plans: runs of nodes that are served without PyTorch in between.
    groups : tuple of Group
    stayed : tuple of Stayed
    seconds : float
        Wall time of the compilation.
    """

    name: str
    parts: int
    groups: tuple[Group, ...]
    stayed: tuple[Stayed, ...]
    seconds: float

    @property
    def engines(self) -> dict[str, int]:
        """Number of ops by engine; those that stay are ``"pytorch"``'s."""
        found = Counter[str]()
        for group in self.groups:
            found[group.engine] += len(group.ops)
        if self.stayed:
            found["pytorch"] = len(self.stayed)
        return dict(found)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "name": self.name,
            "parts": self.parts,
            "engines": self.engines,
            "groups": [
                {
                    "part": g.part,
                    "name": g.name,
                    "engine": g.engine,
                    "nodes": list(g.nodes),
                    "ops": list(g.ops),
                }
                for g in self.groups
            ],
            "stayed": [
                {"node": s.node, "op": s.op, "rule": s.rule, "reason": s.reason}
                for s in self.stayed
            ],
            "seconds": self.seconds,
        }

    def __str__(self) -> str:
        ops = ", ".join(f"{count} by {name}" for name, count in self.engines.items()) or "no ops"
        graphs, parts = (
            _count(n, w) for n, w in ((len(self.groups), "graph"), (self.parts, "part"))
        )
        lines = [f"{self.name}: {ops}, in {graphs} and {parts}"]
        lines += [f"  {s.node} ({s.op}) stays: [{s.rule}] {s.reason}" for s in self.stayed]
        return "\n".join(lines)


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number != 1)}"


_REPORTS: deque[Report] = deque(maxlen=_KEPT)


def noted(report: Report) -> None:
    """Keep a report."""
    _REPORTS.append(report)


def reports(*, clear: bool = False) -> tuple[Report, ...]:
    """Return what became of the last 256 graphs, oldest first; ``clear`` forgets them."""
    found = tuple(_REPORTS)
    if clear:
        _REPORTS.clear()
    return found
