# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plans: a graph that one engine has prepared for one target, and every way to execute it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from ..graph_api.arguments import nearest
from ..graph_api.dynamic import at_sizes
from ..graph_api.errors import BindError, DeviceError, NotSupportedError, Problem
from ..graph_api.frozen import FrozenGraph
from ..graph_api.specialise import Shape, ShapeLike, as_shapes, specialise, unnamed
from ..graph_api.tensor import Tensor
from ..jit.lru import LruCache
from ..jit.target import Target
from ..jit.trace import TracedCall, executing, span
from .engine import build_pinned
from .libraries import as_given
from .results import Results

if TYPE_CHECKING:
    import numpy as np

    from ..jit.inspect.fused import Fused
    from ..jit.inspect.profile import DispatchRun
    from ..jit.runtime.pending import Pending
    from .bucket_plan import BucketUse
    from .engine import Engine
    from .verify import Report

__all__ = ["RULES", "Buffers", "Plan", "Shapes", "TensorKey"]

RULES: dict[str, str] = {
    "PLAN-01": "buffers come by tensor, uid, or a name of exactly one input or output",
}

T = TypeVar("T")

TensorKey = Tensor | int | str
# A mapping's key type is invariant: a dict[Tensor, ndarray] is no Mapping[TensorKey, Any].
Buffers = Mapping[Tensor, Any] | Mapping[int, Any] | Mapping[str, Any] | Mapping[TensorKey, Any]
Shapes = Mapping[Any, ShapeLike]  # of a union, no type of a dict written out would be inferred

# Plans for other shapes that a plan keeps; a server meets a few dozen sizes, each of some 15 KiB.
_KEPT_SHAPES = 64
_KEPT_STREAMS = 16


@dataclass(kw_only=True, repr=False)
class Plan(ABC):
    """A graph that one engine has prepared for one target.

    Attributes
    ----------
    maker : Engine
        The engine that built it and that runs it, with the settings that it was made for.
    graph : FrozenGraph
        What is computed.
    target : Target
        What it was built for.
    knobs : dict
        The choices that it was built with, by the name of the `EngineKnob`; those that are not
        here are the engine's defaults.
    policy : str
        Who chose the engine and the knobs: ``"pinned"``, ``"preferred"``, or the name of a
        selection policy; empty when the engine was called directly.
    why : str
        What the choice of the engine rests on, in words; empty with ``policy``.
    cache : str
        ``"hit"``, ``"miss"`` or ``"off"``: where the code came from.
    seconds : mapping of str to float
        Wall time of each stage of the build, in seconds.
    workspace_bytes : int
        Scratch memory that an execution needs.
    statistics : mapping
        What is known of the code: dispatches, fills, copies, transient bytes.
    """

    maker: Engine
    graph: FrozenGraph
    target: Target
    knobs: dict[str, str] = field(default_factory=dict)
    policy: str = ""
    why: str = ""
    cache: str = "off"
    seconds: dict[str, float] = field(default_factory=dict)
    workspace_bytes: int = 0
    statistics: dict[str, Any] = field(default_factory=dict)
    # Tensors whose shapes `with_shapes` has changed though its caller did not name them.
    _unnamed: dict[int, Problem] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _others: LruCache[Plan] = field(
        default_factory=lambda: LruCache(_KEPT_SHAPES), init=False, repr=False, compare=False
    )
    _streams: LruCache[Plan] = field(
        default_factory=lambda: LruCache(_KEPT_STREAMS), init=False, repr=False, compare=False
    )

    def __repr__(self) -> str:
        knobs = "".join(f", {name}={choice}" for name, choice in self.knobs.items())
        knobs += f", served with {self.attempt}" if self.attempt else ""
        return (
            f"<{type(self).__name__} of graph {self.graph.name!r} for {self.target} by "
            f"{self.engine} (cache {self.cache}{knobs})>"
        )

    @property
    def engine(self) -> str:
        """Name of the engine."""
        return self.maker.NAME

    @property
    def engine_id(self) -> int:
        """hipDNN's id of the engine."""
        return self.maker.id

    @property
    def attempt(self) -> str:
        """By what its code was made where it does not compile as planned; else empty."""
        return ""

    @property
    def fingerprint(self) -> str:
        """What tells code of two plans of one engine apart; empty where that is not known."""
        return ""

    @property
    def in_place(self) -> tuple[tuple[int, int], ...]:
        """The pairs (output, input), by uid, that may be given the same buffer.

        These are elementwise graphs with one result, and inputs with its dims, its strides and
        elements of its size.  Every other overlap with an output is refused (BIND-10).
        """
        return ()

    def dispatches(self) -> tuple[Fused, ...]:
        """Return the kernels that one execution launches, with the nodes that each computes.

        The compiler is asked, in its worker; nothing is run.  Kernels that pack the operands of a
        tiled product are made later, and are only in ``statistics``.  Empty for an engine that does
        not say.

        Raises
        ------
        CompileError
            If the compiler fails.
        """
        return self.maker.dispatches(self.graph, self.target, self.knobs)

    def profile(self, inputs: Buffers | None = None, *, runs: int = 3) -> tuple[DispatchRun, ...]:
        """Return how long each dispatch took, launch by launch: measured by IREE's own tools.

        Its runtime tells that only to them, and only of code for the CPU, so that they execute
        the code anew, in a process of theirs.  Within `trace` the launches are part of it.

        Parameters
        ----------
        inputs : mapping, optional
            Host arrays as for `run`; those of `random_inputs` when not given.
        runs : int
            Executions; the first of them meets cold caches.

        Raises
        ------
        NotSupportedError
            For other engines and targets, and for graphs with dynamic dims, runtime scalars or
            constants.
        BindError
            The inputs do not fit.
        DeviceError
            If the tool fails.
        """
        raise NotSupportedError(
            f"{self.engine} does not say how long the dispatches of {self.graph.name!r} take on "
            f"{self.target}; that is known of the IREE engine's code for fixed sizes on the CPU"
        )

    def engines(self) -> tuple[str, ...]:
        """Return the name of the engine that computes each node of the graph."""
        return self.maker.engines(self.graph, self.target, self.knobs)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the graph by engine and dispatch, and what is known."""
        from .pages.shown import plan_fragment

        return plan_fragment(self)

    def with_shapes(self, shapes: Shapes) -> Plan:
        """Return the plan of the same engine for other dims and strides of some tensors.

        This is what executes hipDNN's graphs with override shapes.  The plan is built when the
        shapes are first asked for (its code may be in the cache), and the last ones are kept:
        asking again costs microseconds.  May be called by many threads at once.

        Parameters
        ----------
        shapes : mapping
            By tensor, uid or name: dims, or (dims, strides).  Inputs that are not named keep
            their dims; outputs take those that follow; an output that is named is checked.
            A buffer that is an address without a size is only taken for tensors that are named
            or keep their shape (SHAPE-06).

        Returns
        -------
        Plan
            For exactly these shapes, with a workspace of its own size; this plan itself when
            nothing differs.

        Raises
        ------
        GraphError
            The graph breaks rules with these shapes, or they name no input or output.
        NotSupportedError
            The engine declines the graph with these shapes.
        CompileError
            The compiler failed.
        """
        wanted = as_shapes(self.graph, self._by_uid(shapes))
        if not wanted:
            return self
        make = self._build_for
        return self._others.get(tuple(wanted.items()), lambda: self._left(make(wanted), wanted))

    def _left(self, plan: Plan, shapes: Mapping[int, Shape]) -> Plan:
        """Return a plan for these shapes that takes no bare addresses for those left out."""
        plan._unnamed = unnamed(self.graph, plan.graph, shapes)
        return plan

    def with_sizes(self, sizes: Mapping[str, int]) -> Plan:
        """Return the plan for some sizes of the graph's dynamic dims, by name.

        It has fixed dims, a workspace of its own size, and is kept like those of `with_shapes`.

        Raises
        ------
        GraphError
            For a size that is missing, unknown or out of its range (DYN-03), and for rules that
            the graph breaks at these sizes.
        """
        at_sizes(self.graph, sizes)
        return self

    def _build_for(self, shapes: Mapping[int, Shape]) -> Plan:
        return self._by_itself(specialise(self.graph, shapes))

    def _by_itself(self, graph: FrozenGraph) -> Plan:
        """Return the plan that the same engine builds for this graph at other sizes."""
        knobs = self.knobs
        if knobs and self.policy != "pinned":
            # What a policy chose gives way to the engine's default where it does not apply; what
            # somebody pinned stays, and is refused there.
            allowed = {k.name: k.choices for k in self.maker.knobs(graph, self.target)}
            knobs = {n: v for n, v in knobs.items() if v in allowed.get(n, ())}
        plan = build_pinned(self.maker, graph, self.target, knobs)
        plan.policy, plan.why = self.policy, self.why
        return plan

    def execute(self, buffers: Buffers, workspace: Any = None, *, stream: Any = None) -> None:
        """Run on the caller's buffers: every input and output, by tensor, uid or name.

        Parameters
        ----------
        buffers : mapping
            For each input and output a NumPy array (or any ``__dlpack__`` object, or an
            address) with the tensor's logical dims and its strides.
        workspace : buffer, optional
            ``workspace_bytes`` of scratch memory; for None or a null pointer it is the plan's.
        stream : int or stream object, optional
            GPU stream to run on; see `on_stream`.

        Raises
        ------
        BindError
            With all misfits at once; nothing has been run then.
        DeviceError
            If the device fails, or there is a stream and the plan takes none.
        """
        execute = self._at_stream(stream)._execute
        if executing():
            execute = self._traced(execute, "execute")
        execute(self._by_uid(buffers), workspace)

    def execute_async(
        self,
        buffers: Buffers,
        workspace: Any = None,
        *,
        stream: Any = None,
        after: Iterable[Pending] = (),
    ) -> Pending:
        """Start a run and return at once; what is returned can be waited for and awaited.

        Runs on the same buffers follow one another; any other order among runs that share
        memory is the caller's to give, with ``after`` or by waiting.  Buffers are kept alive,
        and must be left alone, until the run is done.  Where nothing can go on beside the host
        (``local-sync``, buffers that are copied, engines without a device) the run is over when
        this returns.  Parameters and errors are those of `execute`; what fails later is raised
        by ``wait``.

        Examples
        --------
        >>> first = plan.execute_async(one)  # doctest: +SKIP
        >>> plan.execute_async(two, after=[first]).wait()  # doctest: +SKIP
        True
        """
        submit = self._at_stream(stream)._submit
        if executing():
            submit = self._traced(submit, "submit")
        return submit(self._by_uid(buffers), workspace, after)

    def execute_many(
        self,
        sets: Iterable[Buffers],
        workspace: Any = None,
        *,
        stream: Any = None,
    ) -> None:
        """Run on several sets of buffers in order, as a loop of `execute` would, and faster.

        All sets are checked before the first one is run; the host waits once, at the end.
        A later set sees what earlier ones have written.
        """
        many = self._at_stream(stream)._many
        if executing():
            many = self._traced(many, "execute many")
        many([self._by_uid(buffers) for buffers in sets], workspace)

    def on_stream(self, stream: Any) -> Plan:
        """Return this plan for a stream of a GPU; the last few are kept (`forget_stream`).

        Parameters
        ----------
        stream : int or stream object
            The handle (``hipStream_t``, ``CUstream``; 0 is the default stream), or a stream of
            PyTorch, CuPy or hip-python.  It must live until the plan that is returned is gone.

        Notes
        -----
        HIP: work goes to the stream itself.  Calls return when it is enqueued, and its order
        among other work is the stream's.  CUDA, and the default stream of either: IREE runs on a
        stream of its own beside those of other plans.  The host waits for the caller's stream
        before it starts a run; ``execute`` returns when the results are there; after
        ``execute_async`` other work on them must be enqueued after ``wait``.

        Raises
        ------
        DeviceError
            If the plan is for a CPU, or its engine takes no streams.
        """
        from ..jit.runtime.streams import handle

        number = handle(stream)
        return self._streams.get(number, lambda: self._on(number))

    def forget_stream(self, stream: Any) -> None:
        """Let go of what `on_stream` keeps for a stream, as before it is destroyed."""
        from ..jit.runtime.streams import handle

        self._streams.drop(handle(stream))

    def _at_stream(self, stream: Any) -> Plan:
        return self if stream is None else self.on_stream(stream)

    def _on(self, stream: int) -> Plan:
        raise DeviceError(
            f"engine {self.engine} takes no stream for {self.target}, got {stream:#x}; "
            "leave it out: results are there when execute returns"
        )

    def run(self, inputs: Buffers, *, copy: bool = False) -> Results:
        """Run on the inputs and return new arrays, in logical dims and the right layout.

        They are found by uid, tensor or name: ``results[y]``, ``results["y"]``.  With ``copy``
        inputs in other strides are copied; without it they are a ``BindError``.  Inputs of PyTorch
        give results of PyTorch, those of another library that follows the Python array API give
        its own arrays; everything else gives NumPy arrays, with types of ml_dtypes.
        """
        run = self._traced(self._run, "run") if executing() else self._run
        given = self._by_uid(inputs)
        return Results(as_given(run(given, copy), given.values(), self.graph), self.graph)

    def __call__(self, inputs: Buffers | None = None, /, **named: Any) -> Results:
        """Run on the inputs, as `run` does; they may be given by name: ``plan(x=a, w=b)``."""
        given: dict[Any, Any] = named
        if inputs is not None:
            given = {**dict[Any, Any](inputs), **named}
        return self.run(given)

    def random_inputs(self, seed: int = 0) -> dict[int, np.ndarray[Any, Any]]:
        """Return an array with random values for each input, by uid.

        The values are such that the graph is well conditioned; equal seeds give equal values.
        """
        from .verify import random_inputs

        return random_inputs(self.graph, seed)

    def verify(self, inputs: Buffers | None = None, *, seed: int = 0) -> Report:
        """Run and compare every element with what a correct result may be.

        The reference is float64; it follows rounding errors through the graph, so that there is
        no tolerance to choose.

        Parameters
        ----------
        inputs : mapping, optional
            Host arrays as for `run`; those of `random_inputs` when not given.
        seed : int
            Of the random inputs.

        Returns
        -------
        Report
            ``report.ok`` says whether all elements are right, ``str(report)`` how far each output
            is off at most.

        Raises
        ------
        BindError
            The inputs do not fit.
        NotSupportedError
            An op without a reference (REF-01), such as a custom op.

        Examples
        --------
        >>> from hipdnn_iree import Graph
        >>> g = Graph(io_data_type="float")
        >>> y = g.relu(g.tensor(dims=(2, 3))).set_output().set_name("y")
        >>> print(g.build("cpu").verify())
        y: max abs error 0, rel 0; ok
        """
        from .verify import verify

        given = self.random_inputs(seed) if inputs is None else self._by_uid(inputs)
        return verify(self, given)

    def bind(
        self, buffers: Buffers, workspace: Any = None, *, copy: bool = False
    ) -> Callable[[], None]:
        """Return a call with all buffers resolved: what a serving loop repeats.

        With ``copy`` buffers in other strides are copied in and out at each call.
        """
        if not executing():
            return self._bind(self._by_uid(buffers), workspace, copy)
        with span("bind", "execute", graph=self.graph.name):
            call = self._bind(self._by_uid(buffers), workspace, copy)
        return self._traced(call, "execute")

    def _traced(self, call: Callable[..., T], name: str) -> Callable[..., T]:
        """Return a call whose executions are events of a trace."""
        about = {"graph": self.graph.name, "engine": self.engine, "target": str(self.target)}
        return TracedCall(call, name, about)

    @abstractmethod
    def _execute(self, buffers: Mapping[int, Any], workspace: Any) -> None: ...

    @abstractmethod
    def _run(self, inputs: Mapping[int, Any], copy: bool) -> dict[int, np.ndarray[Any, Any]]: ...

    @abstractmethod
    def _bind(
        self, buffers: Mapping[int, Any], workspace: Any, copy: bool
    ) -> Callable[[], None]: ...

    def _submit(
        self, buffers: Mapping[int, Any], workspace: Any, after: Iterable[Pending]
    ) -> Pending:
        """Start a run; here, for engines that cannot, it is over at once."""
        from ..jit.runtime.pending import Pending

        for pending in after:
            pending.wait()
        self._execute(buffers, workspace)
        return Pending.finished()

    def _many(self, sets: Sequence[Mapping[int, Any]], workspace: Any) -> None:
        for bind in [self._bind(buffers, workspace, False) for buffers in sets]:
            bind()

    def used(self) -> list[BucketUse]:
        """Return the buckets that were used so far; none of a plan that rounds no sizes up."""
        return []

    def _unknown_name(self, key: object, count: int) -> Problem:
        """Return the problem of a name that no input or output has, or several have."""
        own, dims = self.graph.tensors.values(), [dim.name for dim in self.graph.symbols]
        names = sorted({spec.name for spec in own if spec.name and not spec.virtual})
        near = "" if count else nearest(key, [*names, *dims])
        return Problem(
            rule="PLAN-01",
            port=str(key),
            got=f"{count} inputs and outputs of this name",
            wanted="the name of one input or output, a uid, or a Tensor",
            hint=f"{near and f'{near} '}names: {', '.join(names) or 'none'}"
            + (f"; dynamic dims: {', '.join(dims)}" if dims else ""),
        )

    def _by_uid(self, buffers: Buffers) -> dict[int, Any]:
        found: dict[int, Any] = {}
        problems = []
        if not hasattr(buffers, "items"):
            inputs = ", ".join(self.graph.tensors[uid].label for uid in self.graph.inputs)
            raise BindError(
                "the buffers have no names",
                [
                    Problem(
                        rule="PLAN-01",
                        port="buffers",
                        got=type(buffers).__name__,
                        wanted="a dict, by tensor, uid or name",
                        hint=f"inputs: {inputs}",
                    )
                ],
            )
        for key, buffer in buffers.items():
            if isinstance(key, Tensor):
                found[key.uid] = buffer
            elif isinstance(key, int):
                found[key] = buffer
            else:
                uids = [u for u, s in self.graph.tensors.items() if s.name == key and not s.virtual]
                if len(uids) == 1:
                    found[uids[0]] = buffer
                else:
                    problems.append(self._unknown_name(key, len(uids)))
        if problems:
            raise BindError("some names are not those of one input or output", problems)
        if self._unnamed:
            bare = [u for u in self._unnamed if u in found and _is_bare(found[u])]
            if bare:
                raise BindError(
                    "memory of unknown size; nothing was executed", [self._unnamed[u] for u in bare]
                )
        return found


def _is_bare(buffer: Any) -> bool:
    """Whether a buffer is an address without a size."""
    return isinstance(buffer, int) or getattr(buffer, "nbytes", 0) is None
