# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A plan, and what executes its graph at other shapes without compiling: hipDNN's override shapes.

A host names the shapes with the buffers of a call, and nothing before the call says which dims
they will be of.  So when the plan is made every dim that may vary is looked for
(`graph_api.open_dims`), and code is compiled once for all sizes of those that the engine has such
code for.  Where other dims keep their entries apart, the graph's own code serves sizes up to its
own: operands are padded (`bucket_plan`).  Code that is in the cache is used too.  All else is
refused at once.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from ..graph_api.buckets import as_buckets
from ..graph_api.dynamic import sizes_of
from ..graph_api.errors import (
    CompileError,
    Decline,
    GraphError,
    NotPrecompiledError,
    NotSupportedError,
    Problem,
    SettingError,
)
from ..graph_api.frozen import FrozenGraph
from ..graph_api.open_dims import Group, open_dims, with_open_dims
from ..graph_api.specialise import ShapeLike, as_shapes, in_words, specialise, unnamed
from ..jit import support
from ..jit.target import Target
from .bucket_plan import BucketPlan, laid_out, problems
from .dynamic_plan import DynamicPlan
from .engines.iree.iree_dynamic_plan import DynamicIreePlan
from .engines.iree.iree_plan import IreePlan
from .plan import Plan

__all__ = ["RULES", "OverridePlans", "override_graph"]

log = logging.getLogger("hipdnn_iree.overrides")

RULES: dict[str, str] = {
    "OVERRIDE-01": "some dim of a graph with override shapes can vary without compiling",
    "OVERRIDE-02": "override shapes differ only in dims that the compiled code leaves open",
}


@dataclass(frozen=True, kw_only=True)
class OverridePlans:
    """A plan of the IREE engine with what serves its graph at other shapes.

    Attributes
    ----------
    plan : IreePlan
        For the shapes of the graph.
    sized : DynamicIreePlan or None
        One code for all sizes of the dims that are dynamic in its graph.
    padded : FrozenGraph or None
        The graph with those dims dynamic whose sizes can be rounded up to the plan's own.
    """

    plan: IreePlan
    sized: DynamicIreePlan | None
    padded: FrozenGraph | None

    @classmethod
    def of(
        cls, plan: IreePlan, sized: DynamicIreePlan | None = None, *, compiles: bool = True
    ) -> OverridePlans:
        """Return a plan with what serves other shapes; ``sized`` is compiled if it may be."""
        graph, target = plan.graph, plan.target
        groups = open_dims(graph)
        if compiles:
            sized = _sized(plan, _sizable(graph, groups, target))
        padded = with_open_dims(graph, groups, lambda g: not any(problems(g, target)))
        return cls(plan=plan, sized=sized, padded=padded)

    @cached_property
    def _served(self) -> tuple[DynamicPlan, ...]:
        """What serves other shapes, the quickest first."""
        found: list[DynamicPlan] = [self.sized] if self.sized is not None else []
        if self.padded is not None:
            own = {dim.name: (dim.example,) for dim in self.padded.symbols}
            about = {
                name: getattr(self.plan, name) for name in ("maker", "target", "knobs", "policy")
            }
            found.append(
                _AtMost(
                    graph=self.padded,
                    buckets=as_buckets(self.padded.symbols, own),
                    whole=self.plan,
                    **about,
                )
            )
        return tuple(found)

    def on_device(self, device_id: int, stream: int | None = None) -> OverridePlans:
        """Return the same, not loaded yet, for a device and a stream of it."""
        return replace(
            self,
            plan=self.plan.on_device(device_id, stream),
            sized=self.sized and self.sized.on_device(device_id, stream),
        )

    def must_serve(self) -> None:
        """Raise `NotSupportedError` if no dim can vary (OVERRIDE-01)."""
        if not self._served:
            got = "none: each size would be compiled when it is first executed"
            hint = "build the graph without override shapes, once for each shape"
            wanted = "a dim that has code for all sizes, or may be padded"
            found = Problem(rule="OVERRIDE-01", got=got, wanted=wanted, hint=hint)
            raise self._refusal("no dim can have another size", [found])

    def at(self, shapes: Mapping[int, ShapeLike]) -> Plan:
        """Return the plan for other shapes; nothing is compiled.

        Raises
        ------
        GraphError
            If the shapes break rules, or leave out a tensor whose shape changes (SHAPE-06).
        NotSupportedError
            If there is no code for them (OVERRIDE-02).
        """
        graph = self.plan.graph
        wanted = as_shapes(graph, shapes)
        if not wanted:
            return self.plan
        other = specialise(graph, wanted)
        left = unnamed(graph, other, wanted)
        if left:
            raise GraphError("shapes are missing; nothing was executed", list(left.values()))
        for each in self._served:
            found = _serving(each, other)
            if found is not None:
                return found
        maker = self.plan.maker
        cached = type(maker)(replace(maker.settings, cache_require_precompiled=True))
        try:
            built = replace(self.plan, maker=cached)._build_for(wanted)
            assert isinstance(built, IreePlan), built  # it has no dynamic dims
            return built.on_device(self.plan.device_id, self.plan.stream)
        except NotPrecompiledError:
            raise self._refusal("there is no code for these shapes", self._closed(other)) from None

    def _closed(self, other: FrozenGraph) -> list[Problem]:
        """Return a problem for each input that has another shape."""
        graph, found = self.plan.graph, []
        for uid in graph.inputs:
            old, new = graph.tensors[uid], other.tensors[uid]
            if (old.dims, old.strides) == (new.dims, new.strides):
                continue
            allowed = [in_words(each.graph.tensors[uid], open=True) for each in self._served]
            found.append(
                Problem(
                    rule="OVERRIDE-02",
                    port=old.label,
                    got=in_words(new),
                    wanted=" or ".join(dict.fromkeys(allowed)) or in_words(old),
                    hint="plan.with_shapes, or hipdnn-iree run --shape, compiles it into the cache",
                )
            )
        return found

    def _refusal(self, why: str, found: list[Problem]) -> NotSupportedError:
        plan = self.plan
        declines = [Decline(engine=plan.engine, problem=problem) for problem in found]
        return NotSupportedError(f"graph {plan.graph.name!r} for {plan.target}: {why}", declines)


@dataclass(kw_only=True, repr=False)
class _AtMost(BucketPlan):
    """Sizes up to those of one plan, rounded up to them."""

    whole: Plan

    def _built(self, bucket: Mapping[str, int]) -> Plan:
        return self.whole


def override_graph(graph: FrozenGraph, target: Target) -> FrozenGraph | None:
    """Return the graph with dynamic dims whose code serves override shapes.

    None if the graph is not built for them, or no code serves them.
    """
    if not graph.is_override_shape_enabled:
        return None
    return _sizable(graph, open_dims(graph), target)


def _sizable(graph: FrozenGraph, groups: list[Group], target: Target) -> FrozenGraph | None:
    return with_open_dims(graph, groups, lambda open: not any(support.problems(open, target)))


def _serving(plan: DynamicPlan, other: FrozenGraph) -> Plan | None:
    """Return what executes a graph at the shapes of another specialisation of it.

    None if more than the sizes differ, or the sizes have no code.  On a CPU tensors that are
    laid out in another way are copied at each call.
    """
    dims = {uid: other.tensors[uid].dims for uid in plan.graph.inputs}
    try:
        found = plan.with_sizes(sizes_of(plan.graph, dims))
    except GraphError:
        return None
    return laid_out(found, other)


def _sized(plan: IreePlan, graph: FrozenGraph | None) -> DynamicIreePlan | None:
    """Return the code for all sizes, or None where there is none."""
    if graph is None:
        return None
    try:
        try:
            found = plan._by_itself(graph)
        except SettingError:  # a strategy that was chosen is for the graph's own shapes
            engine = type(plan.maker)
            settings = replace(plan.maker.settings, compiler_strategies=())
            found = replace(plan, maker=engine(settings), knobs={})._by_itself(graph)
    except (CompileError, NotPrecompiledError) as error:
        log.warning("graph %r has no code for all sizes: %s", graph.name, error)
        return None
    assert isinstance(found, DynamicIreePlan), found
    return found
