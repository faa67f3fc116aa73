# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How large a graph may be, so that reading and checking it takes seconds at most."""

from __future__ import annotations

from .errors import Problem

__all__ = ["MAX_NODES", "MAX_TENSORS", "too_large"]

MAX_NODES = 10_000
MAX_TENSORS = 40_000


def too_large(nodes: int, tensors: int) -> list[Problem]:
    """Return what is wrong with these counts; readers ask before they read the items."""
    counts = (("nodes", nodes, MAX_NODES), ("tensors", tensors, MAX_TENSORS))
    hint = "split it into several graphs"
    return [
        Problem(rule="GRAPH-08", port=port, got=f"{n} {port}", wanted=f"at most {most}", hint=hint)
        for port, n, most in counts
        if n > most
    ]
