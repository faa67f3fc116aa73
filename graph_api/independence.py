# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which dynamic dims may be padded: those along which no op mixes entries.

A size that is rounded up adds entries at the end of a dim.  They are harmless when each result
entry comes from the operand entries of the same position alone: then whatever stands in the added
entries stays there, through all nodes, and is cut off at the end.  Each op states for an axis of an
operand which axis of its results follows it entry by entry, or what mixes it (``Op.follows``).  An
op that does not state it is taken to mix.
"""

from __future__ import annotations

from collections.abc import Iterator

from .dynamic_dim import DERIVED
from .errors import Problem
from .frozen import FrozenGraph, FrozenNode
from .ops import OPS
from .ops.base import Axis, Op

__all__ = ["RULES", "mixing"]

RULES: dict[str, str] = {
    "MIX-01": "no op mixes entries along a dim that is padded",
    "MIX-02": "the op is known to keep the entries of a padded dim apart",
}

_HINT = "build(exact=True) compiles each size that is met"


def mixing(graph: FrozenGraph) -> Iterator[Problem]:
    """Yield every node that mixes entries along a dynamic dim, with what mixes them.

    When nothing is yielded, each result of the graph, cut to some sizes, is that of the operands
    cut to these sizes, whatever else the operands hold.  (Keys that a padding mask hides are the
    one exception: they have the weight zero, so they must be finite.)
    """
    used = {uid for node in graph.nodes for uid in node.inputs.values()} | set(graph.outputs)
    for node in graph.nodes:
        for port, uid in node.inputs.items():
            for axis, name in enumerate(graph.tensors[uid].dynamic):
                if name and (found := _problem(graph, node, port, axis, name, used)) is not None:
                    yield found


def _problem(
    graph: FrozenGraph, node: FrozenNode, port: str, axis: int, name: str, used: set[int]
) -> Problem | None:
    def wrong(rule: str, got: str, wanted: str) -> Problem:
        got = f"dim {axis} ({name}): {got}" if name != DERIVED else f"dim {axis}: {got}"
        return Problem(rule=rule, node=node.label, port=port, got=got, wanted=wanted, hint=_HINT)

    if name == DERIVED:
        got = "an extent that varies with a dynamic dim without being it"
        return wrong("MIX-01", got, "the dynamic dim itself")
    specs = {p: graph.tensors[u] for p, u in (*node.inputs.items(), *node.outputs.items())}
    found = node.op.follows(
        Axis(
            port=port,
            axis=axis,
            dims={p: spec.dims for p, spec in specs.items()},
            marks={p: spec.dynamic for p, spec in specs.items()},
            results=tuple(node.outputs),
            given=node.source,
        )
    )
    if found is None:
        known = [name for name, op in OPS.items() if op.follows is not Op.follows]
        return wrong("MIX-02", node.op.NAME, f"one of {', '.join(known)}")
    wanted = "each entry of the result from the operand's entry of the same position"
    if isinstance(found, str):
        return wrong("MIX-01", found, wanted)
    for result, uid in node.outputs.items():
        if uid not in used:
            continue
        if result not in found:
            return wrong("MIX-01", f"{result} is a sum over it", wanted)
        to, marks = found[result], graph.tensors[uid].dynamic
        if to is not None and (not marks or marks[to] != name):
            return wrong("MIX-01", f"{result} does not have the dim as it is", wanted)
    return None
