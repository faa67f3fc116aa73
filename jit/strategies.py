# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which strategies a graph's nodes can have, and which they get: by rule, or as asked for.

Costs nothing to import beside `graph_api`: settings, cache keys and `Engine.knobs` ask here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from ..graph_api.errors import SettingError
from ..graph_api.frozen import FrozenGraph
from ..graph_api.ops import OPS
from .node_context import GraphContext, NodeContext
from .ops import info
from .ops.strategy import Strategies
from .target import Target

__all__ = [
    "AUTO",
    "PLAIN",
    "Choice",
    "choices",
    "choose",
    "default_strategies",
    "merged",
    "pinned",
    "portable",
    "tables",
]

AUTO = "auto"
"""Every node gets what the rules choose for it."""
PLAIN = "plain"
ALL = "all"

_VARIABLE = "HIPDNN_IREE_STRATEGIES"


def tables() -> dict[str, Strategies]:
    """Return the strategies of every op that has more than one, by the op's name."""
    return {op: found for op in OPS if (found := info(op).strategies)}


class Choice(NamedTuple):
    """What the nodes of one op in a graph can be.

    Attributes
    ----------
    names : tuple of str
        The strategies that fit all of them; ``"auto"`` first where the rules choose several.
    default : str
        One of the names.
    tried : tuple of str
        Those that autotuning measures.
    """

    names: tuple[str, ...]
    default: str
    tried: tuple[str, ...]


@lru_cache(maxsize=16)
def default_strategies(graph: FrozenGraph, target: Target) -> tuple[str, ...]:
    """Return what the rules choose for each node; empty where an op has one strategy only.

    Kept for the last graphs: knobs are offered, and code is planned, for the same one.
    """
    around = GraphContext(graph, target)
    found = []
    for node in graph.nodes:
        known = info(node.op.NAME).strategies
        found.append(known.rule(NodeContext(around, node)) if known else "")
    return tuple(found)


def portable(graph: FrozenGraph, target: Target, wanted: Iterable[str] = ()) -> tuple[str, ...]:
    """Return what is wanted, and one of the Torch dialect for each op that a rule gives another.

    Of several that fit all nodes of an op it is the first in the op's table.
    """
    around, wanted = GraphContext(graph, target), tuple(wanted)
    asked = {text.partition("=")[0] for text in wanted}
    others: dict[str, str] = {}
    for node, name in zip(graph.nodes, default_strategies(graph, target), strict=True):
        known = info(op := node.op.NAME).strategies
        if known is None or op in asked or ALL in asked or known.named(name).portable:
            continue
        nodes = [NodeContext(around, n) for n in graph.nodes if op == n.op.NAME]
        fitting = (s.name for s in known.table if s.portable and all(map(s.fits, nodes)))
        others[op] = next(fitting, name)
    return (*wanted, *(f"{op}={name}" for op, name in others.items()))


def choices(graph: FrozenGraph, target: Target) -> dict[str, Choice]:
    """Return what can be chosen for each op of a graph, where there is a choice."""
    around, defaults = GraphContext(graph, target), default_strategies(graph, target)
    by_op: dict[str, list[tuple[NodeContext, str]]] = {}
    for node, default in zip(graph.nodes, defaults, strict=True):
        if default:
            by_op.setdefault(node.op.NAME, []).append((NodeContext(around, node), default))
    found = {}
    for op, nodes in sorted(by_op.items()):
        known = info(op).strategies
        assert known is not None
        names = [s.name for s in known.table if all(s.fits(context) for context, _ in nodes)]
        by_rule = {default for _, default in nodes}
        common = len(by_rule) == 1
        default = by_rule.pop() if common else AUTO
        listed = (*(() if common else (AUTO,)), *names)
        tried = tuple(n for n in listed if n == default or known.named(n).tried)
        if len(listed) > 1:
            found[op] = Choice(listed, default, tried)
    return found


def choose(graph: FrozenGraph, target: Target, wanted: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the strategy of each node; empty for those whose op has one only.

    Parameters
    ----------
    graph : FrozenGraph
    target : Target
    wanted : iterable of str
        ``op=strategy`` as in the setting ``compiler.strategies``: for all nodes of the op.
        ``all=plain`` is for every node that a strategy of that name fits.

    Raises
    ------
    SettingError
        If an op or strategy is unknown, or does not fit one of the op's nodes; with all of them.
    """
    asked = dict(text.partition("=")[::2] for text in wanted)
    defaults = default_strategies(graph, target)
    if not asked:
        return defaults
    wrong = list(_unknown(asked))
    everything = asked.pop(ALL, AUTO)
    around, found = GraphContext(graph, target), []
    for node, default in zip(graph.nodes, defaults, strict=True):
        known = info(node.op.NAME).strategies
        if known is None:
            found.append("")
            continue
        context, name = NodeContext(around, node), asked.get(node.op.NAME, "")
        fitting = [one.name for one in known.table if one.fits(context)]
        if not name:
            name = everything if everything in fitting else AUTO
        if name != AUTO and name not in fitting and not wrong:
            why = known.named(name).why
            wrong.append(
                f"{_VARIABLE} asks for strategy {name!r} of {node.op.NAME}, which does not fit "
                f"node {node.label!r} for {target} (it is for {why}); {', '.join(fitting)} do"
            )
        found.append(default if name == AUTO else name)
    if wrong:
        raise SettingError("\n".join(wrong))
    return tuple(found)


def merged(wanted: Iterable[str], more: Mapping[str, str]) -> tuple[str, ...]:
    """Return ``op=strategy`` texts with those of some ops replaced, as the setting takes them."""
    found = {**dict(text.partition("=")[::2] for text in wanted), **more}
    return tuple(f"{op}={name}" for op, name in sorted(found.items()))


def pinned(wanted: Iterable[str], op: str) -> bool:
    """Return whether ``op=strategy`` texts say how an op is to be expressed."""
    asked = dict(text.partition("=")[::2] for text in wanted)
    return asked.get(op, asked.get(ALL, AUTO)) != AUTO


def _unknown(asked: Mapping[str, str]) -> Iterator[str]:
    for op, name in asked.items():
        known = info(op).strategies if op in OPS else None
        if op == ALL:
            names = [PLAIN, AUTO]
        elif known:
            names = [AUTO, *(one.name for one in known.table)]
        else:
            ops = f"ops with strategies are {', '.join(tables())}, or {ALL}"
            yield f"{_VARIABLE} names {op!r}; {ops}"
            continue
        if name not in names:
            yield f"{_VARIABLE} asks for strategy {name!r} of {op}; allowed: {' | '.join(names)}"
