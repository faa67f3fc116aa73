# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plans of graphs with dynamic dims whose sizes are rounded up to a few buckets.

Code is compiled for the sizes of a bucket.  For other sizes, operands with dynamic dims are copied
into memory of the bucket's dims before each call, and results are cut to the sizes after it.
``graph_api.independence`` decides in advance, by the behaviour of each op along the dim, that the
padding does not change the results; other graphs are declined.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from ..graph_api.buckets import MOST, Buckets, combinations, in_words
from ..graph_api.dynamic import at_sizes
from ..graph_api.errors import (
    Decline,
    NotPrecompiledError,
    NotSupportedError,
    Problem,
)
from ..graph_api.frozen import FrozenGraph
from ..graph_api.independence import mixing
from ..jit.lru import LruCache
from ..jit.runtime.caller_memory import HOST
from ..jit.runtime.device import Device
from ..jit.runtime.padding import DevicePadded, HostPadded, outermost
from ..jit.target import Target
from .binding import BindingPlan
from .dynamic_plan import DynamicPlan
from .engines.host_memory import arguments_of, buffer_set
from .plan import Plan

if TYPE_CHECKING:
    from ..graph_api.tensor import TensorSpec
    from ..jit.runtime.device_memory import Step
    from ..jit.signature import ArgSpec

__all__ = [
    "RULES",
    "BucketPlan",
    "BucketUse",
    "PaddedPlan",
    "laid_out",
    "must_be_paddable",
    "problems",
]

RULES: dict[str, str] = {
    "PADDED-01": "tensors that are padded have a type of at least 8 bits",
    "PADDED-02": "on a GPU a dim that is padded is the outermost one in memory",
}

# Number of idle sets of padded memory that are kept for each bucket.
_KEPT_SETS = 4

Sizes = tuple[tuple[str, int], ...]


def problems(graph: FrozenGraph, target: Target) -> Iterator[Problem]:
    """Yield the reasons why sizes of a graph cannot be rounded up."""
    hint = "build(exact=True) compiles each size that is met"
    yield from mixing(graph)
    for uid in (*graph.inputs, *graph.outputs):
        spec = graph.tensors[uid]
        if not spec.dynamic:
            continue

        def wrong(rule: str, got: str, wanted: str, label: str = spec.label) -> Problem:
            return Problem(rule=rule, port=label, got=got, wanted=wanted, hint=hint)

        if spec.data_type.bits < 8:
            yield wrong("PADDED-01", spec.data_type.json, "a type of at least 8 bits")
        for axis, name in enumerate(spec.dynamic):
            if name and not target.is_cpu and not outermost(spec.layout.order, spec.dims, axis):
                got = f"dim {axis} ({name}), with strides {list(spec.strides)}"
                yield wrong("PADDED-02", got, "the largest stride there")


def must_be_paddable(graph: FrozenGraph, target: Target, engine: str) -> None:
    """Raise `NotSupportedError` for a graph whose sizes cannot be rounded up."""
    found = list(problems(graph, target))
    if found:
        raise NotSupportedError(
            f"sizes of graph {graph.name!r} cannot be rounded up to buckets",
            [Decline(engine=engine, problem=problem) for problem in found],
        )


class BucketUse(NamedTuple):
    """One bucket of a plan that was used, and the sizes that it served.

    Attributes
    ----------
    bucket : dict of str to int
        The sizes that its code is compiled for.
    sizes : list of dict
        The sizes that it served, in order.
    cache : str
        ``"hit"``, ``"miss"`` or ``"off"``: the source of its code.
    """

    bucket: dict[str, int]
    sizes: list[dict[str, int]]
    cache: str


@dataclass(kw_only=True, repr=False)
class BucketPlan(DynamicPlan):
    """A graph whose sizes are rounded up; ``with_sizes`` returns the plan for given sizes."""

    buckets: Mapping[str, Buckets]
    _codes: LruCache[_Code] = field(default_factory=lambda: LruCache(MOST), init=False, repr=False)
    _used: dict[Sizes, dict[Sizes, str]] = field(default_factory=dict, init=False, repr=False)
    _using: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def used(self) -> list[BucketUse]:
        """Return the buckets that were used so far, with the sizes that each one served."""
        with self._using:
            return [
                BucketUse(
                    dict(bucket), [dict(s) for s in sorted(sizes)], next(iter(sizes.values()))
                )
                for bucket, sizes in sorted(self._used.items())
            ]

    def every(self) -> list[tuple[dict[str, int], Plan]]:
        """Return every bucket with its plan; buckets that were not used so far are built now.

        `hipdnn_iree.precompile` builds several of them in parallel in advance.

        Raises
        ------
        GraphError
            If there are too many (BUCKET-03).
        """
        return [(bucket, self._held(bucket).plan) for bucket in combinations(self.buckets)]

    def _held(self, bucket: Mapping[str, int]) -> _Code:
        return self._codes.get(tuple(bucket.items()), lambda: self._code(bucket))

    def _at(self, graph: FrozenGraph, sizes: Mapping[str, int]) -> Plan:
        bucket = {name: held.holding(sizes[name]) for name, held in self.buckets.items()}
        code = self._held(bucket)
        with self._using:
            served = self._used.setdefault(tuple(bucket.items()), {})
            served.setdefault(tuple((n, sizes[n]) for n in bucket), code.plan.cache)
        if all(sizes[name] == size for name, size in bucket.items()):
            return code.plan
        return PaddedPlan.over(code, graph, bucket)

    def _code(self, bucket: Mapping[str, int]) -> _Code:
        return _Code(self._built(bucket))

    def _built(self, bucket: Mapping[str, int]) -> Plan:
        """Return the plan for the sizes of a bucket."""
        try:
            return self._by_itself(at_sizes(self.graph, bucket))
        except NotPrecompiledError as error:
            raise NotPrecompiledError(
                f"bucket {in_words(bucket)}: {error.message}",
                graph=error.graph,
                target=error.target,
                key=error.key,
                cache=error.cache,
                nearest=error.nearest,
                buckets={name: some.spelled for name, some in self.buckets.items()},
            ) from None


def laid_out(plan: Plan, other: FrozenGraph) -> Plan | None:
    """Return a plan for the shapes of another graph that may only differ in strides.

    On a CPU what is laid out in another way is copied at each call; elsewhere the answer is None,
    as it is for other dims and for types of less than 8 bits.
    """
    mine, theirs = plan.graph.tensors, other.tensors
    bound = (*other.inputs, *other.outputs)
    if any(uid not in mine or mine[uid].dims != theirs[uid].dims for uid in bound):
        return None
    moved = [theirs[uid] for uid in bound if _steps(mine[uid]) != _steps(theirs[uid])]
    if not moved:
        return plan
    if not plan.target.is_cpu or any(spec.data_type.bits < 8 for spec in moved):
        return None
    # Code for a broadcast operand reads one entry for all; a caller's entries may differ.
    if any(theirs[uid].strides[axis] for uid in bound for axis in mine[uid].layout.broadcast):
        return None
    code = plan.code if isinstance(plan, PaddedPlan) else _Code(plan)
    return PaddedPlan.over(code, other, getattr(plan, "bucket", {}))


def _steps(spec: TensorSpec | ArgSpec) -> list[int]:
    """Return the strides that matter: those of dims with more than one entry."""
    return [step for step, extent in zip(spec.strides, spec.dims, strict=True) if extent > 1]


class _Code:
    """The plan of a bucket, and idle sets of memory with its dims."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.idle: deque[_Padded] = deque(maxlen=_KEPT_SETS)  # append and pop are atomic


_Padded = dict[tuple[int, bool], Any]
"""Padded memory by uid, and whether it is host memory."""


@dataclass(kw_only=True, repr=False)
class PaddedPlan(BindingPlan):
    """The code of a bucket, executed at smaller sizes.

    Attributes
    ----------
    bucket : dict of str to int
        The sizes that the code is compiled for.
    code : _Code
        The code of the bucket, shared by the plans of all its sizes.
    """

    bucket: dict[str, int]
    code: _Code

    @classmethod
    def over(cls, code: _Code, graph: FrozenGraph, bucket: dict[str, int]) -> PaddedPlan:
        """Return the plan that executes a code for the shapes of a graph."""
        plan = code.plan
        return cls(
            maker=plan.maker,
            graph=graph,
            target=plan.target,
            knobs=plan.knobs,
            policy=plan.policy,
            why=plan.why,
            cache=plan.cache,
            seconds=plan.seconds,
            workspace_bytes=plan.workspace_bytes,
            statistics=plan.statistics,
            bucket=bucket,
            code=code,
        )

    @cached_property
    def widened(self) -> dict[int, tuple[ArgSpec, ArgSpec]]:
        """Each copied argument by uid: as the caller passes it, and as the code expects it."""
        whole = arguments_of(self.code.plan.graph)
        pairs = {uid: (spec, whole[uid]) for uid, spec in self.arguments.items()}
        return {
            uid: pair
            for uid, pair in pairs.items()
            if pair[0].dims != pair[1].dims or _steps(pair[0]) != _steps(pair[1])
        }

    @property
    def driver(self) -> str | None:
        """IREE's driver, if the engine has one."""
        return getattr(self.code.plan, "driver", None)

    def _execute(self, buffers: Mapping[int, Any], workspace: Any) -> None:
        idle = self.code.idle
        try:
            padded = idle.pop()
        except IndexError:
            padded = {}
        try:
            given, before, after, owners = self._stage(buffers, padded, copy=False)
            for step in before:
                step()
            self.code.plan._execute(given, workspace)
            for step in after:
                step()
            del owners  # they kept the memory alive until here
        finally:
            idle.append(padded)

    def _bind(self, buffers: Mapping[int, Any], workspace: Any, copy: bool) -> Callable[[], None]:
        given, before, after, owners = self._stage(buffers, {}, copy)
        run = self.code.plan._bind(given, workspace, copy)
        lock = threading.Lock()

        # The default keeps the owners, and so the memory, alive for as long as the call exists.
        def call(owners: list[object] = owners) -> None:
            with lock:
                for step in before:
                    step()
                run()
                for step in after:
                    step()

        return call

    def _stage(
        self, buffers: Mapping[int, Any], padded: _Padded, copy: bool
    ) -> tuple[dict[int, Any], list[Step], list[Step], list[object]]:
        """Return the buffers of the code, the copies before and after it, and the owners.

        Memory that ``padded`` lacks is added to it.  Raises `BindError`.
        """
        device = self._device()
        found = buffer_set(self.graph, self.arguments, buffers)
        found.check(device, copy=copy)
        given = dict(buffers)
        before: list[Step] = []
        after: list[Step] = []
        for uid, (spec, whole) in self.widened.items():
            about = found.memory[uid]
            here = device.on_host or about.device == HOST
            stand_in = padded.get((uid, here))
            if stand_in is None:
                stand_in = HostPadded(whole) if here else DevicePadded(device, whole)
                padded[uid, here] = stand_in
            given[uid] = stand_in.given
            (after if spec.output else before).extend(stand_in.steps(spec, about))
        return given, before, after, [*found.owners, padded]

    def _device(self) -> Device:
        if self.target.is_cpu:
            return Device.described("local-sync")
        executable = getattr(self.code.plan, "executable", None)
        assert executable is not None, "engines for GPUs have loaded code"
        found: Device = executable.device
        return found
