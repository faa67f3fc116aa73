# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is known of each tensor while a graph is being built, and which calls are wrong already.

Views are found when they are asked for and kept until something changes that they follow from, so
that a script pays for each node once, and for a setter as much as depends on it.  ``freeze`` does
not use them: it resolves the whole graph once more, and has the last word.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from .dtypes import DataType
from .errors import GraphError, Problem
from .ops.base import Ports, PortView
from .tensor_rules import check_tensor
from .validate import (
    Resolution,
    compute_type,
    foreign,
    located,
    output_views,
    resolve_node,
    source_view,
)

if TYPE_CHECKING:
    from .building import GraphBuilder, Node
    from .tensor import Tensor

__all__ = ["Inference"]

# Rules of a single tensor that no later operation mends.
_OF_TENSORS = ("TENSOR-04", "TENSOR-05", "TENSOR-06")


class Inference:
    """The views of a graph's tensors, found one by one."""

    def __init__(self, graph: GraphBuilder) -> None:
        self._graph = graph
        self._found = Resolution()
        self._producers: dict[int, Node] = {}
        self._readers: dict[int, list[Node]] = {}
        self._registered = 0

    def view(self, tensor: Tensor) -> PortView:
        """Return what is known of a tensor now; ``dims`` is None where they do not follow yet."""
        self._register()
        views = self._found.views
        waiting, opened = [tensor], set()
        while waiting:  # no recursion: graphs are deeper than Python's stack
            top = waiting[-1]
            node = self._producers.get(id(top))
            if id(top) in views:
                waiting.pop()
            elif node is None:
                views[id(top)] = source_view(self._graph, top)
            elif id(node) in opened:  # and what is missing now belongs to a cycle
                self._resolve(node)
            else:
                opened.add(id(node))
                waiting += [t for t in node.inputs.values() if id(t) not in views]
        return views[id(tensor)]

    def forget(self, tensor: Tensor) -> None:
        """Drop what follows from a tensor that is about to change."""
        views = self._found.views
        if id(tensor) not in views:  # so it is for a new tensor, of which each attribute is set
            return
        waiting = [tensor]
        while waiting:
            top = waiting.pop()
            if views.pop(id(top), None) is None:
                continue  # then nothing that follows from it is known either
            producer = self._producers.get(id(top))
            for node in (*self._readers.get(id(top), ()), *([producer] if producer else ())):
                waiting += node.outputs.values()

    def admit(self, node: Node) -> None:
        """Take a node that is about to be added to the graph.

        Raises
        ------
        GraphError
            If it is wrong whatever follows: later calls can set data types and the dims of
            results, and problems that these can mend are left for ``freeze``.
        """
        for tensor in node.inputs.values():
            self.view(tensor)
        for tensor in node.outputs.values():
            self.forget(tensor)
        number = len(self._graph.nodes)
        self._found.labels[id(node)] = node.name or f"{node.op.NAME}_{number}"
        problems, views = self._resolve(node), self._found.views
        unknown = any(views[id(tensor)].dims is None for tensor in node.outputs.values())
        certain = [*self._broken_operands(node, unknown)]
        if problems and not certain:
            certain = [*self._certain(node, problems)]
        if certain:
            for tensor in node.outputs.values():
                views.pop(id(tensor), None)
            certain = [replace(problem, at=problem.at or node.at) for problem in certain]
            count = len(certain)
            raise GraphError(f"graph {self._graph.name!r} breaks {count} rule(s)", certain)
        self._link(node)
        self._registered += 1

    def _register(self) -> None:
        nodes = self._graph.nodes
        while self._registered < len(nodes):
            node = nodes[self._registered]
            self._found.labels[id(node)] = node.name or f"{node.op.NAME}_{self._registered}"
            for tensor in node.outputs.values():  # which may have been read before it was written
                self.forget(tensor)
            self._link(node)
            self._registered += 1

    def _link(self, node: Node) -> None:
        for tensor in node.outputs.values():
            self._producers[id(tensor)] = node
        for tensor in node.inputs.values():
            self._readers.setdefault(id(tensor), []).append(node)

    def _resolve(self, node: Node) -> list[Problem]:
        resolve_node(self._graph, node, self._found)
        problems, self._found.problems = self._found.problems, []
        return problems

    def _broken_operands(self, node: Node, unknown: bool) -> Iterator[Problem]:
        """Yield the problems of a node's operands that are there whatever it computes."""
        label = self._found.labels[id(node)]
        yield from foreign(self._graph, node, label)
        for tensor, port in {tensor: port for port, tensor in node.inputs.items()}.items():
            if unknown or tensor.given_strides is not None:
                found = check_tensor(self._graph, tensor, ())
                yield from (located(p, tensor, label, port) for p in found if p.rule in _OF_TENSORS)

    # ------------------------------------------------------------------ once there are problems

    def _certain(self, node: Node, problems: Sequence[Problem]) -> Iterator[Problem]:
        """Yield those of a node's problems that no later call mends."""
        given = node.compute_data_type is not DataType.UNSET
        own = {"NODE-01", "NODE-03"} if given else {"NODE-01"}
        if found := [problem for problem in problems if problem.rule in own]:
            yield from found
            return
        if any(self.view(tensor).dims is None for tensor in node.inputs.values()):
            return
        if any(map(self._is_open, self._before(node))):
            return
        tries = [self._check(node, kind) for kind in DataType if kind is not DataType.UNSET]
        if any(asked for _, asked in tries):
            return
        for problem in self._check(node, None)[0]:
            key = (problem.rule, problem.port)
            if all(any(key == (p.rule, p.port) for p in found) for found, _ in tries):
                yield problem

    def _before(self, node: Node) -> Iterator[Node]:
        """Yield the nodes that the dims of a node's operands follow from."""
        waiting, seen = [*node.inputs.values()], set[int]()
        while waiting:
            top = waiting.pop()
            producer = self._producers.get(id(top))
            if producer is not None and top.given_dims is None and id(producer) not in seen:
                seen.add(id(producer))
                yield producer
                waiting += producer.inputs.values()

    def _is_open(self, node: Node) -> bool:
        """Whether the dims of a node's results are a default that a later call may replace."""
        return self._check(node, None)[1]

    def _check(self, node: Node, kind: DataType | None) -> tuple[list[Problem], bool]:
        """Return what the op's rules say, and whether they asked for dims that are not set yet.

        ``kind`` takes the place of the types that the script has not set.
        """
        views = {p: self.view(t) for p, t in node.inputs.items()}
        results = output_views(self._graph, node)
        compute = compute_type(self._graph, node, views)
        if kind is not None:
            tensors = {**node.inputs, **node.outputs}
            views, results = (
                {
                    p: v if tensors[p].given_type is not DataType.UNSET else _typed(v, kind)
                    for p, v in found.items()
                }
                for found in (views, results)
            )
            given = (node.compute_data_type, self._graph.compute_data_type)
            compute = next((k for k in given if k is not DataType.UNSET), kind)
        ports = _Asking(self._found.labels[id(node)], views, results, compute)
        op = node.op.resolve(ports)
        problems = list(op.check(ports))
        if not problems:
            op.infer(ports)
        return problems, ports.asked


def _typed(view: PortView, kind: DataType) -> PortView:
    return replace(view, data_type=kind)


class _Asking(Ports):
    """Ports that remember whether dims of a result were asked for that nobody has set."""

    __slots__ = ("_results", "asked")

    def __init__(
        self,
        node: str,
        inputs: Mapping[str, PortView],
        results: Mapping[str, PortView],
        compute: DataType,
    ) -> None:
        super().__init__(node, {**inputs, **results}, compute)
        self._results = results
        self.asked = False

    def given(self, port: str) -> tuple[int, ...] | None:
        found = super().given(port)
        self.asked |= found is None and port in self._results
        return found
