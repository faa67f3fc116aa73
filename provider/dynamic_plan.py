# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plans of graphs with dynamic dims: the buffers determine the sizes.

For each combination of sizes there is a plan with fixed shapes, made at its first use; the last few
are kept.  The plans of the IREE engine share one compiled module
(``engines.iree.iree_dynamic_plan``); other engines build a plan for exactly these sizes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ..graph_api.dynamic import at_sizes, sizes_of
from ..graph_api.errors import BindError, GraphError
from ..graph_api.frozen import FrozenGraph
from ..graph_api.specialise import as_shapes, unnamed
from .plan import Plan, Shapes

if TYPE_CHECKING:
    import numpy as np

    from ..jit.runtime.pending import Pending

__all__ = ["DynamicPlan", "ExactPlan"]


@dataclass(kw_only=True, repr=False)
class DynamicPlan(Plan):
    """A graph with dynamic dims; ``graph`` has the examples as dims.

    Sizes are read from the shapes of the inputs (arrays and ``__dlpack__`` objects).  If these are
    addresses, give the sizes: ``plan.with_sizes({"n": 17}).execute(...)``.
    """

    def with_sizes(self, sizes: Mapping[str, int]) -> Plan:
        key = tuple(sorted(sizes.items()))
        return self._others.get(key, lambda: self._at(at_sizes(self.graph, sizes), sizes))

    def with_shapes(self, shapes: Shapes) -> Plan:
        """Return the plan for some dims; it has code of its own if more than the sizes differ."""
        wanted = as_shapes(self.graph, self._by_uid(shapes))
        dims = {uid: d for uid, (d, _) in wanted.items() if uid in self.graph.inputs}
        examples = {dim.name: dim.example for dim in self.graph.symbols}
        sizes = examples | sizes_of(self.graph, dims)
        plan = self.with_sizes(sizes)
        have = {uid: plan.graph.tensors[uid] for uid in wanted if uid in plan.graph.tensors}
        fits = len(have) == len(wanted) and all(
            d == have[uid].dims and s in (None, have[uid].strides) for uid, (d, s) in wanted.items()
        )
        if not fits:
            return super().with_shapes(shapes)
        if not unnamed(self.graph, plan.graph, wanted):
            return plan
        # That of `with_sizes` is for callers who know what the sizes mean for every buffer.
        return self._others.get(tuple(wanted.items()), lambda: self._left(replace(plan), wanted))

    @abstractmethod
    def _at(self, graph: FrozenGraph, sizes: Mapping[str, int]) -> Plan:
        """Return the plan for the graph at given sizes."""

    def _for(self, buffers: Mapping[int, Any]) -> Plan:
        """Return the plan for the sizes of the buffers, or raise `BindError`."""
        dims = {}
        for uid in self.graph.inputs:
            if self.graph.tensors[uid].dynamic:
                shape = getattr(buffers.get(uid), "shape", None)
                if shape is not None:
                    dims[uid] = tuple(shape)
        try:
            return self.with_sizes(sizes_of(self.graph, dims))
        except GraphError as error:
            raise BindError(f"{error.message}; nothing was executed", error.problems) from None

    def _execute(self, buffers: Mapping[int, Any], workspace: Any) -> None:
        self._for(buffers)._execute(buffers, workspace)

    def _submit(
        self, buffers: Mapping[int, Any], workspace: Any, after: Iterable[Pending]
    ) -> Pending:
        return self._for(buffers)._submit(buffers, workspace, after)

    def _many(self, sets: Sequence[Mapping[int, Any]], workspace: Any) -> None:
        plans = [(self._for(buffers), buffers) for buffers in sets]
        for _, group in groupby(plans, key=lambda pair: id(pair[0])):
            same = list(group)
            same[0][0]._many([buffers for _, buffers in same], workspace)

    def _run(self, inputs: Mapping[int, Any], copy: bool) -> dict[int, np.ndarray[Any, Any]]:
        return self._for(inputs)._run(inputs, copy)

    def _bind(self, buffers: Mapping[int, Any], workspace: Any, copy: bool) -> Callable[[], None]:
        return self._for(buffers)._bind(buffers, workspace, copy)


@dataclass(kw_only=True, repr=False)
class ExactPlan(DynamicPlan):
    """Each combination of sizes is built separately, as a graph with fixed dims.

    Attributes
    ----------
    stream : int or None
        Stream that the plans execute on (`on_stream`).
    """

    stream: int | None = None

    def _on(self, stream: int) -> Plan:
        return replace(self, stream=stream)

    def _at(self, graph: FrozenGraph, sizes: Mapping[str, int]) -> Plan:
        plan = self._by_itself(graph)
        return plan if self.stream is None else plan.on_stream(self.stream)
