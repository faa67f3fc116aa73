# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which nodes of an FX graph engines serve, and the graph with those as calls of plans."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from operator import getitem
from typing import Any, NamedTuple

from ...graph_api.errors import Problem
from ...jit.target import Target
from ..engine_ids import engine_id
from ..engines.torch.torch_engine import TorchEngine
from ..offload import PIPELINE, Executor, Module, module, offload, outline
from ..offload.api import Asked
from ..offload.finished import Program, planned
from ..offload.kernel import Watch
from ..offload.pipeline import Options
from ..offload.sizes import Family, family
from ..selection.order import id_of
from ..torch_import import load_torch
from .fx_module import module_text
from .part import part_call
from .report import Group, Report, Stayed
from .weights import HeldWeights

__all__ = ["RULES", "Sizes", "Split", "Splitter"]

log = logging.getLogger("hipdnn_iree.torch")

RULES: dict[str, str] = {
    "DYNAMO-01": "a node of a torch graph is served where torch-mlir imports the graph it is in",
    "DYNAMO-02": "a part of a torch graph is served where each of its graphs has a plan",
}

Sizes = Mapping[str, Any]


class Split(NamedTuple):
    """A graph module whose parts are calls of plans, and what became of its nodes.

    Attributes
    ----------
    module : GraphModule
    groups : tuple of Group
        Of a graph that was made before it was settled who runs what.
    stayed : tuple of Stayed
    """

    module: Any
    groups: tuple[Group, ...]
    stayed: tuple[Stayed, ...]

    def report(self, name: str, seconds: float) -> Report:
        """Return what became of the graph, which took some seconds of compilation."""
        parts = {group.part for group in self.groups if group.part}
        return Report(
            name=name, parts=len(parts), groups=self.groups, stayed=self.stayed, seconds=seconds
        )


class Splitter:
    """Graphs that differ in sizes alone, as parts that plans serve and what stays in PyTorch.

    Parameters
    ----------
    graph_at : callable
        Returns the graph module at some sizes: of ATen ops, with fake tensors as ``meta["val"]``.
    names : sequence of str
        The open sizes; those of a call may have more.
    target : Target
    engine, policy : str, optional
        As of ``Graph.build``.
    device_id : int, optional
        The GPU that the tensors are on.
    weights : collection of int
        The inputs, by number, that are the same tensors at most calls; none where sizes are open.

    Attributes
    ----------
    open : tuple of Group
        What PyTorch's functions or an engine's code may run, whichever is faster; once a graph
        was made.
    left : tuple of Group
        What PyTorch's functions run of that.
    settled : bool
        Whether it stays so, for graphs of other sizes too.
    """

    def __init__(
        self,
        graph_at: Callable[[Sizes], Any],
        names: Sequence[str],
        target: Target,
        *,
        engine: str | None = None,
        policy: str | None = None,
        device_id: int | None = None,
        weights: Collection[int] = (),
    ) -> None:
        self._device_id, self._weights = device_id, frozenset(weights)
        self._graph_at, self._names, self._target = graph_at, tuple(names), target
        self._asked: Asked = {"engine": engine, "policy": policy}
        self._stays: dict[str, Problem] | None = None
        self._planned: frozenset[str] = frozenset()
        self._native: list[Group] = []
        self._texts: dict[tuple[Any, ...], dict[str, str]] = {}
        self._families: dict[tuple[tuple[Group, ...], str], Family | None] = {}
        self.open: tuple[Group, ...] = ()
        self.left: tuple[Group, ...] = ()
        self.settled = False

    def at(self, sizes: Sizes) -> Split:
        """Return the graph module at some sizes."""
        graph_module = self._graph_at(sizes)
        ops = {node.name: str(node.target) for node in _calls(graph_module.graph)}
        if self._stays is None:
            self._stays = self._decided(graph_module.graph)
        stays = dict(self._stays)
        groups = [*self._native, *map(_by_pytorch, self.left)]
        fused = self._fused(graph_module)
        weights = _weights(fused.graph, self._weights)
        for name in _parts(fused):
            part = getattr(fused, name)
            try:
                call, graphs = self._served(name, part.graph, sizes, weights[name])
            except Exception as error:  # of torch-mlir's importer, of the compiler, or of a buffer
                log.warning("%s stays in PyTorch: %s", name, error)
                stays |= {n.name: _problem("DYNAMO-02", error) for n in _calls(part.graph)}
                continue
            delattr(fused, name)
            setattr(fused, name, call)
            groups += graphs
        self._texts.clear()
        stayed = [
            Stayed(node=name, op=op, rule=stays[name].rule, reason=stays[name].reason)
            for name, op in ops.items()
            if name in stays
        ]
        return Split(fused, tuple(groups), tuple(stayed))

    def _decided(self, graph: Any) -> dict[str, Problem]:
        """Return the nodes that no engine serves, by name, and note who runs the others.

        What PyTorch's engine is chosen for runs as it was traced, without a plan around its
        functions.
        """
        asked: Asked = {**self._asked, "whole_nodes": True}
        try:
            found = outline(module_text(_of_arguments(graph)), self._target, **asked)
        except Exception as error:  # torch-mlir's importer raises whatever it meets
            log.warning("a graph stays in PyTorch: %s", error)
            return {n.name: _problem("DYNAMO-01", error) for n in _calls(graph)}
        options = module("", self._target, **self._asked).options
        nobody_says = _nobody_says(options)
        for one in found.regions:
            chosen = options.choose(one.graph)
            group = Group(part="", name=one.name, engine=chosen.name, nodes=one.nodes, ops=one.ops)
            if chosen.name == TorchEngine.NAME:
                self._native.append(group)
                continue
            self._planned |= set(one.nodes)
            if nobody_says and chosen.policy != "config":
                self.open += (group,)
        return {remark.location: remark.problem for remark in found.declined}

    def _fused(self, graph_module: Any) -> Any:
        assert self._stays is not None
        native = {name for group in (*self._native, *self.left) for name in group.nodes}
        stays = {*self._stays, *native}
        return _fused(graph_module, _wanted(graph_module.graph, self._planned - native, stays))

    def _served(
        self, name: str, graph: Any, sizes: Sizes, weights: Collection[int]
    ) -> tuple[Callable[..., Any], list[Group]]:
        """Return the call of a part, some inputs of which are weights, and its graphs."""
        executor: Executor | HeldWeights
        key = self.left, name  # by what is left to PyTorch, a name is that of another part
        if key not in self._families:
            self._families[key] = self._family(name) if self._names else None
        every = self._families[key]
        if every is not None and every.covers(sizes):
            program, plans = every.at(sizes)
            executor = Executor(program, plans, self._device_id)
            graphs = {} if self.settled else self._read(name, module_text(graph)).graphs
        else:
            text = module_text(graph)
            made = offload(text, self._target, name=name, weights=weights, **self._asked)
            graphs, program = made.graphs, planned(made.program())
            plans = {one.name: one.plan for one in graphs.values()}
            if weights:
                executor = HeldWeights(program, plans)
            else:
                executor = Executor(program, plans, self._device_id)
        groups = [
            Group(
                part=name,
                name=one.name,
                engine=plans[one.name].engine,
                nodes=one.nodes,
                ops=one.ops,
            )
            for one in graphs.values()
        ]
        return _call(graph, executor, weights), groups

    def _family(self, name: str) -> Family | None:
        """Return the programs of a part for all sizes."""

        def program(sizes: Sizes) -> Program:
            key = tuple(sizes.values())
            if key not in self._texts:
                fused = self._fused(self._graph_at(sizes))
                self._texts[key] = {k: module_text(getattr(fused, k).graph) for k in _parts(fused)}
            return self._read(name, self._texts[key][name]).program("main")

        try:
            build = module("", self._target, **self._asked).options.build
            found = family(program, self._names)
            return found and found.prepared(build)
        except Exception as error:  # a graph that is none at some size
            log.info("%s has no code for all sizes: %s", name, error)
            return None

    def _read(self, name: str, text: str) -> Module:
        asked: Asked = {**self._asked, "compiles": False}
        return module(text, self._target, name=name, **asked).run(*PIPELINE)


def _by_pytorch(group: Group) -> Group:
    """Return nodes as a group that PyTorch's functions run."""
    return replace(group, part="", engine=TorchEngine.NAME)


def _nobody_says(options: Options) -> bool:
    """Whether neither options nor settings say which engines, or who chooses them, on a CPU."""
    now = options.settings
    asked = options.engine or options.policy
    said = asked or now.engine_policy or now.engine_policy_order or now.engine_order
    without = engine_id(TorchEngine.NAME) in {id_of(word, now) for word in now.engine_deselect}
    return options.target.is_cpu and not said and not without


def _parts(fused: Any) -> list[str]:
    return [node.target for node in fused.graph.nodes if node.op == "call_module"]


def _weights(graph: Any, weights: Collection[int]) -> dict[str, list[int]]:
    """Return the inputs of each part, by number, that are weights of the whole graph."""
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    held = {node for k, node in enumerate(inputs) if k in weights}
    return {
        node.target: [k for k, one in enumerate(node.args) if one in held]
        for node in graph.nodes
        if node.op == "call_module"
    }


def _calls(graph: Any) -> list[Any]:
    return [n for n in graph.nodes if n.op == "call_function" and n.target is not getitem]


def _problem(rule: str, error: Exception) -> Problem:
    said = " ".join(str(error).split())[:300]
    return Problem(rule=rule, got=f"{type(error).__name__}: {said}", wanted=RULES[rule])


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


def _wanted(graph: Any, planned: Collection[str], stays: Collection[str]) -> set[str]:
    """Return the nodes that become parts: what is planned, less views that nothing in it reads.

    A view costs nothing in PyTorch; a plan would copy it.  What is neither planned nor stays, such
    as a clone that MLIR folds into its reader, goes with its readers too.
    """
    wanted: set[str] = set()
    for node in reversed(graph.nodes):
        if node.op != "call_function" or node.name in stays:
            continue
        if node.target is getitem:
            served = node.args[0].name in planned
        elif node.name in planned and not _is_view(node):
            served = True
        else:
            served = any(user.name in wanted for user in node.users)
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


def _call(
    graph: Any, executor: Executor | HeldWeights, weights: Collection[int]
) -> Callable[..., Any]:
    """Return a call on tensors for a part."""
    inputs = [node.meta["val"] for node in graph.nodes if node.op == "placeholder"]
    results = [node.meta["val"] for node in _results(graph)]
    call = part_call(executor, inputs, results, weights)
    if isinstance(_returned(graph), list | tuple):
        return call

    def single(*tensors: Any, watch: Watch | None = None) -> Any:
        return call(*tensors, watch=watch)[0]

    return single
