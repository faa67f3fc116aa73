"""Which nodes of an FX graph engines serve, and the graph with those as calls of plans."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from operator import getitem
from typing import Any

from ...graph_api.errors import Problem
from ...jit.target import Target
from ..offload import Module, Outlined, offload, outline
from ..torch_import import load_torch
from .fx_module import module_text
from .part import part_call
from .report import Group, Stayed

__all__ = ["RULES", "split"]

log = logging.getLogger("hipdnn_iree.torch")

RULES: dict[str, str] = {
    "DYNAMO-01": "a node of a torch graph is served where torch-mlir imports the graph it is in",
    "DYNAMO-02": "a part of a torch graph is served where each of its graphs has a plan",
}


def split(
    graph_module: Any, target: Target, *, engine: str | None = None, policy: str | None = None
) -> tuple[Any, list[Group], list[Stayed]]:
    """Return a graph module in which parts are calls of plans.

    Parameters
    ----------
    graph_module : torch.fx.GraphModule
        Of ATen ops on tensors of fixed sizes, with fake tensors as ``meta["val"]``.
    target : Target
    engine, policy : str, optional
        As of ``Graph.build``.

    Returns
    -------
    graph_module : torch.fx.GraphModule
    groups : list of Group
    stayed : list of Stayed
    """
    build = partial(offload, target=target, engine=engine, policy=policy)
    ask = partial(outline, target=target, engine=engine, policy=policy, whole_nodes=True)
    ops = {node.name: str(node.target) for node in _calls(graph_module.graph)}
    stays = _declined(graph_module.graph, ask)
    fused = _fused(graph_module, _wanted(graph_module.graph, stays))
    groups: list[Group] = []
    for node in [n for n in fused.graph.nodes if n.op == "call_module"]:
        part = getattr(fused, node.target)
        try:
            call, found = _part(part.graph, node.target, build)
        except Exception as error:  # of torch-mlir's importer, of the compiler, or of a buffer
            log.warning("%s stays in PyTorch: %s", node.target, error)
            stays |= {n.name: _problem("DYNAMO-02", error) for n in _calls(part.graph)}
            continue
        groups += found
        delattr(fused, node.target)
        setattr(fused, node.target, call)
    stayed = [
        Stayed(node=name, op=op, rule=stays[name].rule, reason=stays[name].got)
        for name, op in ops.items()
        if name in stays
    ]
    return fused, groups, stayed


def _calls(graph: Any) -> list[Any]:
    return [n for n in graph.nodes if n.op == "call_function" and n.target is not getitem]


def _problem(rule: str, error: Exception) -> Problem:
    said = " ".join(str(error).split())[:300]
    return Problem(rule=rule, got=f"{type(error).__name__}: {said}", wanted=RULES[rule])


def _declined(graph: Any, ask: Callable[..., Outlined]) -> dict[str, Problem]:
    """Return the nodes that no engine serves, by name."""
    try:
        found = ask(module_text(_of_arguments(graph)))
    except Exception as error:  # torch-mlir's importer raises whatever it meets
        log.warning("a graph stays in PyTorch: %s", error)
        return {n.name: _problem("DYNAMO-01", error) for n in _calls(graph)}
    return {remark.location: remark.problem for remark in found.declined}


def _of_arguments(graph: Any) -> Any:
    """Return the graph with constants as arguments, and without results that are no tensors."""
    torch = load_torch()
    found = torch.fx.Graph()
    known: dict[Any, Any] = {}
    for node in graph.nodes:
        if node.op == "get_attr":
            known[node] = found.placeholder(node.name)
            known[node].meta = dict(node.meta)
        elif node.op != "output":
            known[node] = found.node_copy(node, known.__getitem__)
    found.output(tuple(known[node] for node in _results(graph)))
    return found


def _returned(graph: Any) -> Any:
    """Return what a graph returns: a node, or some, among which may be what is no tensor."""
    (output,) = (node for node in graph.nodes if node.op == "output")
    return output.args[0]


def _results(graph: Any) -> list[Any]:
    """Return the nodes that are results of a graph."""
    given = _returned(graph)
    every = given if isinstance(given, list | tuple) else [given]
    return [node for node in every if hasattr(node, "meta")]


def _wanted(graph: Any, stays: Mapping[str, Problem]) -> set[str]:
    """Return the nodes that become parts: what is served, less views that nothing in it reads.

    A view costs nothing in PyTorch; a plan would copy it.
    """
    wanted: set[str] = set()
    for node in reversed(graph.nodes):
        if node.op != "call_function" or node.name in stays:
            continue
        if node.target is getitem:
            source = node.args[0]
            served = source.op == "call_function" and source.name not in stays
        else:
            served = not _is_view(node) or any(user.name in wanted for user in node.users)
        if served:
            wanted.add(node.name)
    return wanted


def _is_view(node: Any) -> bool:
    return bool(getattr(node.target, "is_view", False)) or "unsafe_view" in str(node.target)


def _fused(graph_module: Any, wanted: set[str]) -> Any:
    """Return the graph with parts, as large as can be, as modules of their own."""
    from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    from torch.fx.passes.operator_support import OperatorSupportBase

    class Support(OperatorSupportBase):  # type: ignore[misc]
        def is_node_supported(self, submodules: Any, node: Any) -> bool:
            return node.name in wanted

    partitioner = CapabilityBasedPartitioner(
        graph_module, Support(), allows_single_node_partition=True
    )
    partitions = [
        partition
        for partition in partitioner.propose_partitions()
        if not all(_is_view(node) or node.target is getitem for node in partition.nodes)
    ]
    return partitioner.fuse_partitions(partitions, prefix="hipdnn_part_")


def _part(
    graph: Any, name: str, build: Callable[..., Module]
) -> tuple[Callable[..., Any], list[Group]]:
    """Return a call for a part, and its graphs."""
    module = build(module_text(graph), name=name)
    inputs = [node.meta["val"] for node in graph.nodes if node.op == "placeholder"]
    results = _results(graph)
    call = part_call(module, inputs, [node.meta["val"] for node in results])
    groups = [
        Group(
            part=name,
            name=executable.name,
            engine=executable.plan.engine,
            nodes=executable.nodes,
            ops=executable.ops,
        )
        for executable in module.graphs.values()
    ]
    if isinstance(_returned(graph), list | tuple):
        return call, groups
    return lambda *tensors: call(*tensors)[0], groups
