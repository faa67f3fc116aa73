"""The record of one reason, made briefly."""

from __future__ import annotations

from ...graph_api.errors import Problem
from ...graph_api.frozen import FrozenNode

__all__ = ["problem"]


def problem(
    node: FrozenNode, rule: str, port: str, got: object, wanted: str, hint: str = ""
) -> Problem:
    """Return why a port (or a parameter) of a node is not served."""
    return Problem(rule=rule, node=node.label, port=port, got=str(got), wanted=wanted, hint=hint)
