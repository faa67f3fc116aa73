# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is decided about the code of a graph before any of it is emitted.

`plan_code` is pure and imports neither torch-mlir nor the compiler: a plan is part of the cache
key, ``hipdnn-iree explain`` and ``show --format plan`` print it, and the emitter follows it.  What
it holds comes from the ops (``jit.ops``: strategies, flags) and from known defects of the compiler
(``jit.workarounds``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

from ..graph_api.frozen import FrozenGraph
from .node_context import GraphContext, Layout, NodeContext
from .ops import info
from .ops.conv_geometry import EXPLICIT_PADDING
from .strategies import choose
from .target import Target
from .workarounds import for_plan, workaround
from .workarounds.rule import OutputCheck, Workaround

__all__ = ["CodePlan", "FlagPlan", "NodePlan", "plan_code"]


@dataclass(frozen=True, kw_only=True, eq=False)
class NodePlan:
    """What is decided about one node.

    Attributes
    ----------
    strategy : str
        Empty where the op has one only.
    materialised : tuple of str
        Ports of the operands that are copied before the node.
    widened : bool
        Whether these are converted from half to float.
    dim_by_dim : bool
        Whether sums and extremes over several dims are taken over one after the other.
    copied_results : bool
        Whether the results are copied.
    copied_outputs : tuple of str
        Ports of outputs of the graph that are copied by an op that computes.
    settled_outputs : tuple of str
        Ports of outputs that are copied before they are brought into their memory order.
    workarounds : tuple of str
        The defects that are avoided here, by number.
    layouts : mapping of port to Layout
        How the results are laid out, as far as that is known.
    costs : mapping of str to float
        Estimates in microseconds by which the rule chose among strategies; they say nothing about
        the code, and are not in `CodePlan.text`.
    """

    strategy: str = ""
    materialised: tuple[str, ...] = ()
    widened: bool = False
    dim_by_dim: bool = False
    copied_results: bool = False
    copied_outputs: tuple[str, ...] = ()
    settled_outputs: tuple[str, ...] = ()
    workarounds: tuple[str, ...] = ()
    layouts: Mapping[str, Layout] = field(default_factory=dict)
    costs: Mapping[str, float] = field(default_factory=dict)

    @property
    def explicit_padding(self) -> bool:
        """Whether the padding is a concatenation with zeros."""
        return any(number in self.workarounds for number in EXPLICIT_PADDING)

    def facts(self) -> Iterator[tuple[str, str]]:
        """Yield what is decided, by name, where there is anything to say."""
        if self.strategy:
            yield "strategy", self.strategy
        ports = [*self.materialised, *(("results",) if self.copied_results else ())]
        ports += self.settled_outputs
        if ports:
            yield "materialised", ",".join(ports)
        if self.widened:
            yield "widened", "half"
        if self.dim_by_dim:
            yield "sums", "dim by dim"
        if self.copied_outputs:
            yield "copied", ",".join(self.copied_outputs)
        if self.explicit_padding:
            yield "padding", "explicit"
        if self.workarounds:
            yield "workarounds", ",".join(self.workarounds)


class FlagPlan(NamedTuple):
    """A compiler flag for the whole graph, and what asks for it.

    Attributes
    ----------
    flag : str
    reason : str
        A defect (``W-005``), a strategy (``conv_fprop=img2col``) or an op.
    """

    flag: str
    reason: str


@dataclass(frozen=True, eq=False)
class CodePlan:
    """All decisions about the code of a graph for a target.

    Attributes
    ----------
    ops : tuple of str
        The op of each node, in the graph's canonical order.
    nodes : tuple of NodePlan
    flag_plans : tuple of FlagPlan
    """

    ops: tuple[str, ...]
    nodes: tuple[NodePlan, ...]
    flag_plans: tuple[FlagPlan, ...]

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags, each once."""
        return tuple(dict.fromkeys(plan.flag for plan in self.flag_plans))

    @cached_property
    def text(self) -> str:
        """The plan as lines without any name of the user's: an ingredient of the cache key."""
        lines = [
            " ".join((f"n{k}", op, *(f"{name}={text}" for name, text in node.facts())))
            for k, (op, node) in enumerate(zip(self.ops, self.nodes, strict=True))
            if any(node.facts())
        ]
        lines += [f"{plan.flag} {plan.reason}" for plan in self.flag_plans]
        return "\n".join(lines)

    @property
    def workarounds(self) -> tuple[str, ...]:
        """The defects that are avoided somewhere in the graph, by number."""
        asked = {p.reason for p in self.flag_plans if p.reason.startswith("W-")}
        return tuple(sorted(asked.union(*(node.workarounds for node in self.nodes))))

    def as_dict(self, graph: FrozenGraph) -> dict[str, Any]:
        """Return the plan of a graph as JSON-ready data, with the labels of its nodes."""
        return {
            "nodes": [
                {
                    "node": frozen.label,
                    "op": op,
                    "strategy": node.strategy or None,
                    "help": _help(op, node.strategy),
                    "estimates_us": {name: round(us, 1) for name, us in node.costs.items()},
                    "materialised": list(node.materialised),
                    "results_materialised": node.copied_results,
                    "outputs_copied": [*node.copied_outputs, *node.settled_outputs],
                    "explicit_padding": node.explicit_padding,
                    "workarounds": list(node.workarounds),
                }
                for frozen, op, node in zip(graph.nodes, self.ops, self.nodes, strict=True)
            ],
            "flags": [{"flag": p.flag, "reason": p.reason} for p in self.flag_plans],
            "workarounds": [
                {"id": one.id, "title": one.title, "instead": one.instead}
                for one in map(workaround, self.workarounds)
            ],
        }

    def lines(self, graph: FrozenGraph) -> Iterator[str]:
        """Yield the plan of a graph in words."""
        for frozen, op, node in zip(graph.nodes, self.ops, self.nodes, strict=True):
            yield f"{frozen.label} ({op})"
            for name, text in node.facts():
                about = _help(op, text) if name == "strategy" else ""
                yield f"  {name}: {text}{f' ({about})' if about else ''}"
            if node.costs:
                told = ", ".join(f"{name} {us:,.1f} us" for name, us in node.costs.items())
                yield f"  estimates for one core: {told}"
        yield from (f"flag {p.flag} (for {p.reason})" for p in self.flag_plans)
        for one in map(workaround, self.workarounds):
            yield f"{one.id}: {one.title}; {one.instead}"


def _help(op: str, strategy: str) -> str:
    """Return what a strategy of an op emits."""
    known = info(op).strategies
    return known.named(strategy).help if known and strategy else ""


def plan_code(
    graph: FrozenGraph, target: Target, strategies: Iterable[str] = (), copies: str = ""
) -> CodePlan:
    """Return the plan of a graph.

    Parameters
    ----------
    graph : FrozenGraph
    target : Target
    strategies : iterable of str
        ``op=strategy`` for ops that are not to have their default one, as in
        ``compiler.strategies``.
    copies : str
        Which operands are materialised whatever the rules say (`options.COPIES`): of nodes other
        than pointwise ones, with their results (``"products"``), and from half to float
        (``"widened"``), or of every node (``"all"``).  With ``"sums"`` none is, but sums over
        several dims are taken over one after the other.

    Raises
    ------
    SettingError
        If a strategy is unknown or does not fit.
    """
    around = GraphContext(graph, target)
    layouts = {uid: _argument_layout(graph, uid) for uid in graph.inputs}
    contexts, plans = [], []
    for node, strategy in zip(graph.nodes, choose(graph, target, strategies), strict=True):
        given = {port: layouts.get(uid, Layout()) for port, uid in node.inputs.items()}
        context, plan = _plan_node(NodeContext(around, node, strategy, given), copies)
        contexts.append(context)
        plans.append(plan)
        layouts.update((node.outputs[port], found) for port, found in plan.layouts.items())
    ops = tuple(node.op.NAME for node in graph.nodes)
    return CodePlan(ops, tuple(plans), tuple(_flags(around, contexts)))


def _argument_layout(graph: FrozenGraph, uid: int) -> Layout:
    spec = graph.tensors[uid]
    if spec.runtime_scalar:
        return Layout()
    return Layout(spec.layout.order, bool(spec.layout.broadcast), argument=True)


def _plan_node(context: NodeContext, more: str) -> tuple[NodeContext, NodePlan]:
    """Return a node's plan, and the node with operands as they are after their copies."""
    node, rules = context.node, for_plan(context.target)
    found: set[str] = set()
    copies = [(rule.id, port) for rule in rules if rule.operands for port in rule.operands(context)]
    computes = not (context.moves or context.pointwise)
    apart = more == "all" or (more in ("products", "widened") and computes)
    wanted = {port for _, port in copies} | (set(_copyable(context)) if apart else set())
    ports = tuple(port for port in node.inputs if port in wanted)
    operands = {**context.operands, **dict.fromkeys(ports, Layout())}
    context = NodeContext(context.around, node, context.strategy, operands)
    stored = [port for port, uid in node.outputs.items() if not context.graph.tensors[uid].virtual]

    def struck(rule: Workaround, check: OutputCheck | None) -> list[str]:
        ports = [port for port in stored if check and check(context, port)]
        found.update([rule.id] if ports else [])
        return ports

    op = info(node.op.NAME)
    known = op.strategies
    copied = tuple(port for rule in rules for port in struck(rule, rule.copied_outputs))
    settled = tuple(port for rule in rules for port in struck(rule, rule.outputs))
    results = {rule.id for rule in rules if rule.results and rule.results(context)}
    copied_results = bool(results) or apart
    found |= results | {number for number, _ in copies}
    found |= {rule.id for rule in rules if rule.node and rule.node(context)}
    plan = NodePlan(
        strategy=context.strategy,
        materialised=ports,
        widened=apart and more == "widened",
        dim_by_dim=op.adds_up and more == "sums",
        copied_results=copied_results,
        copied_outputs=copied,
        settled_outputs=settled,
        workarounds=tuple(sorted(found | set(op.avoids(context)))),
        layouts={
            port: _result_layout(context, port, copied=copied_results or port in copied)
            for port in node.outputs
        },
        costs=known.costs(context) if known else {},
    )
    return context, plan


def _copyable(context: NodeContext) -> Iterator[str]:
    """Yield the ports of operands that are more than a number."""
    for port in context.node.inputs:
        spec = context.spec(port)
        if spec.value is None and not spec.runtime_scalar and prod(spec.dims) > 1:
            yield port


def _result_layout(context: NodeContext, port: str, *, copied: bool) -> Layout:
    """Return how a result is expected to be laid out.

    The compiler moves transposes through convolutions and elementwise ops, so that a result is
    laid out as its input, or as its full-sized operands are when they agree.
    """
    node, operands = context.node, context.operands
    passed_on = info(node.op.NAME).layout(context)
    if passed_on or context.moves:
        found = passed_on or Layout()
        converted = context.kind(port) not in [context.kind(p) for p in node.inputs]
        return Layout(found.order) if copied or converted else found
    like = node.op.LIKE.get(port)
    if like is not None:
        return Layout(operands[like].order)
    dims = context.dims(port)
    orders = {x.order for p, x in operands.items() if context.dims(p) == dims}
    return Layout(orders.pop() if len(orders) == 1 else ())


def _flags(around: GraphContext, nodes: list[NodeContext]) -> Iterator[FlagPlan]:
    """Yield the flags of ops, of defects and of strategies, each once."""
    yield from _once((flag, n.op.NAME) for n in nodes for flag in info(n.op.NAME).flags(n))
    # The latest numbers first: the order of flags is part of the key.
    for rule in reversed(for_plan(around.target)):
        if rule.flags:
            yield from (FlagPlan(flag, rule.id) for flag in rule.flags(around, nodes))
    yield from _once(
        (flag, f"{n.op.NAME}={n.strategy}")
        for n in nodes
        for table in [info(n.op.NAME).strategies]
        if table and n.strategy
        for flag in table.named(n.strategy).flags
    )


def _once(asked: Iterable[tuple[str, str]]) -> Iterator[FlagPlan]:
    found: dict[str, str] = {}
    for flag, reason in asked:
        found.setdefault(flag, reason)
    yield from (FlagPlan(flag, reason) for flag, reason in found.items())
