# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A module in linalg, TOSA or StableHLO, converted by torch-mlir in a worker."""

from __future__ import annotations

from collections.abc import Mapping

from ..graph_api.errors import CompileError
from ..graph_api.frozen import FrozenGraph
from ..graph_api.specialise import packed_outputs
from . import bindings
from .code_plan import plan_code
from .compiler.client import default_compiler
from .compiler.diagnostics import clean, find_node
from .emit.dialects import DIALECTS
from .options import BuildOptions, WorkerOptions
from .strategies import portable
from .target import Target

__all__ = ["DIALECTS", "converted", "in_dialect"]


def in_dialect(graph: FrozenGraph, target: Target, dialect: str, options: BuildOptions) -> str:
    """Return the module that would be compiled, in another dialect.

    Outputs are results there, without gaps.  Strategies that are chosen by rule and are not of the
    Torch dialect alone have others in their place.

    Parameters
    ----------
    dialect : str
        One of ``DIALECTS``.

    Raises
    ------
    CompileError
        If torch-mlir has no form for an op in the dialect, or breaks down, with the node.
    """
    graph, compiler = packed_outputs(graph), default_compiler(options.workers)
    compiler.start()
    plan = plan_code(graph, target, portable(graph, target, options.code.strategies))
    text = bindings.lower_graph(graph, target, plan, compiler)
    nodes = {f"n{k}": node.label for k, node in enumerate(graph.nodes)}
    return converted(text, dialect, options.workers, label=graph.name or "the graph", nodes=nodes)


def converted(
    text: str,
    dialect: str,
    options: WorkerOptions,
    *,
    label: str,
    nodes: Mapping[str, str] | None = None,
) -> str:
    """Return a module of ours in another dialect; ``nodes`` are labels by location.

    Raises
    ------
    CompileError
        As for `in_dialect`.
    """
    known = nodes or {}
    asked, label = {"dialect": dialect}, f"{label} to {dialect}"
    try:
        _, found = default_compiler(options).perform("dialect", text.encode(), asked, label=label)
    except CompileError as error:
        texts = list(dict.fromkeys(clean(text, known) for text in error.diagnostics))
        raise CompileError(
            error.message,
            stage=error.stage,
            node=find_node(error.diagnostics, text, known),
            diagnostics=texts,
        ) from None
    return found.decode()
