# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The graph as scripts use it: the pure model plus ``build``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..graph_api.errors import CompileError, NotSupportedError
from ..graph_api.graph import Graph as ModelGraph
from ..graph_api.tensor import Tensor

if TYPE_CHECKING:
    from ..graph_api.buckets import BucketsLike
    from ..graph_api.frozen import FrozenGraph
    from ..jit.target import Target
    from .plan import Plan
    from .selection.candidate import Candidate

__all__ = ["Graph"]


class Graph(ModelGraph):
    """An operation graph that can be built for a target.

    Examples
    --------
    >>> import numpy as np
    >>> g = Graph(io_data_type="float")
    >>> x = g.tensor(dims=(2, 3), name="x")
    >>> y = g.relu(x).set_output()
    >>> plan = g.build("cpu")
    >>> plan.run({x: np.array([[-1, 2, -3], [4, -5, 6]], dtype=np.float32)})[y.uid]
    array([[0., 2., 0.],
           [4., 0., 6.]], dtype=float32)

    Shapes follow while the graph is written, and a call that is certain to be wrong raises:

    >>> g.matmul(x, x)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    hipdnn_iree.graph_api.errors.GraphError: graph '' breaks 1 rule(s)
      matmul.b: [MATMUL-02] got dims [2, 3]; wanted dims[-2] = 3, as a's [2, 3] (transpose ...
    """

    checks_calls = True

    def build(
        self,
        target: Target | str = "cpu",
        *,
        engine: str | None = None,
        prefer: str | Sequence[str] | None = None,
        policy: str | None = None,
        knobs: Mapping[str, str] | None = None,
        exact: bool = False,
        buckets: BucketsLike | Mapping[str, BucketsLike] | None = None,
        require_precompiled: bool = False,
        device_id: int | None = None,
    ) -> Plan:
        """Freeze the graph and prepare it for a target.

        Parameters
        ----------
        target : Target or str
            ``"cpu"``, ``"gfx942"``, ``"mi300x"``, ``"cuda:sm_80"``...
        engine : str, optional
            Pin an engine by name, alias or id; it is never replaced by another one.
        prefer : str or sequence of str, optional
            Engines to take before others when they serve the graph.
        policy : str, optional
            Who ranks the engines otherwise; the setting ``HIPDNN_IREE_POLICY`` when not given.
        knobs : mapping of str to str, optional
            How the engine builds the graph, by the name of its knob (``Candidate.knobs``); the
            engine's defaults for the others.  An engine without these knobs is passed over.
        exact : bool
            For a graph with dynamic dims: build for each combination of sizes by itself, when
            it is first met, instead of one code for all sizes.  The code is faster and every op
            is served, at the price of compiling (or finding in the cache) once per size.
        buckets : str, int, sequence of int, or mapping of name to one of these
            For a graph with dynamic dims: build for a few sizes only, each when it is first
            needed, and round others up to the next one.  ``"powers"`` of two, multiples of a
            number, or the sizes themselves, for all dynamic dims or each by name.  Operands are
            padded and results cut at each call.  Graphs in which an op mixes entries along such
            a dim are declined (MIX-01).
        require_precompiled : bool
            Compile nothing, now or for other shapes later: the code has to be in the cache
            (`precompile`).  The setting ``HIPDNN_IREE_REQUIRE_PRECOMPILED`` says so for all.
        device_id : int, optional
            The GPU that the plan runs on, by the driver's number; the setting
            ``HIPDNN_IREE_DEVICE``, which is 0, when not given.  A plan for a stream
            (``plan.on_stream``) runs on the stream's.

        Returns
        -------
        Plan
            Build it once, run it many times.

        Raises
        ------
        GraphError
            The graph breaks rules, or the buckets do not fit its dynamic dims.
        NotSupportedError
            No engine serves it, or the pinned one declines; with every reason.
        SettingError
            There is no engine, policy, knob or choice of that name.
        NotPrecompiledError
            There is no code at hand, and compiling is not allowed.
        CompileError
            The compiler failed.
        """
        from ..jit.settings import settings
        from .selection.select import build

        frozen = self.freeze()
        try:
            return build(
                frozen,
                target,
                settings(),
                engine=engine,
                prefer=prefer,
                policy=policy,
                knobs=knobs,
                exact=exact,
                buckets=buckets,
                require_precompiled=require_precompiled,
                device_id=device_id,
            )
        except (NotSupportedError, CompileError) as error:
            _note_lines(error, frozen)
            raise

    def plans(self, target: Target | str = "cpu") -> list[Candidate]:
        """Return every engine as a candidate: served or declined with reasons, and its knobs.

        Nothing is compiled; ``candidate.build()`` makes its plan.

        Raises
        ------
        GraphError
            The graph breaks rules.
        """
        from ..jit.settings import settings
        from .selection.select import candidates

        return candidates(self.freeze(), target, settings())

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the graph as it is now, and the rules that it breaks."""
        from .pages.shown import graph_fragment

        return graph_fragment(self)

    def aten(self, op: object, *args: Any, name: str = "", **kwargs: Any) -> Any:
        """Add an op of PyTorch, imported as a custom op.

        Needs the extra ``torch`` (``pip install 'hipdnn-iree[torch]'``) now; a graph that was
        saved does not.

        Parameters
        ----------
        op : str or torch.ops overload
            ``"aten.gelu.default"``, ``"aten.topk"`` (its default overload),
            ``torch.ops.aten.gelu.default``...
        *args, **kwargs
            The op's arguments in its own order and names: tensors of this graph (of known dims
            and types, also results of other ops), numbers, lists, None, and `DataType` where
            torch wants a dtype.
        name : str
            Label of the node.

        Returns
        -------
        Tensor or tuple of Tensor
            As the op returns them, with its dims and types, contiguous; a result without dims
            gets dims (1,).

        Raises
        ------
        GraphError
            If torch does not know the op or refuses the operands, or torch-mlir has no form for
            it (TORCH-…).
        NotSupportedError
            If PyTorch is not installed.
        """
        from .torch_import import aten

        return aten(self, op, args, kwargs, name)

    def fx_node(self, node: Any, *inputs: Tensor, name: str = "") -> Any:
        """Add the op that a ``call_function`` node of a torch FX graph calls.

        Parameters
        ----------
        node : torch.fx.Node
            Its metadata (``val`` or ``tensor_meta``), where there is any, must agree with the
            inputs; tensors and fake tensors are welcome alike.
        *inputs : Tensor
            What stands for the nodes that it reads, in the order of ``node.all_input_nodes``.
        name : str
            Label of the node; the FX node's when not given.

        Returns
        -------
        Tensor or tuple of Tensor
            As for ``aten``, which also says what is raised.
        """
        from .torch_import import fx_node

        return fx_node(self, node, inputs, name)

    def torch_function(self, function: Callable[..., Any], *inputs: Tensor, name: str = "") -> Any:
        """Add a Python function of torch tensors, exported and imported as a custom op.

        Parameters
        ----------
        function : callable
            Takes a tensor for each input and returns a tensor or a tuple of them.  It is called
            once, with fake tensors; what it closes over becomes constants.
        *inputs : Tensor
            Tensors of this graph, of known dims and types.
        name : str
            Label of the node.

        Returns
        -------
        Tensor or tuple of Tensor
            As the function returns them; otherwise as for ``aten``, which also says what is
            raised.
        """
        from .torch_import import torch_function

        return torch_function(self, function, inputs, name)


def _note_lines(error: NotSupportedError | CompileError, graph: FrozenGraph) -> None:
    """Add the script's lines that added the nodes which an error names, below its text."""
    declines = () if isinstance(error, CompileError) else error.declines
    named = [error.node] if isinstance(error, CompileError) else [d.problem.node for d in declines]
    lines = {node.label: node.at for node in graph.nodes if node.at}
    for label in dict.fromkeys(named):
        if label in lines:
            error.add_note(f"node {label!r} was added at {lines[label]}")
